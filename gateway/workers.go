package gateway

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/session"
)

// handshakeQueue bounds the handshakes that wait for a worker: about a tenth of
// a second of work for two of them.
const handshakeQueue = 512

// task is work for one connection on its way to a worker and back: a step of
// handshake arithmetic, or a token to be verified.
type task struct {
	conn     *conn
	job      *session.Job
	login    *login // if job is nil
	panicked bool
}

// workers do arithmetic off the loops. When the queue is full, submit refuses,
// and the newcomer is told to try again later. What has to wait for the network
// goes on in a queue of its own, so that it holds up nothing else.
type workers struct {
	log     *zap.Logger
	queue   chan *task
	network chan *task
	ctx     context.Context // ends with the workers
	cancel  context.CancelFunc
	wg      sync.WaitGroup // of those at queue
	waiter  sync.WaitGroup // of the one at network
	panics  atomic.Uint64
}

func newWorkers(log *zap.Logger) *workers {
	w := &workers{log: log, queue: make(chan *task, handshakeQueue), network: make(chan *task, handshakeQueue)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for range runtime.GOMAXPROCS(0) {
		w.wg.Go(w.run)
	}
	w.waiter.Go(w.runNetwork)
	return w
}

// submit hands a job over; false when the queue is full. Only loops call it,
// and none after close.
func (w *workers) submit(t *task) bool {
	select {
	case w.queue <- t:
		return true
	default:
		return false
	}
}

func (w *workers) run() {
	for t := range w.queue {
		w.do(t, t.run)
		if t.login != nil && t.login.seeks() && !t.panicked {
			select {
			case w.network <- t:
				continue
			default: // too many wait already
			}
		}
		t.conn.loop.mail.put(letter{done: t}, 0)
	}
}

// runNetwork has one goroutine: tasks that wait behind a fetch are all served by it.
func (w *workers) runNetwork() {
	for t := range w.network {
		w.do(t, func() { t.login.seek(w.ctx) })
		t.conn.loop.mail.put(letter{done: t}, 0)
	}
}

func (t *task) run() {
	if t.job != nil {
		t.job.Run()
		return
	}
	t.login.verify()
}

func (w *workers) do(t *task, work func()) {
	defer func() {
		if r := recover(); r != nil {
			t.panicked = true
			w.panics.Add(1)
			w.log.Error("panic in a worker", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
		}
	}()
	work()
}

// close ends the workers once the loops have stopped submitting.
func (w *workers) close() {
	w.cancel()
	close(w.queue)
	w.wg.Wait()
	close(w.network)
	w.waiter.Wait()
}
