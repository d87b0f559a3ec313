package session

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// ticketed is a gateway that resumes, with a clock that the test moves, and
// a client that has been there.
type ticketed struct {
	options
	now     time.Time
	revoked error
	ticket  *ClientTicket
}

var testGrant = Grant{Identity: "alice", Rights: []byte("md:**"), Authenticated: 1_699_999_000, TokenExpiry: 1_700_090_000}

func testTicketKeys(t testing.TB, n byte) *TicketKeys {
	t.Helper()
	k, err := NewTicketKeys(bytes.Repeat([]byte{n}, TicketKeySize))
	must(t, err)
	return k
}

// newTicketed runs a full handshake and takes a ticket from it.
func newTicketed(t testing.TB, o options) *ticketed {
	t.Helper()
	w := &ticketed{options: o, now: time.Unix(1_700_000_000, 0)}
	w.gateway.Key = testKey(t, 1)
	w.gateway.Tickets = &Tickets{
		Keys:   testTicketKeys(t, 1),
		Now:    func() time.Time { return w.now },
		Accept: func(Grant) error { return w.revoked },
	}
	w.ticket = w.take(t, newPair(t, w.options).establish(t), testGrant)
	return w
}

// take hands a ticket from the pair's gateway to its client.
func (w *ticketed) take(t testing.TB, p *pair, g Grant) *ClientTicket {
	t.Helper()
	ticket, nonce, expiry, err := p.gateway.NewTicket(g)
	must(t, err)
	if !expiry.Equal(w.now.Add(defaultTicketLifetime)) {
		t.Errorf("ticket until %v, now is %v", expiry, w.now)
	}
	kept, err := p.client.Keep(ticket, nonce)
	must(t, err)
	return kept
}

// outcome is how a connection with a ticket went.
type outcome struct {
	*pair
	refusal error
	err     error
	failed  *Session
}

// resume connects with the ticket, through a man in the middle, up to three
// round trips: ResumeInit, its answer, and a full handshake after a refusal.
func (w *ticketed) resume(t testing.TB, onInit, onReply func([]byte) []byte) (o outcome) {
	t.Helper()
	o.pair = newPair(t, w.options)
	j, err := o.client.Resume(w.ticket)
	msg, err := finish(o.client, j, err)
	must(t, err)
	for msg != nil {
		j, err := o.gateway.Receive(onInit(msg))
		reply, err := finish(o.gateway, j, err)
		if err != nil {
			o.failed, o.err = o.gateway, err
			return o
		}
		if r := j.Refusal(); r != nil {
			o.refusal = r
			onInit = untouched
		}
		if msg, err = receive(o.client, onReply(reply)); err != nil {
			o.failed, o.err = o.client, err
			return o
		}
	}
	return o
}

func TestResume(t *testing.T) {
	for _, id := range suite.All() {
		for _, mode := range []PostQuantum{PostQuantumOff, PostQuantumPreferred, PostQuantumRequired} {
			what := fmt.Sprintf("%v, post-quantum %v", id, mode)
			w := newTicketed(t, options{suite: id, client: ClientConfig{PostQuantum: mode}, gateway: GatewayConfig{HardwareAES: true}})
			for range 3 { // each session gives the ticket for the next
				o := w.resume(t, untouched, untouched)
				if o.err != nil || o.refusal != nil {
					t.Fatalf("%s: %v, %v", what, o.err, o.refusal)
				}
				peer := o.client.Peer()
				if !peer.Resumed || !o.gateway.Peer().Resumed || !peer.Pinned || !peer.HardwareAES || peer.Static != w.gateway.Key.Public() {
					t.Errorf("%s: %+v, %+v", what, peer, o.gateway.Peer())
				}
				if hybrid := mode != PostQuantumOff; peer.Hybrid != hybrid || o.gateway.Peer().Hybrid != hybrid {
					t.Errorf("%s: hybrid %v", what, peer.Hybrid)
				}
				roundTrip(t, o.gateway, o.client, "the gateway may speak first")
				if o.gateway.Resumed() != nil {
					t.Errorf("%s: the grant takes effect before a record has opened", what)
				}
				roundTrip(t, o.client, o.gateway, "first")
				if got := o.gateway.Resumed(); got == nil || fmt.Sprint(*got) != fmt.Sprint(testGrant) {
					t.Errorf("%s: resumed %+v", what, got)
				}
				w.ticket = w.take(t, o.pair, *o.gateway.Resumed())
			}
		}
	}
}

