package fanout

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/wire"
)

// attendants watch the masters of a cluster that a link is not connected to. What is
// published there comes to the link over the nodes' bus, and what is on it when one of
// them dies is gone without a sign: so losing one is a lapse of every topic. Each
// attendant has a connection that shows at once when the node's process has ended.
type attendants struct {
	opt   Redis
	log   *zap.Logger
	queue *queue

	mu   sync.Mutex
	with map[string]bool // masters that have one, or are about to
}

func newAttendants(opt Options, q *queue) *attendants {
	r := opt.Redis
	r.PingAfter, r.PingTimeout = r.Canary/2, r.Canary/2 // a frozen node shows as soon as a path that is dead
	return &attendants{opt: r, log: opt.Log, queue: q, with: make(map[string]bool)}
}

// run watches all masters but the node at addr, which it asks who they are, until ctx
// ends, and waits for every attendant then.
func (a *attendants) run(ctx context.Context, addr string) {
	var all sync.WaitGroup
	defer all.Wait()
	look := time.NewTicker(a.opt.Canary / 2)
	defer look.Stop()
	for ctx.Err() == nil {
		if m, err := a.opt.askNode(ctx, addr); err == nil {
			for _, master := range slices.DeleteFunc(m.masters(), func(s string) bool { return s == addr || !a.claim(s) }) {
				all.Go(func() { a.attend(ctx, master) })
			}
		}
		select {
		case <-ctx.Done():
		case <-look.C:
		}
	}
}

// claim reports whether a master had no attendant; it has one now.
func (a *attendants) claim(master string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := a.with[master]
	a.with[master] = true
	return !had
}

func (a *attendants) release(master string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.with, master)
}

// attend stays connected to a master for as long as that lasts.
func (a *attendants) attend(ctx context.Context, master string) {
	defer a.release(master)
	l, err := dial(ctx, a.opt, master, nil)
	if err != nil {
		return // it is not there; what it could lose was lost before
	}
	defer l.close()
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(l.write)
	for err == nil {
		_, err = l.receive()
	}
	l.fail(err)
	if ctx.Err() != nil {
		return
	}
	a.log.Warn("redis cluster node lost", zap.String("addr", master), zap.Error(plain(l.failure())))
	a.queue.put(item{kind: itemLapse, note: &note{cause: wire.Cause_CAUSE_SOURCE_LOST}})
}
