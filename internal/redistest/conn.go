package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Conn is a plain connection to a Redis server, for tests that must not depend
// on the client library under test. One goroutine uses it at a time.
type Conn struct {
	t testing.TB
	c net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

// Connect opens a connection to the server. The caller may close it; the end
// of the test does, too.
func (s *Server) Connect() *Conn {
	s.t.Helper()
	return Dial(s.t, s.Addr)
}

// Dial opens a connection to any Redis server, such as the embedded one.
func Dial(t testing.TB, addr string) *Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return newConn(t, c)
}

// TryDial is Dial for servers that may be away: it returns nil then.
func TryDial(t testing.TB, addr string) *Conn {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil
	}
	return newConn(t, c)
}

func newConn(t testing.TB, c net.Conn) *Conn {
	t.Cleanup(func() { _ = c.Close() })
	return &Conn{t: t, c: c, r: bufio.NewReader(c), w: bufio.NewWriterSize(c, 64<<10)}
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.c.Close() }

// Do runs one command and returns its answer, an array as lines. It fails the
// test if there is none or it is an error.
func (c *Conn) Do(args ...string) string {
	c.t.Helper()
	answer, err := c.Try(args...)
	if err != nil {
		c.t.Fatalf("redistest: %.100q: %v", args, err)
	}
	return answer
}

// Try is Do for commands that may fail.
func (c *Conn) Try(args ...string) (string, error) {
	c.Queue(args...)
	return c.Flush()
}

// Publish publishes one message.
func (c *Conn) Publish(topic, payload string) {
	c.t.Helper()
	c.Do("PUBLISH", topic, payload)
}

// Queue writes a command without waiting. Each needs one Flush's or Receive's answer.
func (c *Conn) Queue(args ...string) {
	fmt.Fprintf(c.w, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(c.w, "$%d\r\n%s\r\n", len(a), a)
	}
}

// Flush sends what was queued and returns the next answer.
func (c *Conn) Flush() (string, error) {
	if err := c.w.Flush(); err != nil {
		return "", err
	}
	return c.Receive()
}

// Receive returns the next answer.
func (c *Conn) Receive() (string, error) {
	_ = c.c.SetReadDeadline(time.Now().Add(patience))
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", io.ErrUnexpectedEOF
	}
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '-':
		return "", fmt.Errorf("%s", line[1:])
	case '$':
		if n < 0 {
			return "", nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.r, text)
		return string(text[:n]), err
	case '*':
		lines := make([]string, max(n, 0))
		for i := range lines {
			if lines[i], err = c.Receive(); err != nil {
				return "", err
			}
		}
		return strings.Join(lines, "\n"), nil
	}
	return line[1:], nil
}
