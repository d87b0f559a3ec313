package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/feedfile"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// Bounds of what a dictionary is trained from: more samples hardly improve it.
const (
	maxSamples     = 20_000
	maxSampleBytes = 16 << 20
)

// dict makes dictionaries for compression.
func (a *app) dict(ctx context.Context, args []string) error {
	const hint = "`sealctl dict train FILE... -o DICTIONARY`"
	switch {
	case len(args) == 0:
		return advice.Misuse("dict: nothing to do given", hint)
	case args[0] == "train":
		return a.dictTrain(ctx, args[1:])
	case slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]):
		return a.print("usage: sealctl dict train FILE... -o DICTIONARY [flags]\n\n\"sealctl dict train -h\" shows its flags.\n")
	}
	return advice.Misuse(fmt.Sprintf("dict: unknown command %q", args[0]), hint)
}

func (a *app) dictTrain(_ context.Context, args []string) error {
	var out, size string
	f := newFlags("dict train", "FILE...", `Trains a Zstandard dictionary from recorded feeds (see "sealctl feed -h"), for the gateway's setting
compress.dictionary. It makes small batches shrink, down to single ticks, for clients that can use
one. Train it from the topics that clients will get, and only from ones that may be public: clients
get the dictionary, and pieces of the ticks stand in it.`)
	f.StringVar(&out, "o", "", "`FILE` to write the dictionary to")
	f.StringVar(&size, "size", "16KiB", "`BYTES` of the dictionary, about")
	if help, err := a.parse(f, args, 1, 1000); help || err != nil {
		return err
	}
	bytes, err := parseDictSize(size)
	if err != nil {
		return err
	}
	if out == "" {
		return advice.Misuse("dict train: -o is missing", "it names the file to write the dictionary to")
	}
	var ticks []wire.BatchItem
	for _, name := range f.Args() {
		more, err := readFeed(name)
		if err != nil {
			return err
		}
		ticks = append(ticks, more...)
	}
	d, err := codec.Train(samples(ticks), bytes)
	if err != nil {
		return advice.Failed(err, "a few hundred ticks or more that resemble each other are needed")
	}
	if err := os.WriteFile(out, d.Bytes(), 0o644); err != nil {
		return advice.Failed(err, "")
	}
	return a.print(fmt.Sprintf("%s: dictionary %d, %d bytes, from %d ticks\n", out, d.ID(), len(d.Bytes()), len(ticks)))
}

func parseDictSize(s string) (int, error) {
	digits, kib := strings.CutSuffix(s, "KiB")
	n, err := strconv.Atoi(digits)
	if kib {
		n <<= 10
	}
	if err != nil || n < 256 || n > codec.MaxDictionary/2 {
		return 0, advice.Misuse(fmt.Sprintf("--size: %q is no size for a dictionary", s), fmt.Sprintf("between 256 and %dKiB", codec.MaxDictionary>>11))
	}
	return n, nil
}

// recordedAt is when recordings begin, and the gateway's clock with them: any time
// that is not 0, in microseconds since the Unix epoch.
const recordedAt = 1_700_000_000_000_000

// readFeed reads a recorded feed as the entries of batches. Topics and ticks are
// numbered as a gateway would number them.
func readFeed(name string) ([]wire.BatchItem, error) {
	file, err := feedfile.Open(name)
	if err != nil {
		return nil, advice.Failed(err, "")
	}
	defer file.Close()
	numbers, seqs := map[string]uint32{}, map[string]uint64{}
	var items []wire.BatchItem
	for {
		tick, err := file.Next()
		switch {
		case errors.Is(err, io.EOF) && len(items) == 0:
			return nil, advice.Failed(fmt.Errorf("%s: holds no tick", name), "")
		case errors.Is(err, io.EOF):
			return items, nil
		case err != nil:
			return nil, advice.Failed(fmt.Errorf("%s: %w", name, err), "")
		}
		number, ok := numbers[tick.Topic]
		if !ok {
			number = uint32(len(numbers) + 1)
			numbers[tick.Topic] = number
		}
		seqs[tick.Topic]++
		items = append(items, wire.BatchItem{
			Topic:      number,
			Seq:        seqs[tick.Topic],
			Payload:    append([]byte(nil), tick.Payload...),
			ReceivedUS: recordedAt + tick.At.Microseconds(),
		})
	}
}

// samples are payloads, evenly spread over a feed.
func samples(ticks []wire.BatchItem) [][]byte {
	step := (len(ticks) + maxSamples - 1) / maxSamples
	var out [][]byte
	bytes := 0
	for i := 0; i < len(ticks) && bytes < maxSampleBytes; i += step {
		out = append(out, ticks[i].Payload)
		bytes += len(ticks[i].Payload)
	}
	return out
}
