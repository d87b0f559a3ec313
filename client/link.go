package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

const (
	recordOverhead = 1 + suite.TagSize // of a record over its plaintext, at most
	// lingerTimeout bounds the wait for the other side's close frame.
	lingerTimeout = time.Second
	lingerBytes   = 1 << 20
)

// link is one upgraded connection with its session, of either role. It starts
// no goroutine: who waits for something reads for everybody meanwhile.
type link struct {
	// fixed once the connection is handed out
	conn         net.Conn
	info         Info
	ticket       *session.ClientTicket // nil: the gateway gave none
	writeTimeout time.Duration
	silence      time.Duration // a record must come within it; 0: no bound
	maxPlaintext int           // of a record to the gateway; 0: not known

	crypto sync.Mutex // guards sess: both directions use one pool of ciphers
	sess   *session.Session

	reading turn // guards the next three
	frames  *frames
	last    []byte // the message returned last
	unpack  unpacker

	writing turn // guards the next two
	masks   *rand.ChaCha8
	out     []byte // room for a frame header, then a message

	pong pong
	end  end
}

// pong is the answer to the newest ping, which whoever may write sends.
type pong struct {
	due     atomic.Bool
	mu      sync.Mutex // guards payload
	payload []byte
}

// end is how a connection ended.
type end struct {
	leaving atomic.Bool // this side has begun to close
	once    sync.Once
	done    chan struct{} // closed once cause is set
	cause   error
}

func newLink(s *socket, sess *session.Session, opts *Options) (*link, error) {
	var seed [32]byte
	if _, err := io.ReadFull(opts.Rand, seed[:]); err != nil {
		return nil, fmt.Errorf("masking key: %w", err)
	}
	return &link{
		conn:         s.Conn,
		writeTimeout: opts.WriteTimeout,
		sess:         sess,
		reading:      newTurn(),
		writing:      newTurn(),
		frames:       newFrames(s.Conn, s.early, maxMessage),
		masks:        rand.NewChaCha8(seed),
		end:          end{done: make(chan struct{})},
	}, nil
}

// over returns why the connection has ended, or nil.
func (l *link) over() error {
	select {
	case <-l.end.done:
		return l.end.cause
	default:
		return nil
	}
}

// readMessage reads the next binary message and answers control frames
// meanwhile. The message is valid until the next call. The caller holds
// reading. When ctx ends first, the connection is as good as before.
func (l *link) readMessage(ctx context.Context) ([]byte, error) {
	if err := l.over(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // however much there is to read
		return nil, err
	}
	var deadline time.Time
	if l.silence > 0 {
		deadline = time.Now().Add(l.silence)
	}
	_ = l.conn.SetReadDeadline(deadline) // fails only when closed, as the read then does
	release := interruptible(ctx, l.conn, net.Conn.SetReadDeadline)
	defer release()
	l.frames.reuse(l.last)
	l.last = nil
	for {
		op, payload, err := l.frames.next()
		switch {
		case err != nil:
			return nil, l.readFailed(ctx, err)
		case op == ws.OpPing:
			l.answerPing(payload)
		case op == ws.OpClose:
			return nil, l.closedByPeer(payload)
		case op == ws.OpBinary:
			l.last = payload
			return payload, nil
		}
	}
}

// readRecord reads the next record, of the session or of its group, and opens
// it. The plaintext is valid until the next call. A Goodbye ends the connection.
// The caller holds reading.
func (l *link) readRecord(ctx context.Context) (wire.Kind, []byte, error) {
	for {
		msg, err := l.readMessage(ctx)
		if err != nil {
			return 0, nil, err
		}
		l.crypto.Lock()
		kind, plaintext, err := l.sess.Open(msg)
		l.crypto.Unlock()
		switch {
		case err != nil:
			return 0, nil, l.violated(err)
		case kind == wire.KindGoodbye:
			return 0, nil, l.goodbye(ctx, plaintext)
		case kind != wire.KindKeyUpdate: // which the session has dealt with
			return kind, plaintext, nil
		}
	}
}

