package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/gateway"
)

// TestClientsRenewTheirTokens: a client with a source of tokens outlives several of
// them on one connection, its ticks go on, and it asks for no more than it needs.
func TestClientsRenewTheirTokens(t *testing.T) {
	t.Parallel()
	s := start(t, withTokens(t, func(o *gateway.Options) { o.Auth.Notice = time.Hour }))
	var made atomic.Int32
	opts := s.options()
	opts.TokenSource = func(context.Context) (string, error) {
		life := 8 * time.Second // half of it is for the renewal
		if made.Add(1) > 2 {
			life = time.Hour
		}
		return token(t, "ann", life), nil
	}
	began := time.Now()
	c, err := client.Open(t.Context(), s.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.Subscribe("md:a"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Until(began.Add(17*time.Second)), func() { // the first two are over
		s.hub.publish("md:a", []byte("still here"))
	})
	for {
		e, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := e.(*client.Disconnected); ok {
			t.Fatalf("disconnected: %v", d.Err)
		}
		if tick, ok := e.(*client.Tick); ok && string(tick.Payload) == "still here" {
			break
		}
	}
	if l := s.Stats().Logins; l.OK != 1 || l.Refreshed != 2 || made.Load() != 3 {
		t.Errorf("%+v, %d tokens", l, made.Load())
	}
}
