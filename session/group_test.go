package session

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// crowd is a group's sealer, and the gateway's and the client's side of one member.
type crowd struct {
	*pair
	t    *testing.T
	seal record.GroupSealer
	pool *record.Pool
}

func newCrowd(t *testing.T, id suite.ID) *crowd {
	t.Helper()
	c := &crowd{t: t, pool: record.NewPool(0, 0)}
	c.pair = newPair(t, options{suite: id, client: ClientConfig{PostQuantum: PostQuantumOff}}).establish(t)
	c.rotate(1)
	return c
}

// rotate begins another group.
func (c *crowd) rotate(number uint32) {
	secret, err := record.NewSecret(bytes.NewReader(bytes.Repeat([]byte{byte(number)}, record.SecretSize)))
	must(c.t, err)
	c.seal.Clear(c.pool)
	c.seal = record.GroupSealer{}
	c.seal.Init(c.client.Suite(), number, secret, record.Limits{})
}

// batch seals the next batch for the group.
func (c *crowd) batch() []byte {
	return c.seal.Seal(c.pool, nil, byte(wire.KindGroupRecord), wire.AppendBatchFrame(nil, nil))
}

func (c *crowd) key() *wire.ServerFrame {
	at := c.seal.Point()
	return &wire.ServerFrame{Message: &wire.ServerFrame_GroupKey{GroupKey: &wire.GroupKey{Id: at.ID,
		Secret: c.seal.Secret().AppendTo(nil), Suite: c.client.Suite().String(), NextCounter: at.Next, Chain: at.Chain[:]}}}
}

func (c *crowd) mark() *wire.ServerFrame {
	at := c.seal.Point()
	return &wire.ServerFrame{Message: &wire.ServerFrame_GroupMark{GroupMark: &wire.GroupMark{
		Id: at.ID, Counter: at.Next, Chain: at.Chain[:]}}}
}

func leave(id uint32) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_GroupLeave{GroupLeave: &wire.GroupLeave{Id: id}}}
}

var heartbeat = &wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{}}}

// message is one thing that the member gets: a group record, or a frame in a
// record of the session.
type message struct {
	group   []byte
	frame   *wire.ServerFrame
	goodbye bool
}

// send carries messages the whole way, until one fails. It reports how many batches opened.
func (c *crowd) send(msgs ...message) (batches int, err error) {
	c.t.Helper()
	for _, m := range msgs {
		msg := bytes.Clone(m.group)
		switch {
		case m.goodbye:
			msg = c.gateway.Seal(nil, wire.KindGoodbye, nil)
		case m.frame != nil:
			plaintext, err := wire.AppendServerFrame(nil, m.frame)
			must(c.t, err)
			msg = c.gateway.Seal(nil, wire.KindRecord, plaintext)
		}
		kind, plaintext, err := c.client.Open(msg)
		if err != nil {
			return batches, err
		}
		if kind == wire.KindGoodbye {
			continue
		}
		f, err := wire.ParseServerFrame(plaintext)
		must(c.t, err)
		done, err := c.client.Admit(kind, f)
		if err != nil {
			return batches, err
		}
		about := f.GetGroupKey() != nil || f.GetGroupMark() != nil || f.GetGroupLeave() != nil
		if done != about {
			c.t.Fatalf("%v: dealt with: %v", f, done)
		}
		if f.GetBatch() != nil {
			batches++
		}
	}
	return batches, nil
}

func (c *crowd) mustSend(msgs ...message) {
	c.t.Helper()
	if _, err := c.send(msgs...); err != nil {
		c.t.Fatal(err)
	}
}

func framed(f *wire.ServerFrame) message { return message{frame: f} }
func sealed(msg []byte) message          { return message{group: msg} }

func TestGroupFromKeyToLeave(t *testing.T) {
	for _, id := range suite.All() {
		c := newCrowd(t, id)
		for n := uint32(1); n < 4; n++ {
			c.mustSend(framed(c.key()), sealed(c.batch()))
			// A key change of the session may stand between, and says nothing of the group.
			update := c.gateway.AppendKeyUpdate(nil, 0)
			opens(t, c.client, update, wire.KindKeyUpdate, nil)
			c.mustSend(sealed(c.batch()), framed(c.mark()), framed(heartbeat), sealed(c.batch()), framed(c.mark()))
			c.rotate(n + 1) // in place of the one before, without a leave
		}
		c.mustSend(framed(c.key()), sealed(c.batch()), framed(c.mark()), framed(leave(4)), framed(heartbeat))
		c.mustSend(framed(c.key()), message{goodbye: true}) // back in the same group, and the end
		if kept := c.clientPool.Stats().Kept; kept > 2 {
			t.Errorf("%v: %d ciphers are kept", id, kept)
		}
		c.client.Close()
		if kept := c.clientPool.Stats().Kept; kept != 0 {
			t.Errorf("%v: %d ciphers are kept after Close", id, kept)
		}
	}
}

