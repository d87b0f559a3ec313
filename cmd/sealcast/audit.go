package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/config"
)

const (
	// auditQueue bounds the lines that wait to be written: some seconds of a busy
	// gateway. Beyond it lines are dropped and counted, because a disk that is slow
	// or full must not hold up event loops.
	auditQueue = 16 << 10
	// auditComplaint is how often at most trouble with the file is logged.
	auditComplaint = time.Minute
)

// auditLog writes audit lines from a goroutine of its own: to a file, or to the
// stream of the log.
type auditLog struct {
	*zap.Logger
	path string // empty: the log's stream
	log  *logger
	out  io.Writer // owned by run

	queue   chan []byte
	turns   chan struct{} // to open the file again
	ended   chan struct{}
	once    sync.Once
	lost    atomic.Uint64
	told    uint64    // of lost; owned by run
	toldAt  time.Time // owned by run
	stopped atomic.Bool
}

// newAuditLog opens the file, if there is one to be.
func newAuditLog(settings config.Audit, log *logger) (*auditLog, error) {
	a := &auditLog{path: settings.File, log: log, out: log.sink,
		queue: make(chan []byte, auditQueue), turns: make(chan struct{}, 1), ended: make(chan struct{})}
	var level zapcore.LevelEnabler = log.level
	if a.path != "" {
		file, err := openAudit(a.path)
		if err != nil {
			return nil, advice.Failed(fmt.Errorf("audit.file: %w", err), "name a file in a folder that exists and that the gateway may write to")
		}
		a.out, level = file, zapcore.InfoLevel
	}
	a.Logger = zap.New(zapcore.NewCore(log.encoder.Clone(), a, level)).Named("audit")
	go a.run()
	return a, nil
}

// openAudit opens a file to append to; who made it decides who may read it.
func openAudit(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Write takes a line. It never blocks: with a full queue the line is lost.
func (a *auditLog) Write(line []byte) (int, error) {
	if a.stopped.Load() {
		return len(line), nil
	}
	select {
	case a.queue <- append([]byte(nil), line...):
	default:
		a.lost.Add(1)
	}
	return len(line), nil
}

// Sync is part of zapcore.WriteSyncer. Lines are written as they come.
func (a *auditLog) Sync() error { return nil }

// reopen goes on in a new file under the same name, for logrotate.
func (a *auditLog) reopen() {
	select {
	case a.turns <- struct{}{}:
	default:
	}
}

// close writes what waits, and ends.
func (a *auditLog) close() {
	a.once.Do(func() {
		a.stopped.Store(true)
		a.queue <- nil
	})
	<-a.ended
}

func (a *auditLog) run() {
	defer close(a.ended)
	for {
		select {
		case <-a.turns:
			a.turn()
		case line := <-a.queue:
			if line == nil {
				a.finish()
				return
			}
			if _, err := a.out.Write(line); err != nil {
				a.lost.Add(1)
				a.complain(err)
			}
		}
		if n := a.lost.Load(); n > a.told {
			a.complain(nil)
		}
	}
}

// turn keeps the old file if a new one cannot be had.
func (a *auditLog) turn() {
	if a.path == "" {
		return
	}
	file, err := openAudit(a.path)
	if err != nil {
		a.log.Error("audit.file cannot be opened again: lines go on into the one from before", zap.Error(err))
		return
	}
	a.closeFile()
	a.out = file
}

func (a *auditLog) finish() {
	if n := a.lost.Load(); n > a.told {
		a.toldAt = time.Time{}
		a.complain(nil)
	}
	a.closeFile()
}

func (a *auditLog) closeFile() {
	if file, ok := a.out.(*os.File); ok && a.path != "" {
		_ = file.Close()
	}
}

// complain says in the log how many lines are missing.
func (a *auditLog) complain(err error) {
	if time.Since(a.toldAt) < auditComplaint {
		return
	}
	a.told, a.toldAt = a.lost.Load(), time.Now()
	a.log.Error("audit lines are lost", zap.Uint64("so_far", a.told), zap.Error(err))
}
