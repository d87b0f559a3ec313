package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"google.golang.org/protobuf/proto"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// startGroups starts a gateway that seals for groups. With long-lived keys a
// group's records follow each other whatever SEALCAST_TEST_REKEY says.
func startGroups(t testing.TB, change func(*gateway.Options)) *server {
	t.Helper()
	return start(t, func(o *gateway.Options) {
		o.Loops, o.GroupSeal = 1, true
		o.Session.Limits = record.Limits{Records: record.MaxRecords}
		if change != nil {
			change(o)
		}
	})
}

// follower is a member of groups that shows every message it gets.
type follower struct {
	*peer
	keys []*wire.GroupKey
	ids  uint32 // of its requests
}

// message is one that a follower got.
type message struct {
	kind wire.Kind
	raw  []byte // as on the wire
	*wire.ServerFrame
}

func (m message) String() string {
	if m.kind == wire.KindGoodbye {
		return "goodbye"
	}
	name := ""
	switch m.Message.(type) {
	case *wire.ServerFrame_Batch:
		name = "batch"
	case *wire.ServerFrame_GroupKey:
		name = "key"
	case *wire.ServerFrame_GroupMark:
		name = "mark"
	case *wire.ServerFrame_GroupLeave:
		name = "leave"
	default:
		name = string(m.ServerFrame.ProtoReflect().WhichOneof(m.ServerFrame.ProtoReflect().Descriptor().Oneofs().Get(0)).Name())
	}
	if m.kind == wire.KindGroupRecord {
		return "group " + name
	}
	return name
}

// follow connects and subscribes.
func follow(t testing.TB, s *server, id suite.ID, filters ...string) *follower {
	t.Helper()
	f := &follower{peer: upgraded(t, s, "/ws", id)}
	f.agree()
	f.send(f.say(&wire.ClientFrame{Message: &wire.ClientFrame_Connect{Connect: &wire.Connect{Groups: true}}}))
	f.expect("connected")
	f.subscribe(filters...)
	f.expect("subscribed")
	return f
}

func (f *follower) subscribe(filters ...string) {
	f.t.Helper()
	f.ids++
	m := &wire.Subscribe{Id: f.ids}
	for _, s := range filters {
		m.Subscriptions = append(m.Subscriptions, &wire.Subscription{Filter: s})
	}
	f.send(f.say(&wire.ClientFrame{Message: &wire.ClientFrame_Subscribe{Subscribe: m}}))
}

func (f *follower) unsubscribe(filters ...string) {
	f.t.Helper()
	f.ids++
	f.send(f.say(&wire.ClientFrame{Message: &wire.ClientFrame_Unsubscribe{Unsubscribe: &wire.Unsubscribe{Id: f.ids, Filters: filters}}}))
}

// next is the next message, which has passed the session's rules.
func (f *follower) next() message {
	f.t.Helper()
	for {
		header, msg := f.read()
		if header.OpCode == ws.OpPing {
			continue
		}
		m := message{raw: bytes.Clone(msg)}
		kind, plaintext, err := f.sess.Open(msg)
		if err != nil {
			f.t.Fatalf("message %x: %v", m.raw[:min(len(m.raw), 20)], err)
		}
		m.kind = kind
		if kind == wire.KindKeyUpdate {
			continue
		}
		if kind != wire.KindGoodbye {
			f.admit(&m, plaintext)
		}
		return m
	}
}

func (f *follower) admit(m *message, plaintext []byte) {
	f.t.Helper()
	var err error
	if m.ServerFrame, err = wire.ParseServerFrame(plaintext); err != nil {
		f.t.Fatal(err)
	}
	if k := m.GetGroupKey(); k != nil {
		f.keys = append(f.keys, proto.Clone(k).(*wire.GroupKey)) // the session clears it
	}
	if _, err = f.sess.Admit(m.kind, m.ServerFrame); err != nil {
		f.t.Fatalf("%v: %v", m, err)
	}
}

// expect wants these messages next.
func (f *follower) expect(want ...string) (got []message) {
	f.t.Helper()
	for _, w := range want {
		m := f.next()
		if m.String() != w {
			f.t.Fatalf("%v, want %s of %v", m, w, want)
		}
		got = append(got, m)
	}
	return got
}

// skip reads up to the next message of that sort.
func (f *follower) skip(to string) message {
	f.t.Helper()
	for {
		if m := f.next(); m.String() == to {
			return m
		}
	}
}

func (f *follower) ping() {
	f.t.Helper()
	f.send(f.say(&wire.ClientFrame{Message: &wire.ClientFrame_Ping{Ping: &wire.Ping{Id: 1}}}))
}

