package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
)

func TestPlainEchoForOrdinaryClients(t *testing.T) {
	s := start(t, nil)
	conn, _, _, err := ws.Dial(t.Context(), s.url("/echo"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 1 << 20} {
		for _, op := range []ws.OpCode{ws.OpText, ws.OpBinary} {
			want := bytes.Repeat([]byte("a"), size)
			if err := wsutil.WriteClientMessage(conn, op, want); err != nil {
				t.Fatal(err)
			}
			got, gotOp, err := wsutil.ReadServerData(conn)
			if err != nil || gotOp != op || !bytes.Equal(got, want) {
				t.Fatalf("size %d op %d: got %d bytes op %d, %v", size, op, len(got), gotOp, err)
			}
		}
	}
}

func TestSealedEchoWithEverySuite(t *testing.T) {
	s := start(t, nil)
	for _, id := range suite.All() {
		t.Run(id.String(), func(t *testing.T) {
			e, err := client.DialEcho(t.Context(), s.url("/echo"), s.options(id))
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(context.Background())
			for _, size := range []int{0, 1, 100, 5000, 70000, 1 << 20} {
				want := bytes.Repeat([]byte{byte(size)}, size)
				if err := e.Send(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				got, err := e.Receive(t.Context())
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("size %d: got %d bytes, %v", size, len(got), err)
				}
			}
		})
	}
}

func TestTicksReachSubscribersOnAllLoops(t *testing.T) {
	s := start(t, nil)
	var clients []*client.Conn
	for i := range 8 {
		c := s.dial(t, suite.All()[i%len(suite.All())])
		if _, err := c.Subscribe(t.Context(), "md:**"); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	const ticks = 500
	for i := range ticks {
		s.hub.publish(fmt.Sprintf("md:x:%d", i%7), []byte(fmt.Sprint(i)), nil)
	}
	for _, c := range clients {
		for i := range ticks {
			want := fmt.Sprint(i)
			if got := nextTick(t, c); string(got.Payload) != want || got.Topic != fmt.Sprintf("md:x:%d", i%7) {
				t.Fatalf("tick %d: %s %q", i, got.Topic, got.Payload)
			}
			if got := nextTick(t, c); len(got.Payload) != 0 {
				t.Fatalf("empty tick %d: %q", i, got.Payload)
			}
		}
	}
}

func TestOverlappingFiltersDeliverOnce(t *testing.T) {
	s := start(t, nil)
	c := s.dial(t)
	if _, err := c.Subscribe(t.Context(), "md:a", "md:*"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), "**"); err != nil {
		t.Fatal(err)
	}
	s.hub.publish("md:a", []byte("1"))
	s.hub.publish("md:b", []byte("2"))
	if err := c.Unsubscribe(t.Context(), "**", "md:a"); err != nil {
		t.Fatal(err)
	}
	s.hub.publish("other", []byte("no"))
	s.hub.publish("md:a", []byte("3"))
	for _, want := range []string{"1", "2", "3"} {
		if got := nextTick(t, c); string(got.Payload) != want {
			t.Fatalf("got %q, want %q", got.Payload, want)
		}
	}
	if err := c.Unsubscribe(t.Context(), "md:*"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "filters released", func() bool { return s.hub.heldFilters() == 0 })
}

func TestLastSessionReleasesItsFilters(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	a, b := s.dial(t), s.dial(t)
	for _, c := range []*client.Conn{a, b} {
		if _, err := c.Subscribe(t.Context(), "md:a", "md:b"); err != nil {
			t.Fatal(err)
		}
	}
	_ = a.Close(context.Background())
	eventually(t, "one connection left", func() bool { return s.Stats().Connections == 1 })
	if n := s.hub.heldFilters(); n != 2 {
		t.Fatalf("%d filters held", n)
	}
	_ = b.Close(context.Background())
	eventually(t, "filters released", func() bool { return s.hub.heldFilters() == 0 })
}
