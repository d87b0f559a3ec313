// Package feedfile reads recorded feeds, one tick a line. It neither publishes
// a tick nor waits for its time: that is the reader's caller.
//
// A line is
//
//	microseconds since the start TAB topic TAB payload LF
//
// The payload is taken byte for byte; it may hold tabs but no line feed.
package feedfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/sealcast/sealcast/wire/topic"
)

// MaxLine is the longest line that is read, in bytes. Lines are kept in memory
// one at a time, so this also bounds what a file costs.
const MaxLine = 16 << 20

// ErrFormat reports a line that does not have the layout of a recorded feed.
var ErrFormat = errors.New("not a recorded feed (microseconds TAB topic TAB payload)")

// Tick is one recorded tick.
type Tick struct {
	At      time.Duration // since the start of the recording, never less than the tick before
	Topic   string        // a valid topic name
	Payload []byte        // valid until the next call of Next
}

// Reader reads the ticks of a recording in order. It is used by one goroutine.
type Reader struct {
	lines  *bufio.Reader
	long   []byte            // a line that did not fit into lines' buffer
	names  map[string]string // topic names seen, so that a tick allocates none
	number int               // of the line read last
	last   time.Duration
}

// maxNames bounds Reader.names; a recording with more topics allocates for each tick of the rest.
const maxNames = 1 << 16

// NewReader reads a recording that is not compressed from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{lines: bufio.NewReaderSize(r, 64<<10), names: map[string]string{}}
}

// Next returns the next tick, or io.EOF after the last one. Any other error
// names the line, and reading further is of no use.
func (r *Reader) Next() (Tick, error) {
	line, err := r.line()
	if err != nil {
		return Tick{}, err
	}
	tick, err := r.parse(line)
	if err != nil {
		return Tick{}, fmt.Errorf("line %d: %w", r.number, err)
	}
	return tick, nil
}

// line returns the next line without its line feed; it is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	r.number++
	r.long = r.long[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		whole := part
		if len(r.long) > 0 || errors.Is(err, bufio.ErrBufferFull) {
			r.long = append(r.long, part...)
			whole = r.long
		}
		switch {
		case len(whole) > MaxLine:
			return nil, fmt.Errorf("line %d: longer than %d MiB", r.number, MaxLine>>20)
		case err == nil:
			return whole[:len(whole)-1], nil
		case errors.Is(err, io.EOF) && len(whole) > 0:
			return whole, nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d: %w", r.number, err)
		}
	}
}

func (r *Reader) parse(line []byte) (Tick, error) {
	first := bytes.IndexByte(line, '\t')
	if first < 0 {
		return Tick{}, ErrFormat
	}
	second := bytes.IndexByte(line[first+1:], '\t')
	if second < 0 {
		return Tick{}, ErrFormat
	}
	second += first + 1
	at, err := r.time(line[:first])
	if err != nil {
		return Tick{}, err
	}
	name, err := r.name(line[first+1 : second])
	if err != nil {
		return Tick{}, err
	}
	return Tick{At: at, Topic: name, Payload: line[second+1:]}, nil
}

// maxMicros keeps a recorded time inside a time.Duration.
const maxMicros = uint64(1<<63-1) / 1000

func (r *Reader) time(field []byte) (time.Duration, error) {
	us, err := strconv.ParseUint(string(field), 10, 64)
	if err != nil || us > maxMicros {
		return 0, fmt.Errorf("%w: time %.40q", ErrFormat, field)
	}
	at := time.Duration(us) * time.Microsecond
	if at < r.last {
		return 0, fmt.Errorf("%w: time %d goes back", ErrFormat, us)
	}
	r.last = at
	return at, nil
}

func (r *Reader) name(field []byte) (string, error) {
	if name, ok := r.names[string(field)]; ok {
		return name, nil
	}
	name := string(field)
	if err := topic.ValidName(name); err != nil {
		return "", err
	}
	if len(r.names) < maxNames {
		r.names[name] = name
	}
	return name, nil
}

// File is a recording on disk.
type File struct {
	*Reader
	file *os.File
	gzip *gzip.Reader // nil: not compressed
}

// Open opens a recording. It is taken for gzip if it begins as gzip does, whatever its name.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if err := f.Rewind(); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// Rewind goes back to the first tick.
func (f *File) Rewind() error {
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(f.file, 64<<10)
	magic, err := buffered.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		f.Reader = NewReader(buffered)
		return nil
	}
	if f.gzip, err = gzip.NewReader(buffered); err != nil {
		return fmt.Errorf("%s: %w", f.file.Name(), err)
	}
	f.Reader = NewReader(f.gzip)
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	return f.file.Close()
}
