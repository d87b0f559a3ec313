package session

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// TestPostQuantumModes: each pair of settings, what comes of it and who refuses.
func TestPostQuantumModes(t *testing.T) {
	const off, preferred, required = PostQuantumOff, PostQuantumPreferred, PostQuantumRequired
	for _, test := range []struct {
		client, gateway PostQuantum
		hybrid          bool
		refused         string
	}{
		{off, off, false, ""},
		{off, preferred, false, ""},
		{off, required, false, "gateway"},
		{preferred, off, false, ""},
		{preferred, preferred, true, ""},
		{preferred, required, true, ""},
		{required, off, false, "client"},
		{required, preferred, true, ""},
		{required, required, true, ""},
	} {
		what := fmt.Sprintf("client %v, gateway %v", test.client, test.gateway)
		p := newPair(t, options{client: ClientConfig{PostQuantum: test.client}, gateway: GatewayConfig{PostQuantum: test.gateway}})
		s, err := handshakeWith(t, p, untouched, untouched)
		if test.refused != "" {
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrPostQuantumRequired) || e.Code != wire.CloseForbidden || e.Reason == "" {
				t.Errorf("%s: %v", what, err)
			}
			if (s == p.gateway) != (test.refused == "gateway") || s.Established() {
				t.Errorf("%s: the wrong side refused", what)
			}
			continue
		}
		if err != nil || p.client.Peer().Hybrid != test.hybrid || p.gateway.Peer().Hybrid != test.hybrid {
			t.Errorf("%s: hybrid %v and %v, %v", what, p.client.Peer().Hybrid, p.gateway.Peer().Hybrid, err)
		}
		roundTrip(t, p.client, p.gateway, what)
		roundTrip(t, p.gateway, p.client, what)
	}
}

func TestPins(t *testing.T) {
	mine, other := testKey(t, 1).Public(), testKey(t, 2).Public()
	for _, test := range []struct {
		name     string
		pins     []PublicKey
		insecure bool
		want     error
		pinned   bool
	}{
		{"the pin", []PublicKey{mine}, false, nil, true},
		{"one of two", []PublicKey{other, mine}, false, nil, true},
		{"another's", []PublicKey{other}, false, ErrWrongPin, false},
		{"none", []PublicKey{}, false, ErrNoPin, false},
		{"none, insecure", nil, true, nil, false},
		{"another's, insecure", []PublicKey{other}, true, nil, false},
		{"the pin, insecure", []PublicKey{mine}, true, nil, true},
	} {
		p := newPair(t, options{client: ClientConfig{Pins: test.pins, Insecure: test.insecure}})
		_, err := handshakeWith(t, p, untouched, untouched)
		if test.want != nil {
			var pin *PinError
			if !errors.Is(err, test.want) || !errors.As(err, &pin) || pin.Seen != mine {
				t.Errorf("%s: %v", test.name, err)
			}
			if p.client.Established() {
				t.Errorf("%s: established", test.name)
			}
			continue
		}
		if err != nil || p.client.Peer().Pinned != test.pinned || p.client.Peer().Static != mine {
			t.Errorf("%s: %+v, %v", test.name, p.client.Peer(), err)
		}
	}
}

func TestPeerTellsHardware(t *testing.T) {
	for _, aes := range []bool{true, false} {
		p := newPair(t, options{gateway: GatewayConfig{HardwareAES: aes}}).establish(t)
		if p.client.Peer().HardwareAES != aes {
			t.Errorf("gateway with AES %v: client reads %v", aes, !aes)
		}
	}
}