// The same bytes go to all members, behind the key, and a mark stands before
// everything else.
func TestGroupRecordsAreTheSameForAll(t *testing.T) {
	for _, id := range suite.All() {
		t.Run(id.String(), func(t *testing.T) {
			s := startGroups(t, nil)
			members := []*follower{follow(t, s, id, "md:a"), follow(t, s, id, "md:a"), follow(t, s, id, "md:a")}
			var first [2]message
			for round, payloads := range [][][]byte{{[]byte("one"), []byte("two")}, {[]byte("three")}} {
				s.hub.publish("md:a", payloads...)
				for i, m := range members {
					if round == 0 {
						m.expect("key")
					}
					got := m.expect("group batch")[0]
					if i == 0 {
						first[round] = got
					}
					if !bytes.Equal(got.raw, first[round].raw) || !bytes.Equal(got.GetBatch().Payloads, bytes.Join(payloads, nil)) {
						t.Errorf("member %d got %x, the first %x", i, got.raw, first[round].raw)
					}
				}
			}
			for _, m := range members {
				m.ping()
				m.expect("mark", "pong")
				m.ping()
				m.expect("pong") // nothing new to mark
			}
			if g := s.Stats().Groups; g.Made != 1 || g.Keys != 3 || g.Records != 2 || g.Marks != 3 {
				t.Errorf("counted %+v", g)
			}
			if n := s.Stats().Delivered; n != 9 {
				t.Errorf("%d ticks delivered", n)
			}
		})
	}
}

func TestMarkStandsBeforeHeartbeatTopicsAndGoodbye(t *testing.T) {
	s := startGroups(t, func(o *gateway.Options) { o.Heartbeat.Interval = 300 * time.Millisecond })
	a, b := follow(t, s, suite.AES128GCM, "md:**"), follow(t, s, suite.AES128GCM, "md:**")
	s.hub.publish("md:a", []byte("x")) // a new topic
	for _, m := range []*follower{a, b} {
		m.skip("topics")
		m.skip("group batch")
		m.expect("mark", "heartbeat")
	}
	s.hub.publish("md:b", []byte("y"))
	a.skip("topics")
	a.skip("group batch")
	go func() { _ = s.Shutdown(context.Background()) }()
	if got := a.skip("mark"); got.GetGroupMark() == nil {
		t.Fatal("no mark")
	}
	a.skip("goodbye")
}

// A group is not worth it for one; who is left alone is told so before its own
// batches begin.
func TestGroupsNeedTwo(t *testing.T) {
	s := startGroups(t, nil)
	a := follow(t, s, suite.AES128GCM, "md:a")
	s.hub.publish("md:a", []byte("alone"))
	a.expect("batch")
	b := follow(t, s, suite.AES128GCM, "md:a")
	s.hub.publish("md:a", []byte("two"))
	for _, m := range []*follower{a, b} {
		m.expect("key", "group batch")
	}
	other := follow(t, s, suite.ChaCha20Poly1305, "md:a") // of another suite: not of the group
	s.hub.publish("md:a", []byte("three"))
	other.expect("batch")
	a.expect("group batch")
	b.expect("group batch")

	b.unsubscribe("md:a")
	b.expect("mark", "unsubscribed")
	s.hub.publish("md:a", []byte("alone again"))
	a.expect("mark", "leave", "batch")
}

func TestClientsWithoutGroupsAreServedBeside(t *testing.T) {
	s := startGroups(t, nil)
	opts := s.options()
	opts.NoGroups = true
	apart, err := client.Dial(t.Context(), s.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = apart.Close(context.Background()) })
	clients := []*client.Conn{apart, s.dial(t), s.dial(t)}
	for _, c := range clients {
		if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		s.hub.publish("md:a", numbered(i, 100))
		for n, c := range clients {
			if got := nextTick(t, c); !bytes.Equal(got.Payload, numbered(i, 100)) {
				t.Fatalf("client %d: tick %d differs", n, i)
			}
		}
	}
	for n, c := range clients {
		if got := c.Stats().GroupRecords; got != []uint64{0, 20, 20}[n] {
			t.Errorf("client %d: %d group records", n, got)
		}
	}
}

// Who comes later is given the key, and could open older records with it, but its
// session refuses them.
func TestLateJoinerRefusesOlderRecord(t *testing.T) {
	s := startGroups(t, nil)
	a, b := follow(t, s, suite.AES128GCM, "md:a"), follow(t, s, suite.AES128GCM, "md:a")
	s.hub.publish("md:a", []byte("older"))
	old := a.expect("key", "group batch")[1].raw
	b.expect("key", "group batch")
	late := follow(t, s, suite.AES128GCM, "md:a")
	s.hub.publish("md:a", []byte("newer"))
	late.expect("key")
	if k := late.keys[0]; k.Id != a.keys[0].Id || k.NextCounter != 1 {
		t.Fatalf("the late key is %v", k)
	}
	if _, _, err := late.sess.Open(old); !errors.Is(err, record.ErrGroup) {
		t.Errorf("an older record: %v", err)
	}
}

