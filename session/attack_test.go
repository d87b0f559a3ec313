package session

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// mustEnd checks that err ends the session as every protocol or record
// failure does: code 4400, no reason for the peer, nothing usable left.
func mustEnd(t *testing.T, what string, s *Session, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != wire.CloseBadRecord || e.Reason != "" {
		t.Fatalf("%s: error %v (%+v), want code 4400 without a reason", what, err, e)
	}
	if s.Established() || s.hs != nil {
		t.Fatalf("%s: the session lives on", what)
	}
	if _, _, err := s.Open(make([]byte, 64)); !errors.Is(err, ErrClosed) {
		t.Fatalf("%s: Open afterwards: %v", what, err)
	}
	if _, err := s.Receive(make([]byte, initSize)); !errors.Is(err, ErrClosed) {
		t.Fatalf("%s: Receive afterwards: %v", what, err)
	}
	if _, err := s.Start(); !errors.Is(err, ErrClosed) {
		t.Fatalf("%s: Start afterwards: %v", what, err)
	}
	if s.Err() == nil {
		t.Fatalf("%s: no cause for the log", what)
	}
}

// handshakeWith runs a handshake through a man in the middle. It returns the
// session that refused and its error.
func handshakeWith(t *testing.T, p *pair, onInit, onReply func([]byte) []byte) (*Session, error) {
	t.Helper()
	init, err := start(p.client)
	must(t, err)
	reply, err := receive(p.gateway, onInit(init))
	if err != nil {
		return p.gateway, err
	}
	if _, err = receive(p.client, onReply(reply)); err != nil {
		return p.client, err
	}
	return nil, nil
}

func untouched(msg []byte) []byte { return msg }

func flipped(at int) func([]byte) []byte {
	return func(msg []byte) []byte {
		msg = bytes.Clone(msg)
		msg[at] ^= 0x01
		return msg
	}
}

// TestEveryHandshakeByteIsProtected flips each byte of both messages, with and
// without ML-KEM. The client must never be established, so it never sends a
// token and never opens anything.
func TestEveryHandshakeByteIsProtected(t *testing.T) {
	for _, test := range []struct {
		mode        PostQuantum
		init, reply int
	}{{PostQuantumOff, initSize, replySize}, {PostQuantumPreferred, initSize + kemKey, replySize + kemCiphertext}} {
		t.Run(test.mode.String(), func(t *testing.T) {
			t.Parallel()
			for at := range test.init {
				p := newPair(t, options{client: ClientConfig{PostQuantum: test.mode}})
				s, err := handshakeWith(t, p, flipped(at), untouched)
				mustEnd(t, fmt.Sprintf("byte %d of HandshakeInit", at), s, err)
				if p.client.Established() {
					t.Fatalf("byte %d of HandshakeInit: client established", at)
				}
			}
			// A client whose randomness is fixed always sends the same message,
			// so one reply serves for all positions.
			fixed := func() (*pair, []byte) {
				p := newPair(t, options{client: ClientConfig{PostQuantum: test.mode, Rand: bytes.NewReader(make([]byte, 96))}})
				init, err := start(p.client)
				must(t, err)
				return p, init
			}
			p, init := fixed()
			reply, err := receive(p.gateway, init)
			must(t, err)
			if len(reply) != test.reply {
				t.Fatalf("reply of %d bytes", len(reply))
			}
			for at := range reply {
				p, _ := fixed()
				_, err := receive(p.client, flipped(at)(reply))
				mustEnd(t, fmt.Sprintf("byte %d of HandshakeReply", at), p.client, err)
			}
		})
	}
}

// TestBindingIsProtected: whatever a proxy changes of what both sides saw
// before the handshake breaks it.
func TestBindingIsProtected(t *testing.T) {
	aes, chacha := suite.AES128GCM.Protocol(), suite.ChaCha20Poly1305.Protocol()
	base := Binding{RolePush, "prod", []string{aes, chacha, "other"}, aes}
	for name, change := range map[string]func(b *Binding){
		"role":             func(b *Binding) { b.Role = RoleEcho },
		"realm":            func(b *Binding) { b.Realm = "test" },
		"realm emptied":    func(b *Binding) { b.Realm = "" },
		"order":            func(b *Binding) { b.Offered = []string{chacha, aes, "other"} },
		"removed":          func(b *Binding) { b.Offered = []string{aes, "other"} },
		"removed foreign":  func(b *Binding) { b.Offered = []string{aes, chacha} },
		"added":            func(b *Binding) { b.Offered = append(b.Offered, "more") },
		"case of an offer": func(b *Binding) { b.Offered = []string{aes, chacha, "Other"} },
		"choice":           func(b *Binding) { b.Selected = chacha },
	} {
		theirs := base
		theirs.Offered = slices.Clone(base.Offered)
		change(&theirs)
		key := testKey(t, 1)
		client, err := NewClient(&ClientConfig{Pins: []PublicKey{key.Public()}}, record.NewPool(0, 0), base)
		must(t, err)
		gateway, err := NewGateway(&GatewayConfig{Key: key}, record.NewPool(0, 0), theirs)
		must(t, err)
		s, err := handshakeWith(t, &pair{client: client, gateway: gateway}, untouched, untouched)
		mustEnd(t, name, s, err)
		if client.Established() {
			t.Errorf("%s: client established", name)
		}
	}
}

