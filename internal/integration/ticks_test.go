package integration

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

const wireTopic = "md:wire:ticker"

// Messages of a push session with one subscription to a name, by number.
const (
	connectMessage   = 1 // to the gateway
	subscribeMessage = 2

	connectedMessage  = 1 // to the client
	subscribedMessage = 2
	firstTick         = 3 // one message for each tick when they come one by one
)

// watch subscribes through a middle, has ticks published one by one, and
// returns those that came, and the error that ended it.
func (s *system) watch(t *testing.T, m *middle, id suite.ID, ticks []string) (got []string, err error) {
	t.Helper()
	opts := s.options(id)
	opts.NetDial = m.dial
	ctx := limited(t)
	c, err := client.Dial(ctx, "ws://"+s.addr+"/ws", opts)
	if err != nil {
		return nil, err
	}
	if _, err := c.Subscribe(ctx, wireTopic); err != nil {
		return nil, err
	}
	for i, payload := range ticks {
		s.redis.Publish(wireTopic, payload)
		eventually(t, "the tick on its way", func() bool { return len(m.messages(down)) > firstTick+i })
	}
	for len(got) < len(ticks) {
		ev, err := c.Next(ctx)
		if err != nil {
			return got, err
		}
		if tick, ok := ev.(*client.Tick); ok {
			got = append(got, string(tick.Payload))
		}
	}
	return got, c.Close(ctx)
}

// TestTicksOnTheWire: what somebody does to the records of a push session ends
// it, and no tick comes out that was altered, repeated or out of place.
func TestTicksOnTheWire(t *testing.T) {
	s := startCounted(t)
	ticks := []string{"first tick", "second tick", "", "fourth tick"}
	undisturbed := &middle{}
	if got, err := s.watch(t, undisturbed, suite.AES128GCM, ticks); !slices.Equal(got, ticks) || err != nil {
		t.Fatalf("undisturbed: %q, %v", got, err)
	}
	type attack struct {
		name   string
		after  int // ticks that arrive
		change edit
	}
	second := firstTick + 1
	attacks := []attack{
		{"dropped", 1, replace(second, func([]byte) [][]byte { return nil })},
		{"repeated", 2, replace(second, func(msg []byte) [][]byte { return [][]byte{msg, bytes.Clone(msg)} })},
		{"swapped", 1, delay(second)},
		{"cut off", 1, replace(second, func(msg []byte) [][]byte { return [][]byte{msg[:len(msg)-1]} })},
		{"repeated later", 4, again(second, second+2)},
	}
	for at := range undisturbed.messages(down)[second] {
		attacks = append(attacks, attack{fmt.Sprint("byte ", at), 1, flip(second, at, at%8)})
	}
	for at := range undisturbed.messages(down)[connectedMessage] {
		attacks = append(attacks, attack{fmt.Sprint("byte of Connected ", at), 0, flip(connectedMessage, at, at%8)})
	}
	for at := range undisturbed.messages(down)[subscribedMessage] {
		attacks = append(attacks, attack{fmt.Sprint("byte of Subscribed ", at), 0, flip(subscribedMessage, at, at%8)})
	}
	for i, a := range attacks {
		m := &middle{toClient: a.change}
		got, err := s.watch(t, m, sealing[i%len(sealing)], append(slices.Clone(ticks), "one more"))
		var failed *session.Error
		if !slices.Equal(got, ticks[:a.after]) || !errors.As(err, &failed) || failed.Code != wire.CloseBadRecord {
			t.Errorf("%s: %q, %v", a.name, got, err)
		}
		if code, reason := m.end(up); code != wire.CloseBadRecord || reason != "" {
			t.Errorf("%s: the client closed with %v %q", a.name, code, reason)
		}
	}
	s.expectBase(t)
}

// TestRequestsOnTheWire: the same to what the client asks for.
func TestRequestsOnTheWire(t *testing.T) {
	s := startCounted(t)
	undisturbed := &middle{}
	if _, err := s.watch(t, undisturbed, suite.AES128GCM, nil); err != nil {
		t.Fatal(err)
	}
	for number, name := range map[int]string{connectMessage: "Connect", subscribeMessage: "Subscribe"} {
		size := len(undisturbed.messages(up)[number])
		for at := 0; at < size; at += 1 + size/100 {
			m := &middle{toGateway: flip(number, at, at%8)}
			opened := s.Stats().RecordsOpened
			_, err := s.watch(t, m, sealing[at%len(sealing)], nil)
			if codeOf(err) != wire.CloseBadRecord {
				t.Errorf("byte %d of %s: %v", at, name, err)
			}
			if code, reason := m.end(down); code != wire.CloseBadRecord || reason != "" {
				t.Errorf("byte %d of %s: the gateway closed with %v %q", at, name, code, reason)
			}
			if n := s.Stats().RecordsOpened - opened; n != uint64(number-1) {
				t.Errorf("byte %d of %s: the gateway has opened %d records", at, name, n)
			}
		}
	}
	s.expectBase(t)
	eventually(t, "no subscription left at the source", func() bool { return s.redis.PubSubNumPat() == 0 })
}
