package fanout

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/wire"
)

// attendants watch the masters of a cluster that a link is not connected to. What is
// published there comes to the link over the nodes' bus, and what is on it when one of
// them dies is gone without a sign: so losing one is a lapse of every topic. Each
// attendant has a connection that shows at once when the node's process has ended.
//
// The bus may be behind that connection: what a dead master had sent before it died can
// come later than the lapse. So there is one more as soon as the link's node has surely
// read it all. A master that was away is a lapse when it is back, too, unless it is the
// same process: one that starts takes messages before it can pass them on.
type attendants struct {
	opt   Redis
	log   *zap.Logger
	queue *queue
	link  *link
	node  string // that the link is connected to

	all  sync.WaitGroup
	mu   sync.Mutex
	with map[string]*attendant // by the master's address
	gone map[string]string     // masters that could not be watched: what runID was, "" if not known
}

// attendant watches one master.
type attendant struct {
	master string
	ctx    context.Context // ends when there is no need of it any more
	end    context.CancelFunc

	// Guarded by attendants.mu.
	link    *link  // nil: not connected yet
	id      string // runID, once it is known to be that of the process at the link's other end
	leaving bool   // its node is no master any more; an answer of it ends the attendant
}

func newAttendants(opt Options, q *queue, l *link, node string) *attendants {
	r := opt.Redis
	r.PingAfter, r.PingTimeout = r.Canary/2, r.Canary/2 // a frozen node shows as soon as a path that is dead
	return &attendants{
		opt: r, log: opt.Log, queue: q, link: l, node: node,
		with: make(map[string]*attendant), gone: make(map[string]string),
	}
}

// run watches all masters but the link's node, which it asks who they are, until ctx
// ends, and waits for every attendant then.
func (a *attendants) run(ctx context.Context) {
	defer a.all.Wait()
	look := time.NewTicker(a.opt.Canary / 2)
	defer look.Stop()
	for ctx.Err() == nil {
		if m, err := a.opt.askNode(ctx, a.node); err == nil {
			a.look(ctx, m.masters())
		}
		select {
		case <-ctx.Done():
		case <-look.C:
		}
	}
}

// look gives each master an attendant, and takes it from those that are none any more.
func (a *attendants) look(ctx context.Context, masters []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, master := range masters {
		if master != a.node && a.with[master] == nil {
			w := &attendant{master: master}
			w.ctx, w.end = context.WithCancel(ctx)
			a.with[master] = w
			a.all.Go(func() { a.attend(ctx, w) })
		}
	}
	for addr, w := range a.with {
		was := w.leaving
		w.leaving = w.link != nil && !slices.Contains(masters, addr)
		if w.leaving && !was {
			l := w.link
			a.all.Go(func() { a.dismiss(w, l) })
		}
	}
	maps.DeleteFunc(a.gone, func(addr, _ string) bool { return !slices.Contains(masters, addr) })
}

// dismiss ends an attendant if its node still answers: it lives, and what it was sent
// as a master is on its way. A node that is no master because it died does not answer.
func (a *attendants) dismiss(w *attendant, l *link) {
	if l.round(w.ctx) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.leaving {
		w.end()
	}
}

// attend stays connected to a master for as long as that lasts.
func (a *attendants) attend(ctx context.Context, w *attendant) {
	defer w.end()
	l, err := dial(w.ctx, a.opt, w.master, nil)
	if err != nil {
		if a.miss(w) && ctx.Err() == nil {
			a.log.Warn("redis cluster node cannot be watched, trying again", zap.String("addr", w.master), zap.Error(plain(err)))
		}
		return
	}
	a.stay(w, l)
	ended := w.ctx.Err() != nil
	a.miss(w)
	if ended || a.deposed(ctx, w.master, l.conn.last()) {
		return
	}
	a.log.Warn("redis cluster node lost", zap.String("addr", w.master), zap.Error(plain(l.failure())))
	a.lapse(false)
	if a.settled(ctx) {
		a.lapse(true)
	}
}

// stay reads a connection until it ends.
func (a *attendants) stay(w *attendant, l *link) {
	a.mu.Lock()
	w.link = l
	a.mu.Unlock()
	defer l.close()
	var company sync.WaitGroup
	defer company.Wait()
	company.Go(l.write)
	company.Go(func() { a.arrive(w, l) })
	var err error
	for err == nil {
		_, err = l.receive()
	}
	l.fail(err)
}

// arrive notes that a master is watched, and by the answer to a PING that all along it
// was the process that says who it is. It is a lapse if another one was missed before.
func (a *attendants) arrive(w *attendant, l *link) {
	id := a.opt.runID(l.ctx, w.master)
	if l.round(l.ctx) != nil {
		return
	}
	a.mu.Lock()
	before, missed := a.gone[w.master]
	delete(a.gone, w.master)
	w.id = id
	a.mu.Unlock()
	if !missed {
		return
	}
	a.log.Info("redis cluster node is watched again", zap.String("addr", w.master))
	if same := id != "" && id == before; !same && a.settled(l.ctx) { // its way to the link's node is made by then
		a.lapse(false)
	}
}

// miss takes an attendant out that is not connected any more, or has never been, and
// tells whether its master was not missed before.
func (a *attendants) miss(w *attendant) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.with, w.master)
	_, missed := a.gone[w.master]
	if w.id != "" || !missed {
		a.gone[w.master] = w.id
	}
	return !missed
}

// deposed tells whether a lost node had become a replica while it lived, so that its end
// costs nothing: the link's node says so at once. In doubt it had not. A master that died
// may have become a replica, too, if it is long since it was heard.
func (a *attendants) deposed(ctx context.Context, master string, heard time.Time) bool {
	if time.Since(heard) > a.opt.Canary {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, a.opt.Canary/2)
	defer cancel()
	shards, err := a.opt.askShards(ctx, a.node)
	return err == nil && a.opt.isReplica(shards, master, a.node)
}

// settled waits until the link's node has read what a lost master had sent it, and the
// link that. A node reads what there is before it answers; what is still on its way
// between two hosts gets time to arrive. false: the link has ended.
func (a *attendants) settled(ctx context.Context) bool {
	if a.link.round(ctx) != nil {
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(a.opt.Canary / 8):
	}
	return a.link.round(ctx) == nil
}

func (a *attendants) lapse(again bool) {
	a.queue.put(item{kind: itemLapse, note: &note{cause: wire.Cause_CAUSE_SOURCE_LOST, again: again}})
}

// runID is different for each process of a server; "" if that does not say.
func (r Redis) runID(ctx context.Context, addr string) string {
	o := r.universal().Simple()
	o.Addr = addr
	c := redis.NewClient(o)
	defer c.Close()
	info, _ := c.Info(ctx, "server").Result()
	_, tail, _ := strings.Cut(info, "\nrun_id:")
	id, _, _ := strings.Cut(tail, "\r\n")
	return id
}
