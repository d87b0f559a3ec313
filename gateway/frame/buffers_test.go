package frame

import (
	"bytes"
	"testing"

	"github.com/gobwas/ws"
)

func TestBufferSizes(t *testing.T) {
	for n, want := range map[int]int{1: 256, 256: 256, 257: 512, 512: 512, 65536: 65536, 65537: 131072, 16 << 20: 16 << 20, 16<<20 + 1: 32 << 20} {
		if p := NewBuffers(0).get(n); cap(p) != want || len(p) != 0 {
			t.Errorf("get(%d): %d of %d bytes, want 0 of %d", n, len(p), cap(p), want)
		}
	}
}

func TestBuffersKeepNoMoreThanAsked(t *testing.T) {
	pool := NewBuffers(1024)
	for range 10 {
		pool.put(make([]byte, 0, 256))
		pool.put(make([]byte, 0, 1024))
		pool.put(make([]byte, 0, 2048))
		pool.put(make([]byte, 0, 32<<20))
		pool.put(nil)
	}
	if n := held(pool); n[0] != 4 || n[2] != 1 || n[3] != 0 {
		t.Errorf("kept %v of 256, 512, 1024, 2048 … bytes", n)
	}
}

// Memory follows what has come, whatever length was announced.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	pool := NewBuffers(16 << 20)
	d := NewDecoder(open)
	stream := AppendHeader(nil, ws.OpBinary, 16<<20)
	stream[1] |= maskBit
	stream = append(stream, 0, 0, 0, 0)
	if _, _, _, err := d.Next(stream, pool); err != nil || d.parts != nil {
		t.Fatalf("something is kept for a header (%v)", err)
	}
	for received := 1; received <= 1000; received++ {
		d.Next([]byte{'x'}, pool)
		if limit := max(256, 2*received); cap(d.parts.message) > limit {
			t.Fatalf("%d bytes taken for %d received", cap(d.parts.message), received)
		}
	}
}

// Every way a message or connection ends gives the buffers back, once.
func TestBuffersComeBack(t *testing.T) {
	begun := join(frameOf(more, ws.OpText, "a"), ping("x")[:7])
	for name, rest := range map[string][]byte{
		"message and ping end": join(ping("x")[7:], frameOf(fin, ws.OpContinuation, "b")),
		"close frame":          join(ping("x")[7:], closing(1000, "")),
		"protocol error":       join(ping("x")[7:], text("b")),
		"bad text":             join(ping("x")[7:], frameOf(fin, ws.OpContinuation, "\xff")),
		"connection is lost":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			pool := NewBuffers(1 << 16)
			d := NewDecoder(open)
			for _, stream := range [][]byte{bytes.Clone(ping("xy")[:7]), ping("xy")[7:], bytes.Clone(begun), bytes.Clone(rest)} {
				for len(stream) > 0 {
					n, _, _, _ := d.Next(stream, pool)
					stream = stream[n:]
				}
			}
			d.Release(pool)
			d.Release(pool)
			free := pool.free[0]
			if len(free) == 0 || len(free) > 2 {
				t.Fatalf("%d free buffers, want 1 or 2", len(free))
			}
			if len(free) == 2 && &free[0][:1][0] == &free[1][:1][0] {
				t.Error("one buffer came back twice")
			}
		})
	}
}