// TestRefusedTicketFallsBack: whatever is wrong with a ticket, the gateway
// refuses it and the same connection goes on with a full handshake.
func TestRefusedTicketFallsBack(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *ticketed){
		"expired":       func(_ *testing.T, w *ticketed) { w.now = w.now.Add(defaultTicketLifetime) },
		"token expired": func(_ *testing.T, w *ticketed) { w.now = time.Unix(testGrant.TokenExpiry, 0) },
		"revoked":       func(_ *testing.T, w *ticketed) { w.revoked = errors.New("alice is out") },
		"other key":     func(t *testing.T, w *ticketed) { w.gateway.Tickets.Keys = testTicketKeys(t, 9) },
		"rotated twice": func(t *testing.T, w *ticketed) { rotate(t, w, 2); rotate(t, w, 3) },
		"static key changed": func(t *testing.T, w *ticketed) {
			w.gateway.Key = testKey(t, 7)
			w.client.Pins = []PublicKey{testKey(t, 1).Public(), testKey(t, 7).Public()}
		},
		"no resumption":    func(_ *testing.T, w *ticketed) { w.gateway.Tickets = nil },
		"damaged":          func(_ *testing.T, w *ticketed) { w.ticket.ticket[40] ^= 1 },
		"damaged key id":   func(_ *testing.T, w *ticketed) { w.ticket.ticket[0] ^= 1 },
		"cut":              func(_ *testing.T, w *ticketed) { w.ticket.ticket = w.ticket.ticket[:ticketOverhead-1] },
		"wrong psk":        func(_ *testing.T, w *ticketed) { w.ticket.psk[0] ^= 1 },
		"hybrid given up":  func(_ *testing.T, w *ticketed) { w.client.PostQuantum = PostQuantumOff },
		"hybrid taken off": func(_ *testing.T, w *ticketed) { w.gateway.PostQuantum = PostQuantumOff },
	} {
		w := newTicketed(t, options{})
		spoil(t, w)
		o := w.resume(t, untouched, untouched)
		if o.err != nil || o.refusal == nil {
			t.Errorf("%s: refusal %v, error %v", name, o.refusal, o.err)
			continue
		}
		if o.client.Peer().Resumed || o.gateway.Peer().Resumed {
			t.Errorf("%s: resumed", name)
		}
		roundTrip(t, o.client, o.gateway, name)
		if o.gateway.Resumed() != nil {
			t.Errorf("%s: the ticket's grant is in force", name)
		}
	}
}

// TestTicketOfAnotherRealm: gateways that share keys but not the realm.
func TestTicketOfAnotherRealm(t *testing.T) {
	w := newTicketed(t, options{})
	b := bindingOf(0, 0)
	b.Realm = "elsewhere"
	client, err := NewClient(&ClientConfig{Pins: []PublicKey{w.gateway.Key.Public()}}, record.NewPool(0, 0), b)
	must(t, err)
	gateway, err := NewGateway(&w.gateway, record.NewPool(0, 0), b)
	must(t, err)
	j, err := client.Resume(w.ticket)
	init, err := finish(client, j, err)
	must(t, err)
	j, err = gateway.Receive(init)
	reply, err := finish(gateway, j, err)
	must(t, err)
	if !errors.Is(j.Refusal(), errTicket) || !bytes.Equal(reply, []byte{0x05}) {
		t.Errorf("%x, %v", reply, j.Refusal())
	}
}

