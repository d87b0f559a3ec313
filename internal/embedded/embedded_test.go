package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/redistest"
)

func TestStart(t *testing.T) {
	r, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sub, pub := redistest.Dial(t, r.Addr()), redistest.Dial(t, r.Addr())
	sub.Do("SUBSCRIBE", "md:x")
	pub.Publish("md:x", "payload")
	if got, err := sub.Receive(); err != nil || got != "message\nmd:x\npayload" {
		t.Errorf("received %q, %v", got, err)
	}

	_, err = Start(r.Addr())
	if !errors.Is(err, ErrInUse) || err.Error() != "built-in Redis on "+r.Addr()+": address already in use" {
		t.Errorf("second server on the address: %v", err)
	}
	r.Close()
	r.Close()
	again, err := Start(r.Addr())
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	again.Close()
}

func TestStartRefusesAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:6379", ":6379", "example.com:6379", "[2001:db8::1]:1"} {
		if _, err := Start(addr); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:port"} {
		if r, err := Start(addr); err == nil || errors.Is(err, ErrNotLoopback) {
			t.Errorf("%s: %v", addr, err)
			if r != nil {
				r.Close()
			}
		}
	}
}

func TestFeed(t *testing.T) {
	r, err := Start("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sub := redistest.Dial(t, r.Addr())
	sub.Do("PSUBSCRIBE", "md:demo:*")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Feed(ctx, r.Addr(), 2000, 1) }()
	symbols := map[string]bool{}
	for range 500 {
		got, err := sub.Receive()
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.SplitN(got, "\n", 4)
		if len(parts) != 4 || !json.Valid([]byte(parts[3])) {
			t.Fatalf("received %q", got)
		}
		symbols[strings.Split(parts[2], ":")[2]] = true
	}
	if len(symbols) != 20 {
		t.Errorf("%d symbols", len(symbols))
	}
	cancel()
	if err := wait(t, done); err != nil {
		t.Errorf("ended by ctx: %v", err)
	}

	go func() { done <- Feed(context.Background(), r.Addr(), 2000, 1) }()
	time.Sleep(10 * time.Millisecond)
	r.Close()
	if err := wait(t, done); err == nil || !strings.HasPrefix(err.Error(), "demo feed: ") {
		t.Errorf("without Redis: %v", err)
	}
}

func wait(t *testing.T, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("Feed does not end")
		return nil
	}
}
