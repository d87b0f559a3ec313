package gateway_test

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

func TestConnectionLimitsRefuseNewcomersOnly(t *testing.T) {
	for name, limit := range map[string]func(*gateway.Limits){
		"total":       func(l *gateway.Limits) { l.Connections = 2 },
		"per address": func(l *gateway.Limits) { l.ConnectionsPerIP = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(o *gateway.Options) { limit(&o.Limits) })
			a, b := s.dial(t), s.dial(t)
			_, err := client.Dial(t.Context(), s.url("/ws"), s.options())
			var answer *client.HTTPError
			if !errors.As(err, &answer) || answer.Status != http.StatusServiceUnavailable {
				t.Fatalf("the third got %v", err)
			}
			if _, err := b.Subscribe(t.Context(), "md:a"); err != nil {
				t.Fatal(err)
			}
			_ = a.Close(t.Context())
			eventually(t, "room again", func() bool { return s.Stats().Connections == 1 })
			s.dial(t)
			s.hub.publish("md:a", []byte("1"))
			nextTick(t, b)
		})
	}
}

func TestHandshakeRate(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Limits.HandshakesPerSecond = 1 })
	first := s.dial(t)
	_, err := client.Dial(t.Context(), s.url("/ws"), s.options())
	var end *client.ClosedError
	if !errors.As(err, &end) || end.Code != wire.CloseTryLater {
		t.Fatalf("the second within a second got %v", err)
	}
	if _, err := first.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDenyListClosesAtOnce(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		o.Limits.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/31")}
	})
	from := func(ip string) error {
		d := ws.Dialer{NetDial: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext}
		c, _, _, err := d.Dial(t.Context(), s.url("/echo"))
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := from("127.0.0.3"); err == nil {
		t.Error("a denied address got in")
	}
	if err := from("127.0.0.4"); err != nil {
		t.Errorf("an allowed address: %v", err)
	}
	if n := s.Stats().Denied; n != 1 {
		t.Errorf("%d denied", n)
	}
}

func TestOrigins(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Origins = []string{"https://a.example"} })
	for origin, want := range map[string]int{"": 0, "https://a.example": 0, "https://A.example": 0, "https://b.example": 403, "null": 403} {
		h := http.Header{}
		if origin != "" {
			h.Set("Origin", origin)
		}
		c, _, _, err := ws.Dialer{Header: ws.HandshakeHeaderHTTP(h)}.Dial(t.Context(), s.url("/echo"))
		if err == nil {
			_ = c.Close()
		}
		var status ws.StatusError
		errors.As(err, &status)
		if int(status) != want {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
}
