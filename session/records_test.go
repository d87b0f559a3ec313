package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// rekeyLimits are the settings under which every test of records runs: the
// protocol's maxima, and a new key for each record.
var rekeyLimits = map[string]record.Limits{"usual": {}, "one record": {Records: 1}}

// everyWay runs a test for each suite that protects, under each rekey limit,
// in both directions.
func everyWay(t *testing.T, test func(t *testing.T, l *line)) {
	for name, limits := range rekeyLimits {
		for _, id := range suite.All() {
			if id == suite.Plain {
				continue
			}
			o := options{suite: id, client: ClientConfig{Limits: limits, PostQuantum: PostQuantumOff}, gateway: GatewayConfig{Limits: limits}}
			t.Run(fmt.Sprintf("%v, %s", id, name), func(t *testing.T) {
				p := newPair(t, o).establish(t)
				test(t, &line{t: t, from: p.client, to: p.gateway})
				p = newPair(t, o).establish(t)
				test(t, &line{t: t, from: p.gateway, to: p.client})
			})
		}
	}
}

// line carries the messages of one direction.
type line struct {
	t        *testing.T
	from, to *Session
}

// send seals one record, with the key update before it if one is due: all the
// messages that go on the wire.
func (l *line) send(text string) (msgs [][]byte) {
	if l.from.RekeyDue(0) {
		msgs = append(msgs, l.from.AppendKeyUpdate(nil, 0))
	}
	return append(msgs, l.from.Seal(nil, wire.KindRecord, []byte(text)))
}

// deliver opens messages until one fails.
func (l *line) deliver(msgs ...[]byte) (texts []string, err error) {
	for _, msg := range msgs {
		kind, plaintext, err := l.to.Open(bytes.Clone(msg))
		if err != nil {
			return texts, err
		}
		if kind == wire.KindRecord {
			texts = append(texts, string(plaintext))
		}
	}
	return texts, nil
}

func TestRecordsArriveInOrder(t *testing.T) {
	everyWay(t, func(t *testing.T, l *line) {
		for i := range 20 {
			want := fmt.Sprint("tick ", i)
			got, err := l.deliver(l.send(want)...)
			if err != nil || len(got) != 1 || got[0] != want {
				t.Fatalf("%q, %v", got, err)
			}
		}
	})
}

// TestAlteredRecords: each of these ends the session with 4400, and what came
// before it is all that comes out.
func TestAlteredRecords(t *testing.T) {
	for name, alter := range map[string]func(msgs [][]byte) [][]byte{
		"replayed":           func(m [][]byte) [][]byte { return append(m[:1:1], m...) },
		"dropped":            func(m [][]byte) [][]byte { return m[1:] },
		"swapped":            func(m [][]byte) [][]byte { return append([][]byte{m[1], m[0]}, m[2:]...) },
		"truncated":          func(m [][]byte) [][]byte { return [][]byte{m[0][:len(m[0])-1]} },
		"truncated to kind":  func(m [][]byte) [][]byte { return [][]byte{m[0][:1]} },
		"lengthened":         func(m [][]byte) [][]byte { return [][]byte{append(bytes.Clone(m[0]), 0)} },
		"joined":             func(m [][]byte) [][]byte { return [][]byte{append(bytes.Clone(m[0]), m[1]...)} },
		"kind to goodbye":    func(m [][]byte) [][]byte { return [][]byte{append([]byte{0x13}, m[0][1:]...)} },
		"kind to key update": func(m [][]byte) [][]byte { return [][]byte{append([]byte{0x12}, m[0][1:]...)} },
		"invented":           func([][]byte) [][]byte { return [][]byte{append([]byte{0x10}, make([]byte, 40)...)} },
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, l *line) {
				var msgs [][]byte
				for _, text := range []string{"first", "second", "third"} {
					msgs = append(msgs, l.send(text)...)
				}
				got, err := l.deliver(alter(msgs)...)
				mustEnd(t, name, l.to, err)
				if len(got) > 1 || len(got) == 1 && got[0] != "first" {
					t.Errorf("plaintext came out: %q", got)
				}
			})
		})
	}
}

func TestEveryRecordByteIsProtected(t *testing.T) {
	for _, id := range suite.All() {
		if id == suite.Plain {
			continue
		}
		key := testKey(t, 1)
		for at := range newPair(t, options{suite: id}).client.SealedSize(len("secret")) {
			p := newPair(t, options{suite: id, client: ClientConfig{PostQuantum: PostQuantumOff}, gateway: GatewayConfig{Key: key}}).establish(t)
			msg := p.gateway.Seal(nil, wire.KindRecord, []byte("secret"))
			msg[at] ^= 0x80
			_, plaintext, err := p.client.Open(msg)
			mustEnd(t, fmt.Sprintf("%v, byte %d", id, at), p.client, err)
			if plaintext != nil || bytes.Contains(msg, []byte("secret")) {
				t.Errorf("%v, byte %d: plaintext came out", id, at)
			}
		}
	}
}

