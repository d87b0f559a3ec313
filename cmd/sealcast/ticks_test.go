package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Demo ticks reach a client that pins the key of the key file, and the client
// is told when the gateway stops.
func TestTicksUntilStop(t *testing.T) {
	path := t.TempDir() + "/gw.key"
	pin, err := session.ParsePin(strings.TrimSpace(execute(t, nil, "keygen", "-o", path).stdout))
	if err != nil {
		t.Fatal(err)
	}
	r := serveWith(t, nil, "key_file="+path, "realm=here", "cipher.suites=sm4-gcm", "cipher.post_quantum=required", "loops=1", "drain.window=0s")
	url := "ws://" + r.logged("ready")["listen"].(string) + "/ws"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := client.Dial(ctx, url, client.Options{
		Pins: []session.PublicKey{pin}, Realm: "here", Suites: []suite.ID{suite.SM4GCM}, PostQuantum: session.PostQuantumRequired,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe(ctx, "md:**"); err != nil {
		t.Fatal(err)
	}
	for ticks := 0; err == nil; {
		var event client.Event
		if event, err = conn.Next(ctx); err != nil {
			break
		}
		tick, ok := event.(*client.Tick)
		if !ok {
			continue
		}
		if !strings.HasPrefix(tick.Topic, "md:demo:") || len(tick.Payload) == 0 {
			t.Errorf("tick %s %q", tick.Topic, tick.Payload)
		}
		if ticks++; ticks == 20 {
			r.signals <- os.Interrupt
		}
	}
	closed, ok := errors.AsType[*client.ClosedError](err)
	if !ok || closed.Code != wire.CloseRestart || !closed.Final {
		t.Errorf("the end: %v", err)
	}
	if status := <-r.ended; status != 0 {
		t.Errorf("status %d, log:\n%s", status, r.stderr.String())
	}
}
