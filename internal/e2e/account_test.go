package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sealcast/sealcast/client"
)

// tally is what accounts add up to.
type tally struct {
	received, merged, lost, resets atomic.Int64
}

// account is what one client knows of every topic. Payloads begin with the
// publisher's counter of the topic, so that nothing can be missing, come twice or
// in another order without a sign.
type account struct {
	*tally
	topics map[string]*line
}

func newAccount(t *tally) *account { return &account{tally: t, topics: map[string]*line{}} }

// line is where a client stands in a topic. The publisher's counter of the last
// tick is known once there was a tick in the epoch.
type line struct {
	epoch, seq uint64
	counter    int // of seq; 0: not known
	newest     int // counter that has come, in whatever epoch
}

// take explains an event, or tells why it cannot be.
func (a *account) take(event client.Event) error {
	switch e := event.(type) {
	case *client.TopicsAdded:
		for _, s := range e.Topics {
			// A topic that was known goes on where it was, unless Reset or Gap says otherwise;
			// by a cursor under another gateway's numbers.
			switch was := a.topics[s.Topic]; {
			case was == nil:
				a.begin(s.Topic, s.Epoch, s.NextSeq)
			case s.Recovered && s.Epoch != was.epoch:
				was.epoch, was.seq = s.Epoch, s.NextSeq-1
			}
		}
	case *client.Reset:
		a.resets.Add(1)
		a.begin(e.Topic, e.Epoch, e.NextSeq)
	case *client.Gap:
		return a.gap(e)
	case *client.Tick:
		return a.tick(e)
	}
	return nil
}

// begin has a topic begin, or begin anew.
func (a *account) begin(topic string, epoch, next uint64) {
	l := &line{epoch: epoch, seq: next - 1}
	if was := a.topics[topic]; was != nil {
		l.newest = was.newest
	}
	a.topics[topic] = l
}

func (a *account) gap(e *client.Gap) error {
	was := a.topics[e.Topic]
	if was == nil || was.epoch != e.Epoch || was.seq+1 != e.From || e.To < e.From {
		return fmt.Errorf("gap %+v after %+v", e, was)
	}
	a.lost.Add(int64(e.To - was.seq))
	was.advance(e.To)
	return nil
}

func (a *account) tick(e *client.Tick) error {
	was := a.topics[e.Topic]
	if was == nil || was.epoch != e.Epoch || e.Seq != was.seq+1+e.Merged {
		return fmt.Errorf("tick %d of %s in epoch %d with %d merged after %+v", e.Seq, e.Topic, e.Epoch, e.Merged, was)
	}
	head, _, _ := strings.Cut(string(e.Payload), " ")
	counter, err := strconv.Atoi(head)
	if err != nil {
		return err
	}
	was.advance(e.Seq)
	if was.counter != 0 && was.counter != counter || counter <= was.newest {
		return fmt.Errorf("tick %d of %s is the publisher's %d after %+v", e.Seq, e.Topic, counter, was)
	}
	was.counter, was.newest = counter, counter
	a.received.Add(1)
	a.merged.Add(int64(e.Merged))
	return nil
}

// advance goes to a later tick of the epoch.
func (l *line) advance(seq uint64) {
	if l.counter != 0 {
		l.counter += int(seq - l.seq)
	}
	l.seq = seq
}