func TestBindingIsChecked(t *testing.T) {
	aes, plain := suite.AES128GCM.Protocol(), suite.Plain.Protocol()
	var many []string
	for i := range suite.MaxOffers {
		many = append(many, fmt.Sprint("t", i))
	}
	for name, b := range map[string]Binding{
		"no role":         {0, "", []string{aes}, aes},
		"unknown role":    {9, "", []string{aes}, aes},
		"NUL in realm":    {RolePush, "a\x00b", []string{aes}, aes},
		"long realm":      {RolePush, string(make([]byte, MaxRealm+1)), []string{aes}, aes},
		"nothing offered": {RolePush, "", nil, aes},
		"not selected":    {RolePush, "", []string{aes}, ""},
		"not offered":     {RolePush, "", []string{aes}, suite.AES256GCM.Protocol()},
		"foreign choice":  {RolePush, "", []string{aes, "other"}, "other"},
		"offered twice":   {RolePush, "", []string{aes, aes}, aes},
		"comma":           {RolePush, "", []string{aes, "a,b"}, aes},
		"NUL in offer":    {RolePush, "", []string{aes, "a\x00"}, aes},
		"empty offer":     {RolePush, "", []string{aes, ""}, aes},
		"plain and more":  {RolePush, "", []string{plain, aes}, plain},
		"too many":        {RolePush, "", append(many, aes), aes},
	} {
		if _, err := NewClient(&ClientConfig{}, record.NewPool(0, 0), b); !errors.Is(err, ErrBinding) {
			t.Errorf("client, %s: %v", name, err)
		}
		if _, err := NewGateway(&GatewayConfig{Key: testKey(t, 1)}, record.NewPool(0, 0), b); !errors.Is(err, ErrBinding) {
			t.Errorf("gateway, %s: %v", name, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	b := bindingOf(0, 0)
	high := record.Limits{Records: record.MaxRecords + 1}
	if _, err := NewClient(&ClientConfig{Limits: high}, record.NewPool(0, 0), b); err == nil {
		t.Error("client with a limit above the maximum")
	}
	if _, err := NewGateway(&GatewayConfig{Key: testKey(t, 1), Limits: high}, record.NewPool(0, 0), b); err == nil {
		t.Error("gateway with a limit above the maximum")
	}
	if _, err := NewGateway(&GatewayConfig{}, record.NewPool(0, 0), b); err == nil {
		t.Error("gateway without a key")
	}
}

func TestNoRandomness(t *testing.T) {
	for _, mode := range []PostQuantum{PostQuantumOff, PostQuantumRequired} {
		p := newPair(t, options{client: ClientConfig{PostQuantum: mode, Rand: failingReader{}}})
		_, err := start(p.client)
		mustEnd(t, "client without randomness", p.client, err)
	}
	p := newPair(t, options{gateway: GatewayConfig{Rand: failingReader{}}})
	s, err := handshakeWith(t, p, untouched, untouched)
	mustEnd(t, "gateway without randomness", s, err)
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("no randomness") }

// TestMessageWhileJobIsOut: nothing is queued; the session ends and the job's
// result is refused.
func TestMessageWhileJobIsOut(t *testing.T) {
	p := newPair(t, options{})
	init, err := start(p.client)
	must(t, err)
	j, err := p.gateway.Receive(init)
	must(t, err)
	_, err = p.gateway.Receive(init)
	mustEnd(t, "second HandshakeInit", p.gateway, err)
	j.Run()
	if reply, err := p.gateway.Complete(j); reply != nil || !errors.Is(err, ErrClosed) {
		t.Errorf("%d bytes, %v", len(reply), err)
	}
	if p.gateway.Established() || !panics(func() { j.out.send.Seal(record.NewPool(0, 0), nil, 0x10, nil) }) {
		t.Error("the late job left keys that work")
	}
}

func TestCloseWhileJobIsOut(t *testing.T) {
	p := newPair(t, options{})
	j, err := p.client.Start()
	must(t, err)
	p.client.Close()
	p.client.Close()
	j.Run()
	if reply, err := p.client.Complete(j); reply != nil || !errors.Is(err, ErrClosed) {
		t.Errorf("%d bytes, %v", len(reply), err)
	}
	if p.client.Err() != nil {
		t.Errorf("a cause after an ordinary Close: %v", p.client.Err())
	}
}

// TestJobsRunOnOtherGoroutines: the race detector sees whether Run touches
// the session.
func TestJobsRunOnOtherGoroutines(t *testing.T) {
	p := newPair(t, options{})
	elsewhere := func(s *Session, j *Job, err error) []byte {
		t.Helper()
		must(t, err)
		done := make(chan struct{})
		go func() { j.Run(); close(done) }()
		if s.Established() || s.Suite() == 0 || s.Err() != nil {
			t.Error("not as before the job")
		}
		<-done
		reply, err := s.Complete(j)
		must(t, err)
		return reply
	}
	j, err := p.client.Start()
	init := elsewhere(p.client, j, err)
	j, err = p.gateway.Receive(init)
	clear(init) // the session keeps its own copy
	reply := elsewhere(p.gateway, j, err)
	j, err = p.client.Receive(reply)
	elsewhere(p.client, j, err)
	roundTrip(t, p.client, p.gateway, "hello")
}

// TestForgedJob: a job that is not the session's changes nothing.
func TestForgedJob(t *testing.T) {
	first, second := newPair(t, options{}), newPair(t, options{})
	j, err := first.client.Start()
	must(t, err)
	j.Run()
	if _, err := second.client.Complete(j); !errors.Is(err, ErrClosed) {
		t.Errorf("another session's job: %v", err)
	}
	if _, err := first.client.Complete(j); err != nil {
		t.Errorf("the session's own afterwards: %v", err)
	}
	if _, err := first.client.Complete(j); !errors.Is(err, ErrClosed) {
		t.Errorf("the same job again: %v", err)
	}
}

// TestCloseForgetsSecrets looks for every secret in the session's own memory,
// before and after Close.
func TestCloseForgetsSecrets(t *testing.T) {
	r, b := vectorReference(t, suite.AES256GCM, true)
	p := vectorHandshakeRun(t, r.file(b), b, true)
	secrets := map[string][]byte{"c2s secret": r.toGateway, "s2c secret": r.toClient, "resume master": r.resumeMaster()}
	for name, secret := range map[string][]byte{"c2s": r.toGateway, "s2c": r.toClient} {
		key, iv := r.keys(secret)
		secrets[name+" key"], secrets[name+" iv"] = key, iv
	}
	for _, s := range []*Session{p.client, p.gateway} {
		s.Seal(nil, wire.KindRecord, []byte("x"))
		own, kept := bytesOf(s), bytesOf(s.past)
		for name, secret := range secrets {
			if !bytes.Contains(own, secret) && !bytes.Contains(kept, secret) {
				t.Errorf("the test looks for the wrong thing: no %s before Close", name)
			}
		}
		s.Close()
		for name, secret := range secrets {
			if bytes.Contains(own, secret) || bytes.Contains(kept, secret) {
				t.Errorf("%s after Close", name)
			}
		}
		if s.pool.Stats().Kept != 0 {
			t.Error("the pool keeps a cipher of a closed session")
		}
	}
}

// bytesOf is a value's own memory.
func bytesOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// TestIdleSessionIsSmall: what a connected client costs without its expanded
// ciphers. docs/performance.md counts on it.
func TestIdleSessionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Session{}); size > 288 { // a size class of Go's allocator
		t.Errorf("a session takes %d bytes", size)
	}
	p := newPair(t, options{}).establish(t)
	if p.client.hs != nil || p.gateway.hs != nil {
		t.Error("an established session keeps its handshake")
	}
}

// TestSettledGateway: what a gateway keeps for the ticket is overwritten and gone
// once the client is let in, and the session goes on.
func TestSettledGateway(t *testing.T) {
	w := newTicketed(t, options{})
	p := newPair(t, w.options).establish(t)
	past, resume := bytesOf(p.gateway.past), bytes.Clone(bytesOf(&p.gateway.past.resume))
	if !bytes.Contains(past, resume) {
		t.Fatal("the test looks for the wrong thing")
	}
	hybrid := p.gateway.Peer().Hybrid
	p.gateway.Settle()
	if p.gateway.past != nil || bytes.Contains(past, resume) {
		t.Error("the resumption secret is still there")
	}
	if _, _, _, err := p.gateway.NewTicket(testGrant); !errors.Is(err, errTicket) {
		t.Errorf("a ticket afterwards: %v", err)
	}
	if p.gateway.Resumed() != nil || p.gateway.Peer().Hybrid != hybrid || p.gateway.Err() != nil {
		t.Error("what is left says something else")
	}
	_, plain, err := p.gateway.Open(p.client.Seal(nil, wire.KindRecord, []byte("x")))
	if err != nil || string(plain) != "x" {
		t.Errorf("%q, %v", plain, err)
	}
	if _, _, err := p.gateway.Open([]byte{byte(wire.KindRecord), 1, 2}); err == nil || p.gateway.Err() == nil {
		t.Error("the cause of a later failure is not kept")
	}
	p.client.Settle() // nothing that a client has is only for resumption
	if _, err := p.client.Keep([]byte("x"), [16]byte{}); err != nil {
		t.Errorf("a client cannot keep tickets: %v", err)
	}
}

// FuzzHandshake feeds both roles: nothing but the genuine messages gets on,
// nothing panics, and the end is always 4400 or a refusal.
func FuzzHandshake(f *testing.F) {
	for _, mode := range []PostQuantum{PostQuantumOff, PostQuantumPreferred} {
		p := newPair(f, options{client: ClientConfig{PostQuantum: mode}})
		init, err := start(p.client)
		must(f, err)
		reply, err := receive(p.gateway, init)
		must(f, err)
		f.Add(true, init)
		f.Add(false, reply)
		f.Add(true, reply)
		f.Add(false, init[:len(init)-1])
	}
	f.Add(true, []byte{})
	f.Fuzz(func(t *testing.T, toGateway bool, msg []byte) {
		p := newPair(t, options{})
		_, err := start(p.client)
		must(t, err)
		s := p.client
		if toGateway {
			s = p.gateway
		}
		reply, err := receive(s, msg)
		if toGateway && err == nil {
			if len(reply) != replySize && len(reply) != replySize+kemCiphertext {
				t.Errorf("reply of %d bytes", len(reply))
			}
			return
		}
		mustEnd(t, "fuzzed handshake", s, err)
	})
}