func rotate(t *testing.T, w *ticketed, n byte) {
	t.Helper()
	keys, err := w.gateway.Tickets.Keys.Rotated(bytes.Repeat([]byte{n}, TicketKeySize))
	must(t, err)
	w.gateway.Tickets.Keys = keys
}

func TestTicketKeyRotation(t *testing.T) {
	w := newTicketed(t, options{})
	rotate(t, w, 2)
	o := w.resume(t, untouched, untouched)
	if o.err != nil || o.refusal != nil {
		t.Fatalf("after one rotation: %v, %v", o.err, o.refusal)
	}
	// A new ticket is under the new key, which another gateway shares.
	w.ticket = w.take(t, o.pair, testGrant)
	w.gateway.Tickets.Keys = testTicketKeys(t, 2)
	if o := w.resume(t, untouched, untouched); o.refusal != nil {
		t.Errorf("at another gateway: %v", o.refusal)
	}
}

// TestFullHandshakeAfterADay: tickets carry the time of the full handshake on.
func TestFullHandshakeAfterADay(t *testing.T) {
	w := newTicketed(t, options{})
	grant := Grant{Identity: "alice"}
	w.ticket = w.take(t, newPair(t, w.options).establish(t), grant)
	began := w.now
	for {
		w.now = w.now.Add(defaultTicketLifetime - time.Second)
		o := w.resume(t, untouched, untouched)
		must(t, o.err)
		if o.refusal != nil {
			break
		}
		if w.now.Sub(began) >= maxResumedAge {
			t.Fatalf("still resuming after %v", w.now.Sub(began))
		}
		w.ticket = w.take(t, o.pair, grant)
	}
	if w.now.Sub(began) < maxResumedAge {
		t.Errorf("refused after %v", w.now.Sub(began))
	}
}

// TestClientDoesNotUseTicket: then it begins with a full handshake at once.
func TestClientDoesNotUseTicket(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *ticketed){
		"none":            func(_ *testing.T, w *ticketed) { w.ticket = nil },
		"used":            func(t *testing.T, w *ticketed) { w.resume(t, untouched, untouched) },
		"cleared":         func(_ *testing.T, w *ticketed) { w.ticket.Clear() },
		"pin gone":        func(t *testing.T, w *ticketed) { w.client.Pins = []PublicKey{testKey(t, 2).Public()} },
		"hybrid required": func(_ *testing.T, w *ticketed) { w.client.PostQuantum = PostQuantumRequired },
	} {
		w := newTicketed(t, options{client: ClientConfig{PostQuantum: PostQuantumOff}})
		spoil(t, w)
		s := newPair(t, w.options).client
		j, err := s.Resume(w.ticket)
		msg, err := finish(s, j, err)
		if err != nil || msg[0] != byte(wire.KindHandshakeInit) {
			t.Errorf("%s: kind %#x, %v", name, msg[0], err)
		}
	}
}

// TestReplayedResumeInit: the gateway believes to have resumed, but no record
// opens, so the grant never takes effect.
func TestReplayedResumeInit(t *testing.T) {
	w := newTicketed(t, options{})
	var recorded []byte
	var first []byte
	o := w.resume(t, func(msg []byte) []byte { recorded = bytes.Clone(msg); return msg }, untouched)
	must(t, o.err)
	first = o.client.Seal(nil, wire.KindRecord, []byte("connect"))

	replay := newPair(t, w.options).gateway
	_, err := receive(replay, bytes.Clone(recorded))
	must(t, err)
	if !replay.Established() || replay.Resumed() != nil {
		t.Fatal("the replay's grant is in force")
	}
	_, _, err = replay.Open(bytes.Clone(first))
	mustEnd(t, "record of the genuine session", replay, err)
	if replay.Resumed() != nil {
		t.Error("the replay's grant is in force after a failure")
	}
	// The genuine session does not notice.
	opens(t, o.gateway, first, wire.KindRecord, []byte("connect"))
	if o.gateway.Resumed() == nil {
		t.Error("the genuine grant is not in force")
	}
}

