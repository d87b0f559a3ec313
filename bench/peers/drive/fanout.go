package drive

import (
	"fmt"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/message"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/wire"
)

// subscriber is one client of a feed. It wants every tick, once and in order.
type subscriber struct {
	client
	stream *peer.Stream // of Sealcast's dialect; nil: another
	text   reader       // of the other dialects; nil: each message is a payload
	next   uint64
	tick   func(s *subscriber, seq uint64, at int64)
	feed   *feed
}

// feed is the ticks of one measurement.
type feed struct {
	m       *meter
	to      *publisher
	pattern []byte
	payload []byte
	next    uint64 // to be published

	want int      // subscribers that get each
	got  []uint32 // of ticks under way, by number: how many subscribers have it
	done uint64   // ticks that all have
}

// fanout measures a closed loop: ticks are published as others have come to all.
func (m *meter) fanout() (s Sample, err error) {
	f, err := m.newFeed()
	if err != nil {
		return s, err
	}
	f.want, f.got = m.work.Connections, make([]uint32, 2*m.work.Window)
	if err := f.subscribe(f.arrived); err != nil {
		return s, err
	}
	f.refill()
	if err := f.warmUp(); err != nil {
		return s, err
	}
	return m.measured()
}

// warmUp also waits until all that was under way at first has come: every
// connection has then been written to, however many there are.
func (f *feed) warmUp() error {
	for begun := f.m.loop.Now(); f.done < uint64(f.m.work.Window); {
		if err := f.m.run(10 * time.Millisecond); err != nil {
			return err
		}
		if f.m.loop.Now()-begun > int64(patience) {
			return fmt.Errorf("only %d ticks have come to all within %v", f.done, patience)
		}
	}
	return f.m.run(f.m.b.Warmup)
}

func (m *meter) newFeed() (*feed, error) {
	f := &feed{m: m, pattern: message.Template(1, m.work.Size)}
	f.payload = append([]byte(nil), f.pattern...)
	var err error
	f.to, err = m.newPublisher()
	return f, err
}

// subscribe connects all subscribers.
func (f *feed) subscribe(tick func(*subscriber, uint64, int64)) error {
	return f.m.connect(f.m.work.Connections, func(i int) error {
		_, err := f.dial(i, tick)
		return err
	})
}

// dial begins to connect the i-th subscriber.
func (f *feed) dial(i int, tick func(*subscriber, uint64, int64)) (*subscriber, error) {
	s := &subscriber{feed: f, tick: tick}
	if err := s.client.dial(f.m, i, s); err != nil {
		return nil, err
	}
	switch f.m.contestant.Dialect {
	case push:
		s.stream = peer.NewStream(s.peer)
	case natsText:
		s.text = &natsReader{s: s}
	case centrifuge:
		s.text = &centrifugeReader{s: s}
	}
	return s, nil
}

// arrived counts a tick that a subscriber has got.
func (f *feed) arrived(_ *subscriber, seq uint64, _ int64) {
	f.m.done++
	k := seq % uint64(len(f.got))
	if f.got[k]++; f.got[k] == uint32(f.want) {
		f.got[k] = 0
		f.done++
		f.refill()
	}
}

// refill publishes as many ticks as may be under way, a burst at a time.
func (f *feed) refill() {
	if f.next-f.done > uint64(f.m.work.Window-f.m.work.Burst) {
		return
	}
	f.to.room()
	for f.next-f.done <= uint64(f.m.work.Window-f.m.work.Burst) {
		for range f.m.work.Burst {
			f.publish(0)
		}
	}
	f.to.flush()
}

// publish appends the next tick to what the publisher writes.
func (f *feed) publish(at int64) {
	message.Stamp(f.payload, f.next, at)
	f.next++
	f.to.publish(f.payload)
}

// payload takes one tick, whatever it came in.
func (s *subscriber) payload(b []byte) error {
	seq, at, ok := message.Check(b, s.feed.pattern)
	if !ok || seq != s.next {
		return fmt.Errorf("a tick of %d bytes is not tick %d", len(b), s.next)
	}
	s.next++
	s.tick(s, seq, at)
	return nil
}

// Ready implements peer.Handler: the subscriber introduces itself.
func (s *subscriber) Ready() (err error) {
	switch {
	case s.stream != nil:
		s.conn.Out, err = s.peer.AppendConnect(s.conn.Out, "peers")
	case s.text != nil:
		s.send(s.text.hello())
	default:
		s.m.ready++
	}
	return err
}

// Message implements peer.Handler.
func (s *subscriber) Message(kind wire.Kind, b []byte) error {
	switch {
	case s.stream != nil:
		return s.stream.Take(kind, b, s)
	case s.text != nil:
		return s.text.read(b)
	}
	return s.payload(b)
}

// Connected implements peer.Listener.
func (s *subscriber) Connected(*wire.Connected) (err error) {
	s.conn.Out, err = s.peer.AppendSubscribe(s.conn.Out, 1, topic)
	return err
}

// Subscribed implements peer.Listener.
func (s *subscriber) Subscribed(*wire.Subscribed) error {
	s.m.ready++
	return nil
}

// Refused implements peer.Listener.
func (s *subscriber) Refused(e *wire.Error) error {
	return fmt.Errorf("subscribing was refused: %s", e.GetText())
}

// Tick implements peer.Listener.
func (s *subscriber) Tick(_ uint32, payload []byte) error { return s.payload(payload) }
