package peer

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway/frame"
	"github.com/sealcast/sealcast/gateway/upgrade"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// far is the gateway's end, without a gateway: its upgrade, its strict reader of
// frames, its session.
type far struct {
	t       *testing.T
	key     *session.StaticKey
	sess    *session.Session
	decoder frame.Decoder
	buffers *frame.Buffers
	open    bool
	got     [][]byte // plaintexts
	out     []byte
}

func newFar(t *testing.T) *far {
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &far{t: t, key: key, buffers: frame.NewBuffers(1 << 20), decoder: frame.NewDecoder(&frame.Limits{MessageBytes: 1 << 20, Fragments: 10})}
}

// take takes bytes of the client and leaves the answer in out.
func (f *far) take(b []byte, id suite.ID, role session.Role) {
	f.t.Helper()
	if !f.open {
		req, n, err := upgrade.Parse(b)
		if err != nil || n == 0 {
			f.t.Fatalf("upgrade request: %d, %v", n, err)
		}
		f.open = true
		b = b[n:]
		if role == 0 {
			f.out = append(f.out, upgrade.AppendAccept(nil, req.Key, "")...)
		} else {
			f.out = append(f.out, upgrade.AppendAccept(nil, req.Key, id.Protocol())...)
			binding := session.Binding{Role: role, Realm: "test", Offered: req.Protocols, Selected: id.Protocol()}
			if f.sess, err = session.NewGateway(&session.GatewayConfig{Key: f.key}, record.NewPool(4, 0), binding); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for len(b) > 0 {
		n, ev, ok, err := f.decoder.Next(b, f.buffers)
		if err != nil {
			f.t.Fatalf("the gateway refuses a frame: %v", err)
		}
		if b = b[n:]; ok {
			f.message(ev)
		}
	}
}

func (f *far) message(ev frame.Event) {
	f.t.Helper()
	switch {
	case ev.Op == ws.OpClose || ev.Op == ws.OpPong:
		f.got = append(f.got, append([]byte(fmt.Sprintf("op %d ", ev.Op)), ev.Payload...))
	case f.sess == nil:
		f.got = append(f.got, bytes.Clone(ev.Payload))
	case !f.sess.Established():
		job, err := f.sess.Receive(ev.Payload)
		if err != nil {
			f.t.Fatal(err)
		}
		job.Run()
		reply, err := f.sess.Complete(job)
		if err != nil {
			f.t.Fatal(err)
		}
		f.send(ws.OpBinary, reply)
	default:
		kind, plaintext, err := f.sess.Open(ev.Payload)
		if err != nil {
			f.t.Fatal(err)
		}
		f.got = append(f.got, append([]byte(fmt.Sprintf("%#x ", byte(kind))), plaintext...))
	}
}

func (f *far) send(op ws.OpCode, payload []byte) {
	f.out = append(frame.AppendHeader(f.out, op, len(payload)), payload...)
}

func (f *far) seal(plaintext []byte) {
	f.send(ws.OpBinary, f.sess.Seal(nil, wire.KindRecord, plaintext))
}

// near is what a peer tells.
type near struct {
	ready int
	got   [][]byte
	fail  error
}

func (n *near) Ready() error { n.ready++; return nil }
func (n *near) Message(_ wire.Kind, b []byte) error {
	n.got = append(n.got, bytes.Clone(b))
	return n.fail
}

// agree brings both sides to the point where messages flow. Bytes for the client
// come in pieces of the given size.
func agree(t *testing.T, cfg *Config, piece int) (*Peer, *far, *near) {
	t.Helper()
	f, n := newFar(t), &near{}
	cfg.Host, cfg.Path, cfg.Realm = "gateway.test", "/echo", "test"
	cfg.Session = &session.ClientConfig{Pins: []session.PublicKey{f.key.Public()}}
	p := New(cfg, NewShared(1), [4]byte{1, 2, 3, 4})
	out := p.Begin(nil)
	for rounds := 0; !p.IsReady(); rounds++ {
		if f.take(out, cfg.Suite, cfg.Role); rounds > 5 {
			t.Fatal("no agreement")
		}
		out = nil
		if err := feed(p, f, n, &out, piece); err != nil {
			t.Fatal(err)
		}
	}
	return p, f, n
}

// feed gives the peer what the gateway has sent, in pieces.
func feed(p *Peer, f *far, h Handler, out *[]byte, piece int) error {
	var held []byte
	for len(f.out) > 0 {
		n := min(piece, len(f.out))
		held = append(held, f.out[:n]...)
		f.out = f.out[n:]
		took, err := p.Receive(out, held, h)
		if err != nil {
			return err
		}
		held = held[took:]
	}
	return nil
}

func TestMessagesBothWays(t *testing.T) {
	for _, cfg := range []Config{{}, {Role: session.RoleEcho, Suite: suite.Plain}, {Role: session.RoleEcho, Suite: suite.AES256GCM}} {
		for _, piece := range []int{1, 7, 1 << 20} {
			p, f, n := agree(t, &cfg, piece)
			if n.ready != 1 {
				t.Fatalf("ready %d times", n.ready)
			}
			var out []byte
			for _, size := range []int{1, 100, 125, 126, 1000, 65535, 70_000} {
				message := bytes.Repeat([]byte{byte(size)}, size)
				f.take(p.AppendMessage(nil, message), cfg.Suite, cfg.Role)
				if got := f.got[len(f.got)-1]; !bytes.HasSuffix(got, message) {
					t.Errorf("suite %v: the gateway got %d bytes of %d", cfg.Suite, len(got), size)
				}
				if cfg.Role == 0 {
					f.send(ws.OpBinary, message)
				} else {
					f.seal(message)
				}
				if err := feed(p, f, n, &out, piece); err != nil {
					t.Fatal(err)
				}
				if got := n.got[len(n.got)-1]; !bytes.Equal(got, message) {
					t.Errorf("suite %v: the client got %d bytes of %d", cfg.Suite, len(got), size)
				}
			}
			f.send(ws.OpPing, []byte("hello"))
			if err := feed(p, f, n, &out, piece); err != nil {
				t.Fatal(err)
			}
			f.take(out, cfg.Suite, cfg.Role)
			if got := string(f.got[len(f.got)-1]); got != "op 10 hello" {
				t.Errorf("answer to a ping: %q", got)
			}
			f.take(p.AppendLeave(nil), cfg.Suite, cfg.Role)
			if got := string(f.got[len(f.got)-1]); got != "op 8 \x03\xe8" {
				t.Errorf("leaving: %q", got)
			}
		}
	}
}

// Every change of what the gateway sends is found, and so is every repetition.
func TestTamperedRecordsEndThePeer(t *testing.T) {
	cfg := Config{Role: session.RoleEcho, Suite: suite.AES128GCM}
	p, f, n := agree(t, &cfg, 1<<20)
	f.seal([]byte("a message"))
	f.out[len(f.out)-1] ^= 1
	var e *Error
	if err := feed(p, f, n, new([]byte), 1<<20); !errors.As(err, &e) || e.Kind != KindRecord {
		t.Errorf("a changed tag: %v", err)
	}
	p, f, n = agree(t, &cfg, 1<<20)
	f.seal([]byte("a message"))
	f.out = append(f.out, f.out...)
	if err := feed(p, f, n, new([]byte), 1<<20); !errors.As(err, &e) || e.Kind != KindRecord || len(n.got) != 1 {
		t.Errorf("a repeated record: %v after %d messages", err, len(n.got))
	}
}

func TestEndsAreSorted(t *testing.T) {
	cfg := Config{Role: session.RoleEcho, Suite: suite.AES128GCM}
	for _, tt := range []struct {
		name string
		send func(*far)
		want Kind
	}{
		{"close", func(f *far) { f.send(ws.OpClose, []byte{0x11, 0x3d}) }, "closed 4413"},
		{"close without a code", func(f *far) { f.send(ws.OpClose, nil) }, "closed 1005"},
		{"goodbye", func(f *far) {
			text, err := wire.AppendGoodbye(nil, &wire.Goodbye{Code: uint32(wire.CloseRestart)})
			if err != nil {
				f.t.Fatal(err)
			}
			f.send(ws.OpBinary, f.sess.Seal(nil, wire.KindGoodbye, text))
		}, "closed 1012"},
		{"masked", func(f *far) { f.out = append(f.out, 0x82, 0x81, 0, 0, 0, 0, 1) }, KindFrame},
		{"fragment", func(f *far) { f.out = append(f.out, 0x02, 0x00) }, KindFrame},
		{"too long", func(f *far) { f.out = append(f.out, 0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0) }, KindFrame},
		{"opcode", func(f *far) { f.send(3, nil) }, KindFrame},
		{"handshake again", func(f *far) { f.send(ws.OpBinary, []byte{2, 1, 1}) }, KindRecord},
	} {
		p, f, n := agree(t, &cfg, 1<<20)
		tt.send(f)
		var e *Error
		if err := feed(p, f, n, new([]byte), 1<<20); !errors.As(err, &e) || e.Kind != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestUpgradeIsVerified(t *testing.T) {
	cfg := Config{Host: "h", Path: "/echo"}
	for name, answer := range map[string]string{
		"refusal":   "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nnope",
		"other key": string(upgrade.AppendAccept(nil, "AAAAAAAAAAAAAAAAAAAAAA==", "")),
		"no HTTP":   "SSH-2.0\r\n\r\n",
		"endless":   string(bytes.Repeat([]byte("x"), maxAnswer+1)),
	} {
		p := New(&cfg, NewShared(1), [4]byte{})
		p.Begin(nil)
		var e *Error
		if _, err := p.Receive(new([]byte), []byte(answer), &near{}); !errors.As(err, &e) || e.Kind != KindUpgrade {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// listener counts what a stream brings.
type listener struct{ ticks []string }

func (l *listener) Connected(*wire.Connected) error   { return nil }
func (l *listener) Subscribed(*wire.Subscribed) error { return nil }
func (l *listener) Refused(*wire.Error) error         { return nil }
func (l *listener) Tick(topic uint32, payload []byte) error {
	l.ticks = append(l.ticks, fmt.Sprintf("%d:%s", topic, payload))
	return nil
}

// The walk over batches agrees with the generated code, and the rule of
// sequences with the protocol.
func TestStream(t *testing.T) {
	cfg := Config{Role: session.RolePush, Suite: suite.AES128GCM}
	p, _, _ := agree(t, &cfg, 1<<20)
	s, l := NewStream(p), &listener{}
	server := func(f *wire.ServerFrame) error {
		b, err := wire.AppendServerFrame(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		return s.Take(wire.KindRecord, b, l)
	}
	tick := func(seq, skipped uint64, text string) wire.BatchItem {
		return wire.BatchItem{Topic: 9, Seq: seq, Payload: []byte(text), ReceivedUS: 5, Skipped: skipped}
	}
	batch := func(items ...wire.BatchItem) error {
		return s.Take(wire.KindRecord, wire.AppendBatchFrame(nil, items), l)
	}
	reset := wire.BatchItem{Topic: 9, Reset: &wire.BatchReset{Epoch: 2, NextSeq: 50, Cause: wire.Cause_CAUSE_SOURCE_LOST}}
	kind := func(err error) Kind {
		var e *Error
		errors.As(err, &e)
		if e == nil {
			return ""
		}
		return e.Kind
	}
	if k := kind(batch(tick(1, 0, "early"))); k != KindOrder {
		t.Errorf("a tick before its topic: %q", k)
	}
	topics := &wire.ServerFrame{Message: &wire.ServerFrame_Topics{Topics: &wire.Topics{Topics: []*wire.TopicState{{Number: 9, Name: "a", Epoch: 1, NextSeq: 10}}}}}
	if err := server(topics); err != nil {
		t.Fatal(err)
	}
	if err := batch(tick(9, 0, "old"), tick(10, 0, "x"), tick(13, 2, "yz"), tick(14, 3, ""), reset, tick(50, 0, "new")); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(l.ticks), "[9:x 9:yz 9: 9:new]"; got != want {
		t.Errorf("ticks %s, want %s", got, want)
	}
	if s.Seen.Ticks != 4 || s.Seen.Merged != 2 || s.Seen.Resets != 1 {
		t.Errorf("seen %+v", s.Seen)
	}
	gap := &wire.ServerFrame{Message: &wire.ServerFrame_Gap{Gap: &wire.Gap{Topic: 9, Epoch: 2, From: 51, To: 53}}}
	if err := server(gap); err != nil || s.Seen.Gaps != 3 {
		t.Errorf("gap: %v, seen %+v", err, s.Seen)
	}
	heads := func(seq uint64) error {
		return server(&wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{Heads: []*wire.TopicHead{{Topic: 9, Seq: seq}}}}})
	}
	if err := heads(53); err != nil {
		t.Errorf("a head that has come: %v", err)
	}
	if k := kind(heads(54)); k != KindGap {
		t.Errorf("a head that has not come: %q", k)
	}
	if k := kind(batch(tick(60, 0, "late"))); k != KindGap {
		t.Errorf("missing ticks: %q", k)
	}
	for _, b := range [][]byte{{0, 0, 0, 0x7a, 2, 0x12, 5}, {0, 0}, {7, 0, 0, 1}, {0, 0, 0, 0x7a, 4, 0x10, 9, 0x28, 9}} {
		if err := s.Take(wire.KindRecord, b, l); err == nil {
			t.Errorf("% x was taken", b)
		}
	}
}

// A load generator that allocated for each message would measure its own collector.
func TestNoAllocations(t *testing.T) {
	cfg := Config{Role: session.RoleEcho, Suite: suite.AES128GCM}
	p, f, n := agree(t, &cfg, 1<<20)
	message := bytes.Repeat([]byte{7}, 1000)
	var out []byte
	sealed := make([][]byte, 200)
	for i := range sealed {
		f.out = nil
		f.seal(message)
		sealed[i] = f.out
	}
	h := &silent{}
	i := 0
	allocs := testing.AllocsPerRun(len(sealed)-1, func() {
		out = p.AppendMessage(out[:0], message)
		if _, err := p.Receive(&out, sealed[i], h); err != nil {
			t.Fatal(err)
		}
		i++
	})
	if allocs != 0 || n.ready != 1 {
		t.Errorf("%v allocations for a message", allocs)
	}
}

type silent struct{}

func (*silent) Ready() error                        { return nil }
func (*silent) Message(_ wire.Kind, _ []byte) error { return nil }