// TestGroupMisuse: each of these ends the session with 4400, all alike, and no
// batch comes out but those before.
func TestGroupMisuse(t *testing.T) {
	foreign := func(c *crowd) *crowd { o := newCrowd(t, c.client.Suite()); return o }
	alter := func(f *wire.ServerFrame, change func(*wire.GroupKey)) *wire.ServerFrame {
		change(f.GetGroupKey())
		return f
	}
	for name, test := range map[string]struct {
		batches int
		msgs    func(c *crowd) []message
	}{
		"record without a key": {0, func(c *crowd) []message { return []message{sealed(c.batch())} }},
		"record older than the member": {0, func(c *crowd) []message {
			old := c.batch()
			return []message{framed(c.key()), sealed(old)}
		}},
		"record left out": {0, func(c *crowd) []message {
			k := c.key()
			c.batch()
			return []message{framed(k), sealed(c.batch())}
		}},
		"record twice": {1, func(c *crowd) []message {
			k, b := c.key(), c.batch()
			return []message{framed(k), sealed(b), sealed(b)}
		}},
		"record of the key before": {0, func(c *crowd) []message {
			k, b := c.key(), c.batch()
			c.rotate(2)
			return []message{framed(k), framed(c.key()), sealed(b)}
		}},
		"record after leaving": {0, func(c *crowd) []message {
			return []message{framed(c.key()), framed(leave(1)), sealed(c.batch())}
		}},
		"record after goodbye": {0, func(c *crowd) []message {
			return []message{framed(c.key()), {goodbye: true}, sealed(c.batch())}
		}},
		"header alone": {0, func(c *crowd) []message { return []message{framed(c.key()), sealed([]byte{0x11})} }},
		"lost tail": {0, func(c *crowd) []message {
			k := c.key()
			c.batch()
			return []message{framed(k), framed(c.mark())}
		}},
		"forged by another member": {1, func(c *crowd) []message {
			insider := foreign(c)
			forged := insider.seal.Seal(insider.pool, nil, 0x11, wire.AppendBatchFrame(nil, []wire.BatchItem{{Topic: 1, Seq: 1}}))
			k := c.key()
			c.batch()
			return []message{framed(k), sealed(forged), framed(c.mark())}
		}},
		"forged message that is no batch": {0, func(c *crowd) []message {
			plaintext, err := wire.AppendServerFrame(nil, heartbeat)
			must(t, err)
			return []message{framed(c.key()), sealed(c.seal.Seal(c.pool, nil, 0x11, plaintext))}
		}},
		"held back behind a mark": {0, func(c *crowd) []message {
			k, b := c.key(), c.batch()
			return []message{framed(k), framed(c.mark()), sealed(b)}
		}},
		"message without a mark": {1, func(c *crowd) []message {
			k, b := c.key(), c.batch()
			return []message{framed(k), sealed(b), framed(heartbeat)}
		}},
		"key without a mark": {1, func(c *crowd) []message {
			k, b := c.key(), c.batch()
			c.rotate(2)
			return []message{framed(k), sealed(b), framed(c.key())}
		}},
		"leaving without a mark": {1, func(c *crowd) []message {
			k, b := c.key(), c.batch()
			return []message{framed(k), sealed(b), framed(leave(1))}
		}},
		"goodbye without a mark": {1, func(c *crowd) []message {
			k, b := c.key(), c.batch()
			return []message{framed(k), sealed(b), {goodbye: true}}
		}},
		"mark without a group": {0, func(c *crowd) []message { return []message{framed(c.mark())} }},
		"mark of another group": {0, func(c *crowd) []message {
			k := c.key()
			c.rotate(2)
			return []message{framed(k), framed(c.mark())}
		}},
		"mark with a short chain": {0, func(c *crowd) []message {
			m := c.mark()
			m.GetGroupMark().Chain = m.GetGroupMark().Chain[:31]
			return []message{framed(c.key()), framed(m)}
		}},
		"leaving without a group": {0, func(c *crowd) []message { return []message{framed(leave(1))} }},
		"leaving another group":   {0, func(c *crowd) []message { return []message{framed(c.key()), framed(leave(2))} }},
		"key with a short secret": {0, func(c *crowd) []message {
			return []message{framed(alter(c.key(), func(k *wire.GroupKey) { k.Secret = k.Secret[:31] }))}
		}},
		"key with a long chain": {0, func(c *crowd) []message {
			return []message{framed(alter(c.key(), func(k *wire.GroupKey) { k.Chain = append(k.Chain, 0) }))}
		}},
		"key of another suite": {0, func(c *crowd) []message {
			return []message{framed(alter(c.key(), func(k *wire.GroupKey) { k.Suite = "plain" }))}
		}},
		"key of an unknown suite": {0, func(c *crowd) []message {
			return []message{framed(alter(c.key(), func(k *wire.GroupKey) { k.Suite = "rot13" }))}
		}},
		"key with a counter at the limit": {0, func(c *crowd) []message {
			return []message{framed(alter(c.key(), func(k *wire.GroupKey) { k.NextCounter = record.MaxReceiverCount }))}
		}},
	} {
		for _, id := range []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305} {
			c := newCrowd(t, id)
			batches, err := c.send(test.msgs(c)...)
			mustEnd(t, name, c.client, err)
			if batches != test.batches {
				t.Errorf("%s: %d batches came out", name, batches)
			}
		}
	}
}