// TestForeignKeyOfThePinnedGateway: a gateway that shows the pinned public key
// without having the private one fails.
func TestForeignKeyOfThePinnedGateway(t *testing.T) {
	genuine, thief := testKey(t, 1), testKey(t, 2)
	thief.public = genuine.Public()
	p := newPair(t, options{gateway: GatewayConfig{Key: thief}})
	s, err := handshakeWith(t, p, untouched, untouched)
	mustEnd(t, "stolen public key", s, err)
}

// lowOrder are the encodings of points of small order on Curve25519 and its
// twist (RFC 7748 section 6.1 asks for the check of an all-zero result).
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func TestLowOrderPointsAreRefused(t *testing.T) {
	for _, text := range lowOrder {
		point := unhex(t, text)
		swap := func(msg []byte) []byte {
			msg = bytes.Clone(msg)
			copy(msg[1:], point)
			return msg
		}
		p := newPair(t, options{})
		s, err := handshakeWith(t, p, swap, untouched)
		mustEnd(t, "low-order point in HandshakeInit", s, err)
		if s != p.gateway {
			t.Errorf("%s: the gateway answers a low-order point", text)
		}
		p = newPair(t, options{})
		s, err = handshakeWith(t, p, untouched, swap)
		mustEnd(t, "low-order point in HandshakeReply", s, err)
	}
}

