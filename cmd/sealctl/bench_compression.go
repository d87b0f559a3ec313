package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// compression is what `sealctl bench compression` was asked for.
type compression struct {
	batches []int
	size    int // of dictionaries
	during  time.Duration
	format  string
}

// compressed is what one codec makes of one feed.
type compressed struct {
	File       string  `json:"file"`
	Batch      int     `json:"batch"` // ticks in one
	Codec      string  `json:"codec"`
	Payload    int     `json:"payload"`       // bytes of all payloads
	Bytes      int     `json:"bytes"`         // of the plaintexts of all batches, uncompressed
	Compressed int     `json:"compressed"`    // of all, as they would be sealed
	Ratio      float64 `json:"ratio"`         // payload by compressed
	PackUS     float64 `json:"compress_us"`   // for one batch, on one core
	UnpackUS   float64 `json:"decompress_us"` // for one batch that shrank
}

// plainFrame is a batch as the plaintext of a record.
type plainFrame struct {
	bytes []byte
	head  int // bytes before the payloads
}

func (p *plainFrame) payloads() []byte { return p.bytes[p.head:] }

func (a *app) benchCompression(ctx context.Context, args []string) error {
	var b compression
	var batches []string
	var size string
	f := newFlags("bench compression", "FILE...", `Measures on this machine, without any connection, what each codec makes of recorded feeds (see
"sealctl feed -h"): how much smaller batches become, and what that costs. The second half of each feed
is measured; dictionaries are trained from the first half.`)
	f.list(&batches, "batch", true, "`LIST` of numbers of ticks in a batch (default 1,10,50)")
	f.StringVar(&size, "size", "16KiB", "`BYTES` of the dictionaries, about")
	f.DurationVar(&b.during, "for", 300*time.Millisecond, "`TIME` of one measurement; the fastest of its rounds counts")
	f.StringVar(&b.format, "o", "text", "`FORMAT` of the output: text or json")
	if help, err := a.parse(f, args, 1, 1000); help || err != nil {
		return err
	}
	if err := b.check(batches, size); err != nil {
		return err
	}
	var all []compressed
	for _, name := range f.Args() {
		results, err := b.measureFile(ctx, name)
		if err != nil {
			return err
		}
		all = append(all, results...)
	}
	return a.printCompression(all, b.format)
}

func (b *compression) check(batches []string, size string) (err error) {
	if b.batches = []int{1, 10, 50}; len(batches) > 0 {
		b.batches = nil
	}
	for _, s := range batches {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 65536 {
			return advice.Misuse(fmt.Sprintf("--batch: %q is no number of ticks", s), "between 1 and 65536")
		}
		b.batches = append(b.batches, n)
	}
	if b.during <= 0 || b.during > time.Minute {
		return advice.Misuse("--for: more than 0 and at most 1m", "for example --for 1s")
	}
	if b.format != "text" && b.format != "json" {
		return advice.Misuse(fmt.Sprintf("-o: there is no format %q", b.format), "text or json")
	}
	b.size, err = parseDictSize(size)
	return err
}

func (b *compression) measureFile(ctx context.Context, name string) ([]compressed, error) {
	ticks, err := readFeed(name)
	if err != nil {
		return nil, err
	}
	half := len(ticks) / 2
	dictionary, err := codec.Train(samples(ticks[:half]), b.size)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("%s: %w", name, err), "a few hundred ticks or more that resemble each other are needed")
	}
	var results []compressed
	joiner := wire.Joiner{Clock: recordedAt}
	for _, n := range b.batches {
		var plain []plainFrame
		for batch := range slices.Chunk(ticks[half:], n) {
			frame, head := joiner.AppendFrame(nil, batch)
			plain = append(plain, plainFrame{frame, head})
		}
		for _, id := range []wire.Codec{wire.CodecSnappy, wire.CodecZstd, wire.CodecZstdDict} {
			if ctx.Err() != nil {
				return nil, advice.Failed(errInterrupted, "")
			}
			r, err := b.measure(id, dictionary, plain)
			if err != nil {
				return nil, advice.Failed(fmt.Errorf("%s: %w", name, err), "")
			}
			r.File, r.Batch = filepath.Base(name), n
			results = append(results, r)
		}
	}
	return results, nil
}

// measure compresses and decompresses all batches, and repeats that for a while.
func (b *compression) measure(id wire.Codec, dictionary *codec.Dictionary, plain []plainFrame) (compressed, error) {
	r := compressed{Codec: id.String()}
	encoder, err := codec.NewEncoder(id, dictionary)
	if err != nil {
		return r, err
	}
	decoder, err := codec.NewDecoder(id, dictionary, codec.DefaultLimit)
	if err != nil {
		return r, err
	}
	var packed []plainFrame
	var room []byte
	for _, p := range plain {
		out := encoder.Compress(bytes.Clone(p.bytes), 0, p.head)
		r.Payload, r.Bytes, r.Compressed = r.Payload+len(p.payloads()), r.Bytes+len(p.bytes), r.Compressed+len(out)
		if wire.Codec(out[0]) == wire.CodecNone {
			continue
		}
		_, f, err := wire.ParsePacked(out)
		if err != nil {
			return r, err
		}
		packed = append(packed, plainFrame{bytes: f.GetBatch().GetPayloads()})
		if room, err = decoder.Decode(room, f.GetBatch().GetPayloads()); err != nil || !bytes.Equal(room, p.payloads()) {
			return r, fmt.Errorf("%v does not bring a batch back: %w", id, err)
		}
	}
	r.Ratio = float64(r.Payload) / float64(max(r.Compressed, 1))
	arena := make([]byte, 0, 4<<20)
	r.PackUS = b.micros(plain, func(p *plainFrame) { arena = encoder.Compress(append(arena[:0], p.bytes...), 0, p.head)[:0] })
	r.UnpackUS = b.micros(packed, func(p *plainFrame) { room, _ = decoder.Decode(room, p.payloads()) })
	return r, nil
}

// micros is the mean time of f over all batches, in microseconds. Each run of
// batches is timed on its own, several times, and the fastest counts, because
// whatever else the machine does can only slow it down.
func (b *compression) micros(batches []plainFrame, f func(*plainFrame)) float64 {
	const together = 16
	fastest := make([]time.Duration, (len(batches)+together-1)/together)
	for start, round := time.Now(), 0; len(batches) > 0 && (round < 2 || time.Since(start) < b.during); round++ {
		for i, run := range slices.Collect(slices.Chunk(batches, together)) {
			begun := time.Now()
			for k := range run {
				f(&run[k])
			}
			if took := time.Since(begun); round == 0 || took < fastest[i] {
				fastest[i] = took
			}
		}
	}
	var sum time.Duration
	for _, d := range fastest {
		sum += d
	}
	return float64(sum.Nanoseconds()) / 1000 / float64(max(len(batches), 1))
}

func (a *app) printCompression(results []compressed, format string) error {
	if format == "json" {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return outputError(e.Encode(results))
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "feed\tticks a batch\tcodec\tpayload by frame\tcompress\tdecompress")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%s\t%.2f\t%.1f µs\t%.1f µs\n", r.File, r.Batch, r.Codec, r.Ratio, r.PackUS, r.UnpackUS)
	}
	return outputError(w.Flush())
}