// TestReflectedRecord: a record sent back to its sender does not open, since
// the directions have different keys.
func TestReflectedRecord(t *testing.T) {
	p := newPair(t, classical).establish(t)
	_, _, err := p.client.Open(p.client.Seal(nil, wire.KindRecord, []byte("x")))
	mustEnd(t, "reflected", p.client, err)
}

func TestRecordFailuresLookAlike(t *testing.T) {
	var seen []Error
	for _, msg := range [][]byte{{0x10}, make([]byte, 0), append([]byte{0x10}, make([]byte, 30)...), append([]byte{0x12}, make([]byte, 16)...), {0x99}} {
		p := newPair(t, classical).establish(t)
		_, _, err := p.gateway.Open(msg)
		var e *Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		seen = append(seen, Error{Code: e.Code, Reason: e.Reason})
	}
	for _, e := range seen {
		if e != seen[0] {
			t.Errorf("failures differ for the peer: %v", seen)
		}
	}
}

func TestKeyUpdateRules(t *testing.T) {
	seal := func(s *Session, kind wire.Kind, text string) []byte {
		return s.send.Seal(s.pool, nil, byte(kind), []byte(text))
	}
	for name, misuse := range map[string]func(p *pair) []byte{
		"with content": func(p *pair) []byte {
			opens(t, p.gateway, seal(p.client, wire.KindRecord, ""), wire.KindRecord, nil)
			return seal(p.client, wire.KindKeyUpdate, "x")
		},
		"under an unused key": func(p *pair) []byte { return seal(p.client, wire.KindKeyUpdate, "") },
		"twice": func(p *pair) []byte {
			opens(t, p.gateway, seal(p.client, wire.KindRecord, ""), wire.KindRecord, nil)
			opens(t, p.gateway, p.client.AppendKeyUpdate(nil, 0), wire.KindKeyUpdate, nil)
			return p.client.AppendKeyUpdate(nil, 0)
		},
		"without a new key": func(p *pair) []byte {
			opens(t, p.gateway, seal(p.client, wire.KindRecord, ""), wire.KindRecord, nil)
			opens(t, p.gateway, seal(p.client, wire.KindKeyUpdate, ""), wire.KindKeyUpdate, nil)
			return seal(p.client, wire.KindRecord, "under the old key")
		},
	} {
		p := newPair(t, classical).establish(t)
		_, _, err := p.gateway.Open(misuse(p))
		mustEnd(t, name, p.gateway, err)
	}
}

func TestGoodbyeIsFinal(t *testing.T) {
	p := newPair(t, classical).establish(t)
	opens(t, p.client, p.gateway.Seal(nil, wire.KindGoodbye, []byte("restart")), wire.KindGoodbye, []byte("restart"))
	if !p.client.Established() {
		t.Fatal("the client cannot say goodbye itself")
	}
	opens(t, p.gateway, p.client.Seal(nil, wire.KindGoodbye, nil), wire.KindGoodbye, nil)
	_, _, err := p.client.Open(p.gateway.Seal(nil, wire.KindRecord, []byte("one more")))
	mustEnd(t, "record after goodbye", p.client, err)
}

