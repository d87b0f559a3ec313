package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/wire"
)

// streamSource reads Redis Streams, each from where it stopped. Losing Redis so
// loses nothing that Redis keeps. What Redis no longer has, because the stream was
// trimmed before it was read or has been replaced, shows in the number of entries
// that were ever added, and becomes an itemLapse. The hub sees one subscription to
// everything.
type streamSource struct {
	opt    Options
	queue  *queue
	status *status
	client redis.UniversalClient

	mu     sync.Mutex
	random *rand.Rand
	known  int  // streams whose first position is known
	away   int  // streams that cannot be read at the moment
	up     bool // all were known
}

// streamPage is how many entries are read at once, at most.
const streamPage = 512

func newStreamSource(opt Options, q *queue, st *status) *streamSource {
	s := &streamSource{opt: opt, queue: q, status: st, client: NewClient(opt.Redis), random: newRandom(opt.Random)}
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(signing(node.Options().Addr)) })
	}
	return s
}

// run reads all streams until ctx ends.
func (s *streamSource) run(ctx context.Context) {
	defer s.client.Close()
	var readers sync.WaitGroup
	for i := range s.opt.Redis.Streams {
		readers.Go(func() { s.keep(ctx, i) })
	}
	readers.Wait()
}

// send implements source: what is read does not depend on what is wanted.
func (s *streamSource) send(_ uint64, orders []order) {
	for _, o := range orders {
		kind := itemAdded
		if !o.add {
			kind = itemRemoved
		}
		s.queue.put(item{kind: kind, channel: o.key})
	}
}

