package session

import (
	"bytes"
	"sync"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// pair is both ends of one session, each with its own pool as in reality.
type pair struct {
	client, gateway         *Session
	clientPool, gatewayPool *record.Pool
}

// options are what a test varies; the zero value is an ordinary hybrid session.
type options struct {
	client  ClientConfig
	gateway GatewayConfig
	suite   suite.ID
	role    Role
}

func bindingOf(id suite.ID, role Role) Binding {
	if id == 0 {
		id = suite.AES128GCM
	}
	if role == 0 {
		role = RolePush
	}
	return Binding{Role: role, Realm: "test", Offered: []string{id.Protocol()}, Selected: id.Protocol()}
}

// newPair makes two sessions that have not spoken yet; the client has the
// gateway's pin unless the test sets pins or Insecure itself.
func newPair(t testing.TB, o options) *pair {
	t.Helper()
	b := bindingOf(o.suite, o.role)
	if o.gateway.Key == nil {
		o.gateway.Key = testKey(t, 1)
	}
	if o.client.Pins == nil && !o.client.Insecure {
		o.client.Pins = []PublicKey{o.gateway.Key.Public()}
	}
	p := &pair{clientPool: record.NewPool(0, 0), gatewayPool: record.NewPool(0, 0)}
	var err error
	if p.client, err = NewClient(&o.client, p.clientPool, b); err != nil {
		t.Fatal(err)
	}
	if p.gateway, err = NewGateway(&o.gateway, p.gatewayPool, b); err != nil {
		t.Fatal(err)
	}
	return p
}

// testKey is a fixed static key for each n, the caller's own copy.
func testKey(t testing.TB, n byte) *StaticKey {
	t.Helper()
	if n == 1 {
		return &StaticKey{private: usualKey().private, public: usualKey().public}
	}
	k, err := GenerateStaticKey(bytes.NewReader(bytes.Repeat([]byte{n}, keySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// usualKey saves most tests the computation of the public key.
var usualKey = sync.OnceValue(func() *StaticKey {
	k, err := GenerateStaticKey(bytes.NewReader(bytes.Repeat([]byte{1}, keySize)))
	if err != nil {
		panic(err)
	}
	return k
})

// finish runs a job where it stands.
func finish(s *Session, j *Job, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	j.Run()
	return s.Complete(j)
}

func start(s *Session) ([]byte, error) {
	j, err := s.Start()
	return finish(s, j, err)
}

func receive(s *Session, msg []byte) ([]byte, error) {
	j, err := s.Receive(msg)
	return finish(s, j, err)
}

// establish runs the whole handshake.
func (p *pair) establish(t testing.TB) *pair {
	t.Helper()
	init, err := start(p.client)
	if err != nil {
		t.Fatal("start:", err)
	}
	reply, err := receive(p.gateway, init)
	if err != nil {
		t.Fatal("gateway:", err)
	}
	if _, err := receive(p.client, reply); err != nil {
		t.Fatal("client:", err)
	}
	if !p.client.Established() || !p.gateway.Established() {
		t.Fatal("not established")
	}
	return p
}

func TestEverySuiteCarriesRecordsBothWays(t *testing.T) {
	for _, id := range suite.All() {
		p := newPair(t, options{suite: id}).establish(t)
		for _, text := range []string{"", "x", "a tick and a bit more than one block of any cipher"} {
			roundTrip(t, p.client, p.gateway, text)
			roundTrip(t, p.gateway, p.client, text)
		}
	}
}

func roundTrip(t *testing.T, from, to *Session, text string) {
	t.Helper()
	msg := from.Seal([]byte("head"), wire.KindRecord, []byte(text))[4:]
	if len(msg) != from.SealedSize(len(text)) {
		t.Fatalf("%d bytes, SealedSize says %d", len(msg), from.SealedSize(len(text)))
	}
	kind, got, err := to.Open(msg)
	if err != nil || kind != wire.KindRecord || string(got) != text {
		t.Fatalf("Open: %v %q %v", kind, got, err)
	}
}