func TestSealAndOpenAllocateNothing(t *testing.T) {
	for _, id := range suite.All() {
		p := newPair(t, options{suite: id}).establish(t)
		buf := make([]byte, p.client.SealedSize(1024))
		allocs := testing.AllocsPerRun(100, func() {
			if p.client.RekeyDue(1) {
				t.Fatal("rekey")
			}
			msg := p.client.Seal(buf[:0], wire.KindRecord, buf[1:1025])
			if _, _, err := p.gateway.Open(msg); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%v: %v allocations", id, allocs)
		}
	}
}

func TestSealOfOtherKindsPanics(t *testing.T) {
	for _, kind := range []wire.Kind{0, wire.KindHandshakeInit, wire.KindKeyUpdate, 0x11} {
		p := newPair(t, classical).establish(t)
		if !panics(func() { p.client.Seal(nil, kind, nil) }) {
			t.Errorf("kind %#x is sealed", byte(kind))
		}
	}
}

// TestSealWithoutKeysPanics: plaintext never leaves a session that has no keys.
func TestSealWithoutKeysPanics(t *testing.T) {
	p := newPair(t, classical)
	if !panics(func() { p.client.Seal(nil, wire.KindRecord, []byte("x")) }) {
		t.Error("sealed before the handshake")
	}
	p = newPair(t, classical).establish(t)
	p.client.Close()
	if !panics(func() { p.client.Seal(nil, wire.KindRecord, []byte("x")) }) {
		t.Error("sealed after Close")
	}
	if !panics(func() { p.client.AppendKeyUpdate(nil, 0) }) {
		t.Error("key update after Close")
	}
	_, _, err := p.gateway.Open(append([]byte{0x10}, make([]byte, 20)...))
	mustEnd(t, "bad record", p.gateway, err)
	if !panics(func() { p.gateway.Seal(nil, wire.KindRecord, []byte("x")) }) {
		t.Error("sealed after a failure")
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// TestNoKeyAndNonceRepeat seals a million records of sixteen zeros and more, in
// both directions of several sessions, with key updates at odd intervals. All
// suites here are stream ciphers at heart, so the first sixteen ciphertext
// bytes are the key stream of (key, nonce): if no two are equal, no pair was
// used twice.
func TestNoKeyAndNonceRepeat(t *testing.T) {
	const sessions, total = 8, 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	var all []*Session
	for i := range sessions {
		limits := record.Limits{Records: []uint64{1, 2, 97, 1000, 1001, 12345, 0, 0}[i]}
		id := []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305, suite.AES256GCM}[i%3]
		p := newPair(t, options{suite: id, client: ClientConfig{Limits: limits}, gateway: GatewayConfig{Limits: limits}}).establish(t)
		all = append(all, p.client, p.gateway)
	}
	seen := make(map[[16]byte]struct{}, total)
	buf, zeros := make([]byte, 64), make([]byte, 16)
	rekeys := 0
	for n := range total {
		s := all[random.IntN(len(all))]
		if s.RekeyDue(0) {
			s.AppendKeyUpdate(buf[:0], 0)
			rekeys++
		}
		stream := [16]byte(s.Seal(buf[:0], wire.KindRecord, zeros)[1:])
		if _, twice := seen[stream]; twice {
			t.Fatalf("record %d: a pair of key and nonce is used twice", n)
		}
		seen[stream] = struct{}{}
	}
	if rekeys < total/sessions {
		t.Errorf("only %d key updates", rekeys)
	}
}

// TestCounterAndKeyUpdateShareNonces checks what the test above cannot see, the
// nonces of key updates and goodbyes: the messages equal the reference
// implementation's with consecutive counters, whatever the kinds.
func TestCounterAndKeyUpdateShareNonces(t *testing.T) {
	r, b := vectorReference(t, suite.AES128GCM, false)
	v := r.file(b)
	p := vectorHandshakeRun(t, v, b, false)
	random := rand.New(rand.NewPCG(3, 4))
	secret, counter := r.toClient, uint64(0)
	for range 2000 {
		if counter > 0 && random.IntN(4) == 0 {
			if !bytes.Equal(p.gateway.AppendKeyUpdate(nil, 0), r.seal(secret, counter, 0x12, nil)) {
				t.Fatal("key update differs")
			}
			secret, counter = r.next(secret), 0
			continue
		}
		text := binary.BigEndian.AppendUint64(nil, random.Uint64())
		if !bytes.Equal(p.gateway.Seal(nil, wire.KindRecord, text), r.seal(secret, counter, 0x10, text)) {
			t.Fatal("record differs")
		}
		counter++
	}
}

// FuzzRecords feeds an established gateway: only the genuine next message
// opens, everything else ends the session with 4400.
func FuzzRecords(f *testing.F) {
	make1 := func(t testing.TB) *pair {
		id, b := suite.AES128GCM, bindingOf(suite.AES128GCM, RolePush)
		key := testKey(t, 1)
		cc := &ClientConfig{Pins: []PublicKey{key.Public()}, PostQuantum: PostQuantumOff, Rand: bytes.NewReader(fixedBytes("fuzz client", 32))}
		gc := &GatewayConfig{Key: key, Rand: bytes.NewReader(fixedBytes("fuzz gateway", 32))}
		p := &pair{}
		var err error
		p.client, err = NewClient(cc, record.NewPool(0, 0), b)
		must(t, err)
		p.gateway, err = NewGateway(gc, record.NewPool(0, 0), b)
		must(t, err)
		if p.establish(t).client.Suite() != id {
			t.Fatal("suite")
		}
		return p
	}
	p := make1(f)
	genuine := map[[32]byte]bool{}
	for _, kind := range []wire.Kind{wire.KindRecord, wire.KindGoodbye} {
		msg := make1(f).client.Seal(nil, kind, []byte("hello"))
		genuine[sha256.Sum256(msg)] = true
		f.Add(msg)
	}
	f.Add(p.gateway.Seal(nil, wire.KindRecord, []byte("hello")))
	f.Add([]byte{})
	f.Add([]byte{0x11, 0, 0, 0, 1})
	f.Add(append([]byte{0x12}, make([]byte, 16)...))
	f.Fuzz(func(t *testing.T, msg []byte) {
		s := make1(t).gateway
		sum := sha256.Sum256(msg)
		_, _, err := s.Open(msg)
		if genuine[sum] {
			must(t, err)
			return
		}
		mustEnd(t, "fuzzed record", s, err)
	})
}