// keep reads one stream, and goes on where it was after each failure.
func (s *streamSource) keep(ctx context.Context, i int) {
	r := &streamReader{source: s, name: s.opt.Redis.Streams[i], stream: i + 1}
	for failures := 0; ctx.Err() == nil; failures++ {
		err := r.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if r.healthy {
			failures = 0
		}
		s.lost(r, plain(err))
		s.mu.Lock()
		wait := pause(&s.opt.Redis, s.random, failures)
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// lost notes that a stream cannot be read.
func (s *streamSource) lost(r *streamReader, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr := "stream " + r.name
	s.status.down(addr, err)
	if r.failing {
		return
	}
	r.failing, r.healthy = true, false
	s.away++
	s.opt.Log.Warn("redis stream cannot be read, trying again", zap.String("stream", r.name), zap.Error(err))
	s.queue.put(item{kind: itemAway, note: &note{err: err}})
}

// found notes that a stream can be read. The first time it is where the stream
// begins for this process.
func (s *streamSource) found(r *streamReader) {
	if r.healthy {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.failing {
		r.failing = false
		s.away--
	}
	r.healthy = true
	if !r.counted {
		r.counted = true
		s.known++
	}
	if s.known < len(s.opt.Redis.Streams) || s.away > 0 {
		return
	}
	s.status.connected(s.opt.Redis.Addrs[0], 1)
	if s.up {
		s.opt.Log.Info("redis streams are read again")
		s.queue.put(item{kind: itemBack})
		return
	}
	s.up = true
	s.opt.Log.Info("redis streams are read", zap.Strings("streams", s.opt.Redis.Streams))
	s.queue.put(item{kind: itemUp, note: &note{link: 1}})
}

// streamReader reads one stream. Its goroutine owns it.
type streamReader struct {
	source *streamSource
	name   string
	stream int // number in items, from 1

	client redis.UniversalClient
	server string     // that client leads to, with sentinels
	moved  chan error // says that another server is the master now; nil: no sentinels

	at      position
	from    string // the server that had the last page; empty: there is but one
	started bool
	sure    bool // at.count is exact
	healthy bool // the last answer was one
	failing bool // said to be away
	counted bool
}

// serve reads for as long as that succeeds. With sentinels it does so by a connection
// to the master, so that it is known whose answers it takes.
func (r *streamReader) serve(ctx context.Context) error {
	opt := r.source.opt.Redis
	if opt.Topology != Sentinel {
		r.client = r.source.client
		return r.read(ctx)
	}
	addr, err := opt.impatient().findMaster(ctx)
	if err != nil {
		return err
	}
	o := opt.universal().Simple()
	o.Addr = addr
	master := redis.NewClient(o)
	defer master.Close()
	r.client, r.server, r.moved = master, addr, make(chan error, 1)
	answer, cancel := context.WithTimeout(ctx, opt.impatient().DialTimeout)
	defer cancel()
	if err := master.Ping(answer).Err(); err != nil && !isRedis(err) { // a refusal is an answer, too
		return err
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	watching.Go(func() { r.source.watch(ctx, addr, r.moved) })
	return r.read(ctx)
}

// watch asks the sentinels again and again where the master is, until ctx ends or it is
// not addr any more: a master that they could not reach when they chose another one may
// still answer here, and never hear that it is none.
func (s *streamSource) watch(ctx context.Context, addr string, moved chan<- error) {
	opt, silent := s.opt.Redis.impatient(), false
	look := time.NewTicker(opt.Canary / 2)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now, err := opt.findMaster(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && now != addr:
			moved <- fmt.Errorf("the sentinels' master is %s, no longer %s", now, addr)
			return
		case err != nil && !silent:
			s.opt.Log.Warn("redis sentinels do not tell the master, staying with the one they told", zap.String("addr", addr), zap.Error(plain(err)))
		}
		silent = err != nil
	}
}

// signing is a hook of the client of one node of a cluster. It writes the node's address
// to where the context says (answeredBy), for every pipeline that it takes.
type signing string

type answeredBy struct{} // key in a context, of a *string

func (signing) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (signing) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (addr signing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if to, ok := ctx.Value(answeredBy{}).(*string); ok {
			*to = string(addr)
		}
		return next(ctx, cmds)
	}
}

// read takes entries until a command fails.
//
// out 1 — an entry of a stream becomes an item of the queue.
func (r *streamReader) read(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case err := <-r.moved:
			return err
		default:
		}
		page, err := r.page(ctx)
		if err != nil {
			return err
		}
		if !r.started {
			r.at, r.from, r.started, r.sure = page.end(), page.server, true, true
			r.source.queue.put(item{kind: itemNothing, stream: r.stream, at: r.at})
			r.source.found(r)
			continue
		}
		r.source.found(r)
		r.take(ctx, page)
		if len(page.entries) == 0 {
			if err := r.wait(ctx); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// page is what one transaction says about a stream.
type page struct {
	length, added uint64   // entries that there are, and that there have ever been
	last          position // the highest ID ever
	entries       []redis.XMessage
	server        string // that has answered; empty: there is but one
}

// end is the position behind all of the stream.
func (p *page) end() position { return position{ms: p.last.ms, seq: p.last.seq, count: p.added} }

// page reads the next entries together with the stream's counters: only a
// transaction tells whether any were trimmed between the last page and this one.
func (r *streamReader) page(ctx context.Context) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.source.opt.Redis.Canary)
	defer cancel()
	var info *redis.XInfoStreamCmd
	var read *redis.XStreamSliceCmd
	server := r.server
	_, failure := r.client.TxPipelined(context.WithValue(ctx, answeredBy{}, &server), func(tx redis.Pipeliner) error {
		info = infoOf(ctx, tx, r.name)
		if r.started {
			read = tx.XRead(ctx, &redis.XReadArgs{Streams: []string{r.name, r.at.id()}, Count: streamPage, Block: -1})
		}
		return nil
	})
	p, err := parseInfo(info, failure)
	if err != nil {
		return nil, err
	}
	p.server = server
	if read == nil {
		return p, nil
	}
	switch streams, err := read.Result(); {
	case errors.Is(err, redis.Nil):
	case err != nil:
		return nil, err
	case failure != nil && !isRedis(failure):
		return nil, failure
	case len(streams) > 0:
		p.entries = streams[0].Messages
	}
	return p, nil
}

var errNotRun = errors.New("redis did not run the transaction")

func isRedis(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// infoOf asks for a stream's counters.
func infoOf(ctx context.Context, to redis.Cmdable, stream string) *redis.XInfoStreamCmd {
	type processor interface {
		Process(ctx context.Context, cmd redis.Cmder) error
	}
	cmd := redis.NewXInfoStreamCmd(ctx, stream)
	cmd.SetFirstKeyPos(2) // or a cluster does not know where it belongs
	_ = to.(processor).Process(ctx, cmd)
	return cmd
}

// parseInfo reads the counters. A stream that does not exist is one that has
// never had an entry. failure is that of the transaction, which may have left its
// commands without answer or error: a client of a cluster does that to those that
// it did not get to send.
func parseInfo(info *redis.XInfoStreamCmd, failure error) (*page, error) {
	v, err := info.Result()
	if err == nil && v == nil {
		return nil, cmp.Or(failure, errNotRun)
	}
	if err != nil {
		if isRedis(err) && strings.Contains(err.Error(), "no such key") {
			return new(page), nil
		}
		return nil, err
	}
	last, err := parseID(v.LastGeneratedID)
	if err != nil {
		return nil, err
	}
	return &page{length: uint64(v.Length), added: uint64(v.EntriesAdded), last: last}, nil
}

// take puts a page's entries into the queue, and before them what is missing.
// Unlike a reader of pub/sub it waits for room: Redis keeps the rest meanwhile.
func (r *streamReader) take(ctx context.Context, p *page) {
	before := r.at
	cause := r.advance(p)
	if p.server != r.from && cause == wire.Cause_CAUSE_UNSPECIFIED {
		cause = wire.Cause_CAUSE_SOURCE_LOST // replication does not wait: what the other had taken may not be there
	}
	r.from = p.server
	count := r.at.count - uint64(len(p.entries))
	if cause != wire.Cause_CAUSE_UNSPECIFIED {
		r.source.opt.Log.Warn("entries of a redis stream are gone before they were read, or may be",
			zap.String("stream", r.name), zap.Stringer("cause", cause))
		r.source.queue.put(item{kind: itemLapse, stream: r.stream, at: r.lapsed(p, before, count), note: &note{cause: cause}})
	}
	for i := range p.entries {
		count++
		it := item{stream: r.stream, at: r.at}
		if at, err := parseID(p.entries[i].ID); err == nil {
			it.at = at
		}
		if it.at.count = count; !r.sure {
			it.at.count = 0
		}
		it.entry(&r.source.opt, p.entries[i].Values)
		r.source.queue.await(ctx)
		r.source.queue.put(it)
	}
}

// lapsed is where a stream stands at a lapse: not yet behind the page's entries. With
// them it is where it was, but with what is gone counted.
func (r *streamReader) lapsed(p *page, before position, count uint64) position {
	if len(p.entries) == 0 {
		return r.at
	}
	if before.count = count; !r.sure {
		before.count = 0
	}
	return before
}

// entry fills an item from a stream entry's fields; one without them is no tick.
func (it *item) entry(opt *Options, values map[string]any) {
	name, named := values["topic"].(string)
	payload, whole := values["payload"].(string)
	if !named || !whole {
		it.kind = itemMalformed
		return
	}
	it.kind, it.channel, it.payload, it.pattern = itemTick, name, payload, "*"
	opt.stamp(it)
}

// advance moves behind a page and returns why ticks may be missing before it.
func (r *streamReader) advance(p *page) (cause wire.Cause) {
	taken := uint64(len(p.entries))
	if p.last.less(r.at) { // another stream than before, or a master that had not yet seen all of it
		r.at, r.sure = p.end(), true
		return wire.Cause_CAUSE_SOURCE_LOST
	}
	if taken > 0 {
		last, _ := parseID(p.entries[taken-1].ID) // Redis writes nothing else
		r.at.ms, r.at.seq = last.ms, last.seq
	}
	all := taken < streamPage
	switch expected := r.at.count + taken; {
	case !r.sure:
		r.at.count = expected
	case p.added < expected:
		cause = wire.Cause_CAUSE_SOURCE_LOST
		r.sure = false
	case all && p.added > expected, !all && p.added-p.length > r.at.count:
		cause = wire.Cause_CAUSE_EXPIRED
		r.at.count += p.added - p.length - min(r.at.count, p.added-p.length) + taken
	default:
		r.at.count = expected
	}
	if all {
		r.at.count, r.sure = p.added, true
	}
	return cause
}

// wait blocks until the stream has another entry, or for a while.
func (r *streamReader) wait(ctx context.Context) error {
	block := r.source.opt.Redis.Canary / 2
	ctx, cancel := context.WithTimeout(ctx, 2*block)
	defer cancel()
	err := r.client.XRead(ctx, &redis.XReadArgs{Streams: []string{r.name, r.at.id()}, Count: 1, Block: block}).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
