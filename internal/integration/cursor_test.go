package integration

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
)

// onStreams starts a gateway that reads the streams of a server.
func onStreams(t *testing.T, redis *redistest.Server) *system {
	t.Helper()
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &system{key: key, rekey: testenv.Rekey()}
	s.startHub(t, &session.GatewayConfig{Key: key, HardwareAES: true, Limits: testenv.Rekey()}, fanout.Options{
		Redis: fanout.Redis{Source: fanout.Streams, Streams: []string{"one", "two"}, Addrs: []string{redis.Addr}},
	})
	return s
}

// stay follows topics from a cursor on until each has brought "end", and returns
// what came, and the cursor behind it. subscribed is called when the client is.
func (s *system) stay(t *testing.T, cursor []byte, subscribed func()) (got map[string][]string, behind []byte) {
	t.Helper()
	ctx := limited(t)
	c, err := client.Dial(ctx, "ws://"+s.addr+"/ws", s.options(suite.AES128GCM))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SubscribeWith(ctx, client.SubscribeOptions{Cursor: cursor}, "md:**", "name"); err != nil {
		t.Fatal(err)
	}
	subscribed()
	got = make(map[string][]string)
	for ends := 0; ends < len(streamOf); {
		ev, err := c.Next(ctx)
		if err != nil {
			t.Fatalf("%v; %d topics", err, len(got))
		}
		switch ev := ev.(type) {
		case *client.Tick:
			got[ev.Topic] = append(got[ev.Topic], string(ev.Payload))
			if string(ev.Payload) == "end" {
				ends++
			}
		case *client.Gap, *client.Reset:
			t.Errorf("%#v", ev)
		}
	}
	quiet, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := c.Next(quiet); err == nil { // the cursor stands behind the ticks
		t.Error("more than the end")
	}
	behind = c.Cursor()
	_ = c.Close(ctx)
	return got, behind
}

// streamOf says where each topic is.
var streamOf = map[string]string{"md:a": "one", "md:b": "two", "name": "one"}

// ticker publishes numbers and remembers them.
type ticker struct {
	redis *redistest.Server
	conn  *redistest.Conn
	n     int
	want  map[string][]string
}

func (p *ticker) publish(times int) {
	for range times {
		for topic := range streamOf {
			p.n++
			p.add(topic, fmt.Sprint(p.n))
		}
	}
}

func (p *ticker) add(topic, payload string) {
	p.conn.Do("XADD", streamOf[topic], "*", "topic", topic, "payload", payload)
	p.want[topic] = append(p.want[topic], payload)
}

func (p *ticker) end() {
	for topic := range streamOf {
		p.add(topic, "end")
	}
}

// TestCursorsBetweenGateways: a client goes from gateway to gateway with nothing
// but its cursor, while publishers go on and Redis is killed in between, and each
// tick arrives exactly once.
func TestCursorsBetweenGateways(t *testing.T) {
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	p := &ticker{redis: redis, conn: redis.Connect()}
	s := onStreams(t, redis)
	var cursor []byte
	for round := range 5 {
		p.want = make(map[string][]string)
		going := make(chan struct{})
		goOn := func() {
			go func() {
				defer close(going)
				for range 30 {
					p.publish(1)
					time.Sleep(time.Millisecond)
				}
				p.end()
			}()
		}
		subscribed := func() {}
		if round == 0 {
			subscribed = goOn // nobody knows what was before
		} else {
			p.publish(300) // while the client is away
			if round == 2 {
				redis.Kill()
				redis.Restart()
				p.conn = redis.Connect()
			}
			if round%2 == 0 {
				s = onStreams(t, redis)
			}
			goOn() // and while it comes
		}
		var got map[string][]string
		got, cursor = s.stay(t, cursor, subscribed)
		<-going
		for topic := range streamOf {
			if !slices.Equal(got[topic], p.want[topic]) {
				t.Fatalf("round %d, %s: %d ticks %.80q, want %d %.80q", round, topic, len(got[topic]), got[topic], len(p.want[topic]), p.want[topic])
			}
		}
	}
}