// TestEveryResumptionByteIsProtected: a flipped byte of ResumeInit ends the
// session or is refused; one of ResumeReply ends it.
func TestEveryResumptionByteIsProtected(t *testing.T) {
	for _, mode := range []PostQuantum{PostQuantumOff, PostQuantumPreferred} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			w := newTicketed(t, options{client: ClientConfig{PostQuantum: mode}})
			kept := *w.ticket
			// A client whose randomness is fixed and that uses its ticket again
			// always sends the same message, so one reply serves for all positions.
			again := func() (*pair, []byte) {
				w.client.Rand = bytes.NewReader(make([]byte, 96))
				p, ticket := newPair(t, w.options), kept
				j, err := p.client.Resume(&ticket)
				init, err := finish(p.client, j, err)
				must(t, err)
				return p, init
			}
			p, init := again()
			reply, err := receive(p.gateway, init)
			must(t, err)
			for at := range init {
				what := fmt.Sprintf("byte %d of ResumeInit", at)
				s := newPair(t, w.options).gateway
				j, err := s.Receive(flipped(at)(init))
				if at < resumeHead {
					mustEnd(t, what, s, err)
					continue
				}
				answer, err := finish(s, j, err)
				if err != nil || s.Established() || !bytes.Equal(answer, []byte{0x05}) {
					t.Fatalf("%s: %x, %v", what, answer, err)
				}
			}
			for at := range reply {
				p, _ := again()
				_, err := receive(p.client, flipped(at)(reply))
				mustEnd(t, fmt.Sprintf("byte %d of ResumeReply", at), p.client, err)
			}
		})
	}
}

// TestRefusedOnlyOnce: after a refusal the gateway takes a full handshake and
// nothing else, and the client no second refusal.
func TestRefusedOnlyOnce(t *testing.T) {
	w := newTicketed(t, options{})
	w.ticket.psk[0] ^= 1
	p := newPair(t, w.options)
	j, err := p.client.Resume(w.ticket)
	init, err := finish(p.client, j, err)
	must(t, err)
	refused, err := receive(p.gateway, init)
	must(t, err)
	_, err = receive(p.gateway, init)
	mustEnd(t, "second ResumeInit", p.gateway, err)
	_, err = receive(p.client, refused)
	must(t, err)
	_, err = receive(p.client, refused)
	mustEnd(t, "second ResumeRefused", p.client, err)
}

func TestResumeInitLengths(t *testing.T) {
	base := func(declared, n int) []byte {
		return append([]byte{0x03, byte(declared >> 8), byte(declared)}, make([]byte, n)...)
	}
	message := resumeInitSize - resumeHead
	for name, test := range map[string]struct {
		msg []byte
		ok  bool
	}{
		"no length":             {[]byte{3, 0}, false},
		"no message":            {base(100, 100), false},
		"empty ticket":          {base(0, message), true}, // well-formed; refused by its content
		"exact":                 {base(100, 100+message), true},
		"exact hybrid":          {base(100, 100+message+kemKey), true},
		"one less":              {base(100, 99+message), false},
		"one more":              {base(100, 101+message), false},
		"longest":               {base(maxTicket, maxTicket+message), true},
		"longer than allowed":   {base(maxTicket+1, maxTicket+1+message), false},
		"length beyond the end": {base(0xffff, message), false},
	} {
		s := newPair(t, options{}).gateway
		j, err := s.Receive(test.msg)
		if test.ok {
			reply, err := finish(s, j, err)
			if err != nil || !bytes.Equal(reply, []byte{0x05}) || j.Refusal() == nil {
				t.Errorf("%s: %x, %v", name, reply, err)
			}
			continue
		}
		mustEnd(t, name, s, err)
	}
}