// TestHandshakeLengthsAreExact tries every length; only two are taken up, and
// none of the others costs a job or memory.
func TestHandshakeLengthsAreExact(t *testing.T) {
	for n := 1; n < 1400; n++ {
		msg := make([]byte, n)
		msg[0] = byte(wire.KindHandshakeInit)
		p := newPair(t, options{})
		j, err := p.gateway.Receive(msg)
		if n == initSize || n == initSize+kemKey {
			if j == nil || err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		mustEnd(t, fmt.Sprint(n, " bytes"), p.gateway, err)
	}
	p := newPair(t, options{})
	huge := make([]byte, 64<<20)
	huge[0] = byte(wire.KindHandshakeInit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := p.gateway.Receive(huge)
	runtime.ReadMemStats(&after)
	mustEnd(t, "64 MiB", p.gateway, err)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
		t.Errorf("refusing 64 MiB allocated %d bytes", got)
	}
}

// TestHelloFlagMustFitTheLength: a hybrid flag without a key and a key without the flag.
func TestHelloFlagMustFitTheLength(t *testing.T) {
	for _, mode := range []PostQuantum{PostQuantumOff, PostQuantumPreferred} {
		p := newPair(t, options{client: ClientConfig{PostQuantum: mode}})
		s, err := handshakeWith(t, p, flipped(1+keySize), untouched)
		mustEnd(t, "hybrid flag", s, err)
		if s != p.gateway || !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// classical spares the tests that do not need it the cost of ML-KEM.
var classical = options{client: ClientConfig{PostQuantum: PostQuantumOff}}

// inPhase brings a fresh session of either role into a phase.
var inPhase = []struct {
	name  string
	takes []wire.Kind // the kinds that are allowed there
	enter func(t *testing.T) *Session
}{
	{"client new", nil, func(t *testing.T) *Session { return newPair(t, classical).client }},
	{"client starting", nil, func(t *testing.T) *Session {
		s := newPair(t, classical).client
		_, err := s.Start()
		must(t, err)
		return s
	}},
	{"client awaits reply", []wire.Kind{wire.KindHandshakeReply}, func(t *testing.T) *Session {
		s := newPair(t, classical).client
		_, err := start(s)
		must(t, err)
		return s
	}},
	{"client makes ResumeInit", nil, func(t *testing.T) *Session {
		w := newTicketed(t, classical)
		s := newPair(t, w.options).client
		_, err := s.Resume(w.ticket)
		must(t, err)
		return s
	}},
	{"client awaits resumption", []wire.Kind{wire.KindResumeReply, wire.KindResumeRefused}, func(t *testing.T) *Session {
		w := newTicketed(t, classical)
		s := newPair(t, w.options).client
		j, err := s.Resume(w.ticket)
		_, err = finish(s, j, err)
		must(t, err)
		return s
	}},
	{"gateway resuming", nil, func(t *testing.T) *Session {
		s, init := resumeInit(t)
		_, err := s.Receive(init)
		must(t, err)
		return s
	}},
	{"gateway has resumed", []wire.Kind{wire.KindRecord, wire.KindGoodbye}, func(t *testing.T) *Session {
		s, init := resumeInit(t)
		_, err := receive(s, init)
		must(t, err)
		return s
	}},
	{"gateway has refused to resume", []wire.Kind{wire.KindHandshakeInit}, func(t *testing.T) *Session {
		s, init := resumeInit(t)
		_, err := receive(s, flipped(50)(init))
		must(t, err)
		return s
	}},
	{"gateway awaits init", []wire.Kind{wire.KindHandshakeInit, wire.KindResumeInit}, func(t *testing.T) *Session { return newPair(t, classical).gateway }},
	{"gateway answering", nil, func(t *testing.T) *Session {
		p := newPair(t, classical)
		init, err := start(p.client)
		must(t, err)
		_, err = p.gateway.Receive(init)
		must(t, err)
		return p.gateway
	}},
	{"client established", recordKinds, func(t *testing.T) *Session { return newPair(t, classical).establish(t).client }},
	{"gateway established", recordKinds, func(t *testing.T) *Session { return newPair(t, classical).establish(t).gateway }},
	{"after goodbye", nil, func(t *testing.T) *Session {
		p := newPair(t, classical).establish(t)
		opens(t, p.client, p.gateway.Seal(nil, wire.KindGoodbye, nil), wire.KindGoodbye, nil)
		return p.client
	}},
}

// resumeInit is a gateway that has heard nothing yet, and a ResumeInit for it.
func resumeInit(t *testing.T) (*Session, []byte) {
	t.Helper()
	w := newTicketed(t, classical)
	p := newPair(t, w.options)
	j, err := p.client.Resume(w.ticket)
	init, err := finish(p.client, j, err)
	must(t, err)
	return p.gateway, init
}

var recordKinds = []wire.Kind{wire.KindRecord, wire.KindKeyUpdate, wire.KindGoodbye}

// TestWrongKindInEveryPhase sends every kind that is not allowed, through both
// entries, in each phase.
func TestWrongKindInEveryPhase(t *testing.T) {
	// All the low kinds, and a few of those that nothing is near to.
	kinds := []int{0x80, 0x81, 0x90, 0xff}
	for kind := range 0x18 {
		kinds = append(kinds, kind)
	}
	for _, phase := range inPhase {
		for _, kind := range kinds {
			if slices.Contains(phase.takes, wire.Kind(kind)) {
				continue
			}
			msg := make([]byte, initSize)
			msg[0] = byte(kind)
			what := fmt.Sprintf("%s, kind %#x", phase.name, kind)
			s := phase.enter(t)
			_, err := s.Receive(msg)
			mustEnd(t, what+" to Receive", s, err)
			s = phase.enter(t)
			_, plaintext, err := s.Open(msg)
			mustEnd(t, what+" to Open", s, err)
			if plaintext != nil {
				t.Errorf("%s: plaintext %q", what, plaintext)
			}
		}
		s := phase.enter(t)
		_, _, err := s.Open(nil)
		mustEnd(t, phase.name+", empty message", s, err)
		s = phase.enter(t)
		_, err = s.Receive(nil)
		mustEnd(t, phase.name+", empty message", s, err)
	}
}

func TestReplyOfAnotherSessionIsRefused(t *testing.T) {
	first, second := newPair(t, options{}), newPair(t, options{})
	init, err := start(first.client)
	must(t, err)
	reply, err := receive(first.gateway, init)
	must(t, err)
	_, err = start(second.client)
	must(t, err)
	_, err = receive(second.client, reply)
	mustEnd(t, "reply to another client", second.client, err)
}

// TestHybridReplyToClassicalOffer must be refused by its length alone.
func TestHybridReplyToClassicalOffer(t *testing.T) {
	s := newPair(t, options{client: ClientConfig{PostQuantum: PostQuantumOff}}).client
	_, err := start(s)
	must(t, err)
	msg := make([]byte, replySize+kemCiphertext)
	msg[0] = byte(wire.KindHandshakeReply)
	j, err := s.Receive(msg)
	if j != nil {
		t.Error("a job for it")
	}
	mustEnd(t, "hybrid reply", s, err)
}