// A slow member is out of the group until it has caught up, and misses nothing.
func TestSlowMemberLeavesTheGroupAndComesBack(t *testing.T) {
	s := startGroups(t, func(o *gateway.Options) { o.Slow.Queue = 64 << 20 })
	slow := follow(t, s, suite.AES128GCM, "md:a")
	brisk := []*client.Conn{s.dial(t, suite.AES128GCM), s.dial(t, suite.AES128GCM)}
	for _, c := range brisk {
		if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
	}
	const ticks, size = 300, 40_000
	for i := range ticks {
		s.hub.publish("md:a", numbered(i, size))
		for _, c := range brisk {
			if got := nextTick(t, c); !bytes.Equal(got.Payload, numbered(i, size)) {
				t.Fatalf("brisk member: tick %d differs", i)
			}
		}
	}
	var order []string
	for i := 0; i < ticks; {
		m := slow.next()
		if m.GetNotice() != nil { // that it is slow: if that lasts
			continue
		}
		if last := len(order) - 1; last < 0 || order[last] != m.String() {
			order = append(order, m.String())
		}
		for p := m.GetBatch().GetPayloads(); len(p) > 0; p = p[size:] {
			if !bytes.Equal(p[:size], numbered(i, size)) {
				t.Fatalf("slow member: tick %d differs", i)
			}
			i++
		}
	}
	if want := []string{"key", "group batch", "mark", "leave", "batch"}; !slices.Equal(order, want) {
		t.Errorf("the slow member got %v, want %v", order, want)
	}
	slow.ping()
	slow.skip("pong")
	s.hub.publish("md:a", []byte("back"))
	slow.expect("key", "group batch")
	if slow.keys[0].Id != slow.keys[1].Id {
		t.Error("being slow for a while needs no rotation")
	}
}

// expectSeals wants all sessions to be listed with a mode of sealing.
func (s *server) expectSeals(t *testing.T, want string) {
	t.Helper()
	all, _, err := s.Sessions(t.Context(), 0, 100, "")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	for _, x := range all {
		if x.Seal != want {
			t.Errorf("session %d is sealed for %q, want %q", x.ID, x.Seal, want)
		}
	}
}

// The setting takes effect with the next batch, in both directions.
func TestGroupSettingIsLive(t *testing.T) {
	var settings gateway.Settings
	s := startGroups(t, func(o *gateway.Options) { settings = o.Settings })
	a, b := follow(t, s, suite.AES128GCM, "md:a"), follow(t, s, suite.AES128GCM, "md:a")
	seal := func(group bool) {
		settings.GroupSeal = group
		s.Reload(settings)
		s.hub.publish("md:a", []byte("x"))
	}
	seal(true)
	for _, m := range []*follower{a, b} {
		m.expect("key", "group batch")
	}
	s.expectSeals(t, "group")
	seal(false)
	for _, m := range []*follower{a, b} {
		m.expect("mark", "leave", "batch")
	}
	s.expectSeals(t, "session")
	seal(true)
	last := ""
	for deadline := time.Now().Add(10 * time.Second); last != "group batch"; { // not before a second has passed
		if last = a.next().String(); last == "batch" {
			s.hub.publish("md:a", []byte("x"))
		}
		if time.Now().After(deadline) {
			t.Fatal("no group again")
		}
	}
	if got := b.skip("group batch"); got.GetBatch() == nil {
		t.Fatal("no batch")
	}
}

func TestGroupsWithEachCodecAndSuite(t *testing.T) {
	for _, id := range suite.All() {
		for _, codec := range []wire.Codec{wire.CodecNone, wire.CodecSnappy, wire.CodecZstd} {
			t.Run(fmt.Sprint(id, " ", codec), func(t *testing.T) {
				s := start(t, func(o *gateway.Options) {
					o.GroupSeal = true
					o.Compress = gateway.CompressOptions{Codecs: []wire.Codec{codec}, MinBytes: 1}
				})
				var clients []*client.Conn
				for range 4 {
					opts := s.options(id)
					opts.Codecs = []wire.Codec{codec}
					c, err := client.Dial(t.Context(), s.url("/ws"), opts)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = c.Close(context.Background()) })
					if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
						t.Fatal(err)
					}
					clients = append(clients, c)
				}
				const ticks = 100
				for i := 0; i < ticks; i += 4 {
					s.hub.publish("md:a", numbered(i, 300), numbered(i+1, 300), numbered(i+2, 300), numbered(i+3, 300))
				}
				for n, c := range clients {
					for i := range ticks {
						if got := nextTick(t, c); !bytes.Equal(got.Payload, numbered(i, 300)) {
							t.Fatalf("client %d: tick %d differs", n, i)
						}
					}
				}
				if s.Stats().Groups.Records == 0 {
					t.Error("nothing was sealed for a group")
				}
			})
		}
	}
}