func TestNoTicket(t *testing.T) {
	w := newTicketed(t, options{})
	p := newPair(t, w.options)
	if _, _, _, err := p.gateway.NewTicket(testGrant); !errors.Is(err, errTicket) {
		t.Errorf("before the handshake: %v", err)
	}
	if _, err := p.client.Keep([]byte("x"), [16]byte{}); !errors.Is(err, errTicket) {
		t.Errorf("kept before the handshake: %v", err)
	}
	p.establish(t)
	for name, grant := range map[string]Grant{
		"long rights":   {Rights: make([]byte, maxTicket)},
		"long identity": {Identity: strings.Repeat("x", 1<<17)},
	} {
		if _, _, _, err := p.gateway.NewTicket(grant); !errors.Is(err, errTicket) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, _, err := p.client.NewTicket(testGrant); !errors.Is(err, errTicket) {
		t.Errorf("from a client: %v", err)
	}
	for _, size := range []int{0, maxTicket + 1} {
		if _, err := p.client.Keep(make([]byte, size), [16]byte{}); !errors.Is(err, errTicket) {
			t.Errorf("kept %d bytes: %v", size, err)
		}
	}
	p = newPair(t, options{}).establish(t)
	if _, _, _, err := p.gateway.NewTicket(testGrant); !errors.Is(err, errTicket) {
		t.Errorf("from a gateway that does not resume: %v", err)
	}
}

func TestTicketIsOpaque(t *testing.T) {
	w := newTicketed(t, options{})
	if bytes.Contains(w.ticket.ticket, []byte("alice")) || bytes.Contains(w.ticket.ticket, w.ticket.psk[:]) {
		t.Error("a ticket shows its content")
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%x"} {
		for _, secret := range []any{w.ticket, *w.ticket, w.gateway.Tickets.Keys, *w.gateway.Tickets.Keys} {
			if got := fmt.Sprintf(format, secret); got != "redacted" {
				t.Errorf("%s of %T prints %s", format, secret, got)
			}
		}
	}
	for _, keys := range [][][]byte{{}, {make([]byte, 31)}, {make([]byte, 32), nil}} {
		if _, err := NewTicketKeys(keys...); err == nil {
			t.Errorf("a ring of %d keys", len(keys))
		}
	}
}

// FuzzTicketContent: what a gateway of another version with the same key may
// have sealed.
func FuzzTicketContent(f *testing.F) {
	c := ticketContent{hybrid: true, realm: "r", grant: testGrant}
	f.Add(c.encode())
	f.Add(c.encode()[:ticketFixed])
	f.Add(make([]byte, ticketFixed+3))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := decodeTicket(in)
		if err != nil {
			if !errors.Is(err, errTicket) {
				t.Error(err)
			}
			return
		}
		again, err := decodeTicket(c.encode())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(c) {
			t.Errorf("%v, %v after %v", again, err, c)
		}
	})
}

// FuzzResumeInit feeds a gateway that resumes: it refuses or fails, and never
// resumes.
func FuzzResumeInit(f *testing.F) {
	w := newTicketed(f, options{client: ClientConfig{PostQuantum: PostQuantumOff}})
	w.gateway.Rand = rand.Reader
	var init []byte
	w.resume(f, func(m []byte) []byte { init = bytes.Clone(m); return m }, untouched)
	for at := 0; at < len(init); at += 20 {
		seed := bytes.Clone(flipped(at)(bytes.Clone(init)))
		clear(seed[len(seed)-16:]) // or changing the one bit back would make it whole again
		f.Add(seed)
	}
	f.Add([]byte{0x03, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, msg []byte) {
		if bytes.Equal(msg, init) || len(msg) > 0 && msg[0] == byte(wire.KindHandshakeInit) {
			return
		}
		s := newPair(t, w.options).gateway
		j, err := s.Receive(msg)
		if _, err = finish(s, j, err); err != nil {
			mustEnd(t, "fuzzed ResumeInit", s, err)
			return
		}
		if j.Refusal() == nil || s.Established() {
			t.Error("resumed")
		}
	})
}
