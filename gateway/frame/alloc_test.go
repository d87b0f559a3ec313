package frame

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

// drain decodes the pieces and counts events and bytes of payload. It does not
// allocate.
func drain(d *Decoder, pool *Buffers, pieces [][]byte) (events, size int) {
	for _, piece := range pieces {
		for len(piece) > 0 {
			n, ev, ok, err := d.Next(piece, pool)
			if err != nil {
				panic(err)
			}
			if ok {
				events++
				size += len(ev.Payload)
			}
			piece = piece[n:]
		}
	}
	return events, size
}

func TestDecodingAllocatesNothing(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	stream := join(text("hello"), binary_(long), ping("p"), fragmented(ws.OpText, long, 777), pong(""),
		frameOf(more, ws.OpBinary, "a"), ping("between"), frameOf(fin, ws.OpContinuation, "b"))
	for _, size := range []int{len(stream), 4096, 1000, 61, 1} {
		d, pool := NewDecoder(open), NewBuffers(1<<20)
		fresh, work := bytes.Clone(stream), bytes.Clone(stream)
		pieces := slices.Collect(slices.Chunk(work, size))
		run := func() {
			copy(work, fresh) // Next unmasks in place
			if events, _ := drain(&d, pool, pieces); events != 7 {
				t.Fatalf("%d events, want 7", events)
			}
		}
		run() // the first time fills the pool
		if n := testing.AllocsPerRun(5, run); n != 0 {
			t.Errorf("in pieces of %d bytes: %v allocations, want 0", size, n)
		}
	}
}

func TestAppendingAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		AppendHeader(dst, ws.OpBinary, 1<<20)
		AppendClose(dst, wire.CloseBadRecord, "protocol or record failure")
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Frames as they lie in a read buffer of 64 KiB.
func BenchmarkNext(b *testing.B) {
	for name, size := range map[string]int{"64B": 64, "1KiB": 1024} {
		for _, op := range []ws.OpCode{ws.OpBinary, ws.OpText} {
			b.Run(map[ws.OpCode]string{ws.OpBinary: "binary", ws.OpText: "text"}[op]+"/"+name, func(b *testing.B) {
				frame := append(AppendHeader(nil, op, size), 0, 0, 0, 0) // this mask leaves the payload as it is
				frame[1] |= maskBit
				frame = append(frame, strings.Repeat("x", size)...)
				count := 65536 / len(frame)
				buf := [][]byte{bytes.Repeat(frame, count)}
				d, pool := NewDecoder(open), NewBuffers(1<<20)
				b.SetBytes(int64(len(frame)))
				b.ReportAllocs()
				for i := 0; i < b.N; i += count {
					drain(&d, pool, buf)
				}
			})
		}
	}
}
