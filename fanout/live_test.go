package fanout

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

const patience = 10 * time.Second

// live is a hub with a real source.
type live struct {
	*Hub
	t *testing.T
}

// quick has short times, so that tests of failures need not wait.
func quick(addrs ...string) Options {
	return Options{Redis: Redis{Addrs: addrs, PingAfter: 100 * time.Millisecond, PingTimeout: time.Second, DialTimeout: time.Second}}
}

// startLive runs a hub until the end of the test.
func startLive(t *testing.T, opt Options) *live {
	t.Helper()
	h := &live{Hub: NewHub(opt), t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	return h
}

func (h *live) waitReady() {
	h.t.Helper()
	eventually(h.t, "ready", func() bool { return h.Ready() == nil })
}

func (h *live) waitNotReady(text string) {
	h.t.Helper()
	eventually(h.t, "not ready: "+text, func() bool {
		err := h.Ready()
		return err != nil && strings.Contains(err.Error(), text)
	})
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never %s", what)
		}
	}
}

// liveLoop follows topics as an event loop does. Payloads are numbers that grow
// by one within a topic; it reports every one that is missing, double or out of
// order without a reset.
type liveLoop struct {
	t   *testing.T
	hub *Hub
	id  LoopID

	mu      sync.Mutex
	hold    chan struct{} // not nil: Post blocks
	held    map[topic.Filter]Ticket
	states  map[topic.Filter]string
	names   map[uint32]string
	topics  map[string]*liveTopic
	resets  int
	last    wire.Cause
	refused error
}

type liveTopic struct {
	number      uint32
	epoch, next uint64
	value       int // of the last tick; -1: not known
	payload     string
	ticks       int
	resets      int
	cause       wire.Cause
}

func (h *live) loop() *liveLoop {
	l := &liveLoop{
		t: h.t, hub: h.Hub,
		held:   make(map[topic.Filter]Ticket),
		states: make(map[topic.Filter]string),
		names:  make(map[uint32]string),
		topics: make(map[string]*liveTopic),
	}
	l.id = h.Attach(l)
	return l
}

func (l *liveLoop) acquire(filters ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range filters {
		l.held[filter(f)] = l.hub.Acquire(l.id, filter(f))
		l.states[filter(f)] = "asked"
	}
}

func (l *liveLoop) release(f string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hub.Release(l.id, filter(f))
	l.drop(filter(f))
}

func (l *liveLoop) drop(f topic.Filter) {
	delete(l.held, f)
	delete(l.states, f)
	for name, s := range l.topics {
		if !l.wants(name) {
			delete(l.topics, name)
			delete(l.names, s.number)
		}
	}
}

func (l *liveLoop) wants(name string) bool {
	for f, state := range l.states {
		if state == "confirmed" && f.Match(name) {
			return true
		}
	}
	return false
}

// confirmed waits for filters.
func (l *liveLoop) confirmed(filters ...string) {
	l.t.Helper()
	for _, f := range filters {
		eventually(l.t, "confirmed: "+f, func() bool { return l.state(f) == "confirmed" })
	}
}

func (l *liveLoop) state(f string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.states[filter(f)]
}

// seen waits until the topic's last payload is this one.
func (l *liveLoop) seen(name, payload string) {
	l.t.Helper()
	eventually(l.t, "seen: "+name+" "+payload[:min(len(payload), 20)], func() bool {
		s := l.topic(name)
		return s.ticks > 0 && s.payload == payload
	})
}

func (l *liveLoop) topic(name string) liveTopic {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.topics[name]; s != nil {
		return *s
	}
	return liveTopic{}
}

func (l *liveLoop) resetCount() (int, wire.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resets, l.last
}

func (l *liveLoop) Post(events []Event) {
	l.mu.Lock()
	hold := l.hold
	l.mu.Unlock()
	if hold != nil {
		<-hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		switch e := e.(type) {
		case *Tick:
			l.tick(e)
		case *Reset:
			if s := l.topics[l.names[e.Topic]]; s != nil {
				s.epoch, s.next, s.value = e.Epoch, e.NextSeq, -1
				s.resets++
				s.cause = e.Cause
				l.resets++
				l.last = e.Cause
			}
		case *Opened:
			l.learn(e.TopicState)
		case *Confirmed:
			if l.held[e.Filter] == e.Ticket {
				l.states[e.Filter] = "confirmed"
				for _, s := range e.Topics {
					l.learn(s)
				}
			}
		case *Refused:
			if l.held[e.Filter] == e.Ticket {
				l.drop(e.Filter)
				l.states[e.Filter] = "refused"
				l.refused = e.Err
			}
		}
	}
}

func (l *liveLoop) learn(s TopicState) {
	known := l.topics[s.Name]
	switch {
	case !l.wants(s.Name):
	case known == nil:
		l.topics[s.Name] = &liveTopic{number: s.Number, epoch: s.Epoch, next: s.NextSeq, value: -1}
		l.names[s.Number] = s.Name
	case known.number != s.Number || known.epoch != s.Epoch || known.next != s.NextSeq:
		l.t.Errorf("%s is %+v, is said to be %+v", s.Name, known, s)
	}
}

func (l *liveLoop) tick(e *Tick) {
	s := l.topics[l.names[e.Topic]]
	if s == nil {
		return // released meanwhile
	}
	if e.Seq != s.next {
		l.t.Errorf("%s: seq %d, expected %d", l.names[e.Topic], e.Seq, s.next)
	}
	s.next = e.Seq + 1
	s.payload = string(e.Payload)
	s.ticks++
	if v, err := strconv.Atoi(s.payload); err == nil {
		if s.value >= 0 && v != s.value+1 {
			l.t.Errorf("%s: %d after %d without a reset", l.names[e.Topic], v, s.value)
		}
		s.value = v
	}
}

// traffic publishes numbers to topics until stopped; it goes on after failures.
type traffic struct {
	stop chan struct{}
	done sync.WaitGroup
	last map[string]int
}

func publishTo(t *testing.T, addr string, every time.Duration, topics ...string) *traffic {
	tr := &traffic{stop: make(chan struct{}), last: make(map[string]int)}
	tr.done.Go(func() {
		var c *redistest.Conn
		for n := 1; ; n++ {
			for _, name := range topics {
				select {
				case <-tr.stop:
					return
				case <-time.After(every):
				}
				if c == nil {
					if c = redistest.TryDial(t, addr); c == nil {
						continue
					}
				}
				tr.last[name]++ // counted also when it fails: it may have arrived
				if _, err := c.Try("PUBLISH", name, strconv.Itoa(tr.last[name])); err != nil {
					c.Close()
					c = nil
				}
			}
		}
	})
	t.Cleanup(func() { tr.end() })
	return tr
}

// end stops publishing and returns the last number of each topic.
func (tr *traffic) end() map[string]int {
	if tr.stop != nil {
		close(tr.stop)
		tr.done.Wait()
		tr.stop = nil
	}
	return tr.last
}

func isDenied(err error) bool { return errors.Is(err, ErrDenied) }
