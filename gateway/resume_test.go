package gateway_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/session"
)

func ticketKeys(t *testing.T) *session.TicketKeys {
	t.Helper()
	key := make([]byte, session.TicketKeySize)
	_, _ = rand.Read(key)
	keys, err := session.NewTicketKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// withTickets shares ticket keys and the static key, as sibling gateways do.
func withTickets(key *session.StaticKey, keys *session.TicketKeys, now func() time.Time) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Session = &session.GatewayConfig{Key: key, Tickets: &session.Tickets{Keys: keys, Now: now}}
	}
}

func TestResumptionAcrossGateways(t *testing.T) {
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := ticketKeys(t)
	first := start(t, withTickets(key, keys, time.Now))
	sibling := start(t, withTickets(key, keys, time.Now))
	stranger := start(t, withTickets(key, ticketKeys(t), time.Now))
	late := start(t, withTickets(key, keys, func() time.Time { return time.Now().Add(time.Hour) }))
	for _, s := range []*server{first, sibling, stranger, late} {
		s.key = key
	}

	for _, c := range []struct {
		name    string
		to      *server
		resumed bool
	}{{"same gateway", first, true}, {"sibling", sibling, true}, {"other ticket keys", stranger, false}, {"expired", late, false}} {
		t.Run(c.name, func(t *testing.T) {
			opts := first.options()
			conn := first.dial(t)
			if opts.Ticket = conn.Ticket(); opts.Ticket == nil {
				t.Fatal("no ticket")
			}
			for again := range 2 {
				conn, err := client.Dial(t.Context(), c.to.url("/ws"), opts)
				if err != nil {
					t.Fatal(err)
				}
				// A ticket works once; after that the client makes a full handshake.
				if got, want := conn.Info().Resumed, c.resumed && again == 0; got != want {
					t.Errorf("dial %d: resumed %v, want %v", again, got, want)
				}
				if _, err := conn.Subscribe(t.Context(), "md:a"); err != nil {
					t.Error(err)
				}
				_ = conn.Close(context.Background())
			}
		})
	}
	if n := stranger.Stats().TicketsRefused; n != 1 {
		t.Errorf("%d tickets refused by the stranger", n)
	}
	if n := first.Stats().Handshakes.Sum().Resumed; n != 1 {
		t.Errorf("%d sessions resumed", n)
	}
}

// After the static key has changed, old pins still reach nothing, old tickets
// are refused, and a client with both pins goes on.
func TestRotatedKeyRefusesOldTickets(t *testing.T) {
	old, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := ticketKeys(t)
	var settings gateway.Settings
	s := start(t, func(o *gateway.Options) { withTickets(old, keys, time.Now)(o); settings = o.Settings })
	s.key = old
	opts := s.options()
	opts.Pins = append(opts.Pins, fresh.Public())
	before, err := client.Dial(t.Context(), s.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close(context.Background())
	if _, err := before.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}

	settings.Session = &session.GatewayConfig{Key: fresh, Tickets: &session.Tickets{Keys: keys, Now: time.Now}}
	s.Reload(settings)

	opts.Ticket = before.Ticket()
	after, err := client.Dial(t.Context(), s.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close(context.Background())
	if info := after.Info(); info.Resumed || info.Key != fresh.Public() {
		t.Errorf("resumed %v under key %v", info.Resumed, info.Key)
	}
	s.hub.publish("md:a", []byte("still here"))
	if got := nextTick(t, before); string(got.Payload) != "still here" {
		t.Errorf("the session from before got %q", got.Payload)
	}
}