// readFailed sorts out why a read failed. Only the caller's own impatience
// leaves the connection alive.
func (l *link) readFailed(ctx context.Context, err error) error {
	var frame *frameError
	switch {
	case errors.As(err, &frame):
		return l.violated(err)
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return l.finish(&ClosedError{Err: err}, 0, "")
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		err = fmt.Errorf("%w (%v)", ErrSilent, l.silence)
		return l.finish(&ClosedError{Err: err}, wire.CloseHeartbeatLost, "")
	}
}

// violated ends the connection because of what the gateway, or somebody on the
// way, sent.
func (l *link) violated(err error) error {
	e := &ClosedError{Code: wire.CloseBadRecord, Err: err}
	reason := ""
	var frame *frameError
	var failure *session.Error
	switch {
	case errors.As(err, &frame):
		e.Code, reason = frame.code, frame.text
	case errors.As(err, &failure):
		e.Code, reason = failure.Code, failure.Reason
	}
	return l.finish(e, e.Code, reason)
}

// closedByPeer ends the connection on a close frame, which is answered with its own code.
func (l *link) closedByPeer(payload []byte) error {
	code, text, err := parseClose(payload)
	if err != nil {
		return l.violated(err)
	}
	return l.finish(&ClosedError{Code: code, Text: printable(text)}, code, "")
}

// goodbye ends the connection on the gateway's own word. The close frame that
// follows is waited for, so that the gateway sees an orderly end.
func (l *link) goodbye(ctx context.Context, plaintext []byte) error {
	g, err := wire.ParseGoodbye(plaintext)
	if err != nil {
		return l.violated(err)
	}
	e := &ClosedError{
		Code:           wire.CloseCode(g.GetCode()),
		Text:           printable(g.GetText()),
		Final:          true,
		ReconnectAfter: time.Duration(g.GetReconnectAfterMs()) * time.Millisecond,
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	defer interruptible(ctx, l.conn, net.Conn.SetReadDeadline)()
	for {
		op, _, err := l.frames.next()
		if err != nil {
			return l.finish(e, 0, "")
		}
		if op == ws.OpClose {
			return l.finish(e, e.Code, "")
		}
	}
}

// finish ends the connection, once: the first cause stays. With a code it
// sends a close frame and waits a moment for the other side to have read it. It
// returns the cause to report.
func (l *link) finish(cause error, code wire.CloseCode, reason string) error {
	l.end.once.Do(func() {
		if l.end.leaving.Load() {
			cause = ErrClosed
		}
		l.end.cause = cause
		if code != 0 && l.writing.try() { // who holds it is stuck, and learns of the end below
			_ = l.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
			if l.writeFrame(ws.OpClose, appendClose(l.room(), code, reason)) == nil {
				l.drain()
			}
			l.writing.give()
		}
		l.conn.Close()
		l.crypto.Lock()
		l.sess.Close()
		l.crypto.Unlock()
		close(l.end.done)
	})
	<-l.end.done
	return l.end.cause
}

// drain reads what still comes, so that closing does not reset the connection
// before the close frame was read.
func (l *link) drain() {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if l.conn.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, l.conn, lingerBytes) // however it ends, the connection is closed next
	}
}

// room returns the outgoing buffer with space kept for a frame header. The
// caller holds writing.
func (l *link) room() []byte {
	if cap(l.out) < headerRoom {
		l.out = make([]byte, headerRoom, readAhead)
	}
	return l.out[:headerRoom]
}

// writeFrame sends buf[headerRoom:] as one frame and keeps buf. The caller holds
// writing and has set a deadline.
func (l *link) writeFrame(op ws.OpCode, buf []byte) error {
	l.out = buf
	var mask [4]byte
	_, _ = l.masks.Read(mask[:]) // never fails
	_, err := l.conn.Write(maskFrame(buf, op, mask))
	return err
}