func TestEveryGroupRecordByteIsProtected(t *testing.T) {
	for _, id := range suite.All() {
		if id == suite.Plain {
			continue
		}
		for at := range newCrowd(t, id).batch() {
			c := newCrowd(t, id)
			c.mustSend(framed(c.key()))
			msg := c.batch()
			msg[at] ^= 0x80
			_, plaintext, err := c.client.Open(msg)
			mustEnd(t, fmt.Sprintf("%v, byte %d", id, at), c.client, err)
			if plaintext != nil {
				t.Errorf("%v, byte %d: plaintext came out", id, at)
			}
		}
	}
}

// TestGatewayTakesNoGroupRecord: groups go one way.
func TestGatewayTakesNoGroupRecord(t *testing.T) {
	c := newCrowd(t, suite.AES128GCM)
	_, _, err := c.gateway.Open(c.batch())
	mustEnd(t, "group record to the gateway", c.gateway, err)
}

func TestAdmitAfterTheEnd(t *testing.T) {
	c := newCrowd(t, suite.AES128GCM)
	c.client.Close()
	if _, err := c.client.Admit(wire.KindRecord, c.key()); !errors.Is(err, ErrClosed) {
		t.Errorf("key after the end: %v", err)
	}
	if c.client.past.group != nil {
		t.Error("a closed session keeps a group's key")
	}
}

// FuzzGroupRecords feeds a member: only the genuine next record opens, everything
// else ends the session with 4400.
func FuzzGroupRecords(f *testing.F) {
	key := testKey(f, 1)
	member := func(t testing.TB) (*Session, []byte) {
		b := bindingOf(suite.AES128GCM, RolePush)
		p := &pair{}
		var err error
		p.client, err = NewClient(&ClientConfig{Pins: []PublicKey{key.Public()}, PostQuantum: PostQuantumOff}, record.NewPool(0, 0), b)
		must(t, err)
		p.gateway, err = NewGateway(&GatewayConfig{Key: key}, record.NewPool(0, 0), b)
		must(t, err)
		p.establish(t)
		var sealer record.GroupSealer
		secret, err := record.NewSecret(bytes.NewReader(make([]byte, record.SecretSize)))
		must(t, err)
		sealer.Init(suite.AES128GCM, 1, secret, record.Limits{})
		at := sealer.Point()
		_, err = p.client.Admit(wire.KindRecord, &wire.ServerFrame{Message: &wire.ServerFrame_GroupKey{GroupKey: &wire.GroupKey{
			Id: at.ID, Secret: sealer.Secret().AppendTo(nil), Suite: suite.AES128GCM.String(), Chain: at.Chain[:]}}})
		must(t, err)
		return p.client, sealer.Seal(record.NewPool(0, 0), nil, byte(wire.KindGroupRecord), []byte("hello"))
	}
	_, genuine := member(f)
	f.Add(genuine)
	f.Add(genuine[:record.GroupHeaderSize])
	f.Add([]byte{0x11, 0, 0, 0, 1})
	f.Add(append([]byte{0x11, 0, 0, 0, 1}, make([]byte, 24)...))
	f.Add(append([]byte{0x11, 0, 0, 0, 2}, genuine[5:]...))
	f.Fuzz(func(t *testing.T, msg []byte) {
		s, genuine := member(t)
		same := bytes.Equal(msg, genuine)
		_, plaintext, err := s.Open(bytes.Clone(msg))
		if same {
			must(t, err)
			if string(plaintext) != "hello" {
				t.Errorf("opened %q", plaintext)
			}
			return
		}
		mustEnd(t, "fuzzed group record", s, err)
	})
}
