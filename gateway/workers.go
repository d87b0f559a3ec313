package gateway

import (
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

// task is one step of handshake arithmetic on its way to a worker and back.
type task struct {
	conn     *conn
	job      *session.Job
	panicked bool
}

// workers do handshake arithmetic off the loops. When the queue is full, submit
// refuses, and the newcomer is told to try again later.
type workers struct {
	log    *zap.Logger
	queue  chan *task
	wg     sync.WaitGroup
	panics atomic.Uint64
}

func newWorkers(log *zap.Logger) *workers {
	w := &workers{log: log, queue: make(chan *task, handshakeQueue)}
	for range runtime.GOMAXPROCS(0) {
		w.wg.Go(w.run)
	}
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
		w.do(t)
		t.conn.loop.mail.put(letter{done: t}, 0)
	}
}

func (w *workers) do(t *task) {
	defer func() {
		if r := recover(); r != nil {
			t.panicked = true
			w.panics.Add(1)
			w.log.Error("panic in handshake", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
		}
	}()
	t.job.Run()
}

// close ends the workers once the loops have stopped submitting.
func (w *workers) close() {
	close(w.queue)
	w.wg.Wait()
}