// write seals a plaintext and sends it. fill appends the plaintext to dst. Once
// sealed the record must go out, so a write that ctx or the time limit
// interrupts ends the connection.
func (l *link) write(ctx context.Context, kind wire.Kind, fill func(dst []byte) ([]byte, error)) error {
	defer l.sendPong()
	if err := l.writing.take(ctx); err != nil {
		return err
	}
	defer l.writing.give()
	if err := l.over(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	buf, err := fill(append(l.room(), byte(kind)))
	if err != nil {
		return err
	}
	if n := len(buf) - headerRoom - 1; l.maxPlaintext > 0 && n > l.maxPlaintext {
		return &RequestError{Code: wire.CloseTooBig, Text: fmt.Sprintf("%d bytes, the gateway takes %d", n, l.maxPlaintext)}
	}
	update, buf, err := l.seal(kind, buf)
	if err != nil {
		return err
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(l.writeTimeout)) // fails only when closed, as the write then does
	release := interruptible(ctx, l.conn, net.Conn.SetWriteDeadline)
	defer release()
	if update != nil {
		err = l.writeFrame(ws.OpBinary, update)
	}
	if err == nil {
		err = l.writeFrame(ws.OpBinary, buf)
	}
	if err != nil {
		return l.finish(&ClosedError{Err: orContext(ctx, err)}, 0, "")
	}
	return nil
}

// seal seals the plaintext buf[headerRoom+1:] in place, and makes the KeyUpdate
// that must go out before it, if one is due. The caller holds writing.
func (l *link) seal(kind wire.Kind, buf []byte) (update, sealed []byte, err error) {
	l.crypto.Lock()
	defer l.crypto.Unlock()
	if !l.sess.Established() {
		return nil, nil, l.overOr(ErrClosed)
	}
	if now := time.Now().Unix(); l.sess.RekeyDue(now) {
		update = l.sess.AppendKeyUpdate(make([]byte, headerRoom, headerRoom+recordOverhead), now)
	}
	buf = slices.Grow(buf, suite.TagSize)
	return update, l.sess.Seal(buf[:headerRoom], kind, buf[headerRoom+1:]), nil
}

func (l *link) overOr(err error) error {
	if cause := l.over(); cause != nil {
		return cause
	}
	return err
}

// answerPing notes the pong that is due, of the newest ping only (RFC 6455
// section 5.5.3), and sends it unless somebody is writing, who then does.
func (l *link) answerPing(payload []byte) {
	l.pong.mu.Lock()
	l.pong.payload = append(l.pong.payload[:0], payload...)
	l.pong.due.Store(true)
	l.pong.mu.Unlock()
	l.sendPong()
}

// sendPong sends the pong that is due. A failure shows at the next read or write.
func (l *link) sendPong() {
	for l.pong.due.Load() && l.over() == nil && l.writing.try() {
		l.pong.mu.Lock()
		buf := append(l.room(), l.pong.payload...)
		due := l.pong.due.Swap(false)
		l.pong.mu.Unlock()
		if due {
			_ = l.conn.SetWriteDeadline(time.Now().Add(l.writeTimeout))
			_ = l.writeFrame(ws.OpPong, buf)
		}
		l.writing.give()
	}
}

// leave closes the connection from this side: a sealed Goodbye, a close frame,
// and a bounded wait for the gateway's.
func (l *link) leave(ctx context.Context, code wire.CloseCode, text string) error {
	if l.over() != nil || !l.end.leaving.CompareAndSwap(false, true) {
		<-l.end.done
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lingerTimeout)
	defer cancel()
	err := l.write(ctx, wire.KindGoodbye, func(dst []byte) ([]byte, error) {
		return wire.AppendGoodbye(dst, &wire.Goodbye{Code: uint32(code), Text: text})
	})
	if err == nil {
		err = l.writing.take(ctx)
	}
	if err == nil {
		_ = l.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
		err = l.writeFrame(ws.OpClose, appendClose(l.room(), code, text))
		l.writing.give()
	}
	if err == nil {
		l.awaitEnd(ctx)
	}
	l.finish(ErrClosed, 0, "")
	return err
}

// awaitEnd reads until the connection ends or ctx does, or lets another reader do so.
func (l *link) awaitEnd(ctx context.Context) {
	select {
	case <-l.end.done:
	case <-ctx.Done():
	case l.reading <- struct{}{}:
		for {
			if _, err := l.readMessage(ctx); err != nil {
				break
			}
		}
		l.reading.give()
	}
}
