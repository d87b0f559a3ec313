package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
)

const kind = 0x10

// ends is both ends of one direction, each with its own pool.
type ends struct {
	seal     Sealer
	open     Opener
	from, to *Pool
}

func newEnds(id suite.ID, limits Limits) *ends {
	e := &ends{from: NewPool(0, 0), to: NewPool(0, 0)}
	e.seal.Init(id, testSecret(1), limits)
	e.open.Init(id, testSecret(1))
	return e
}

// testSecret is a fixed secret for each n.
func testSecret(n byte) Secret {
	return Extract([]byte("a handshake hash"), bytes.Repeat([]byte{n}, SecretSize), nil)
}

// carry seals text, opens it and compares.
func (e *ends) carry(t *testing.T, text []byte) {
	t.Helper()
	msg := e.seal.Seal(e.from, nil, kind, text)
	if len(msg) != len(text)+e.seal.Overhead() {
		t.Fatalf("record of %d bytes for %d", len(msg), len(text))
	}
	got, err := e.open.Open(e.to, msg)
	if err != nil || !bytes.Equal(got, text) {
		t.Fatalf("opened %q, %v", got, err)
	}
}

func TestRoundTripAcrossRekeys(t *testing.T) {
	for _, id := range suite.All() {
		for _, perKey := range []uint64{1, 2, 7} {
			e := newEnds(id, Limits{Records: perKey})
			rekeys := 0
			for i := range 50 {
				if e.seal.RekeyDue(0) {
					e.seal.Rekey(e.from, 0)
					e.open.Rekey(e.to)
					rekeys++
				}
				e.carry(t, bytes.Repeat([]byte{byte(i)}, i*3))
			}
			if want := 49 / int(perKey); rekeys != want {
				t.Errorf("%v, %d records per key: %d rekeys, want %d", id, perKey, rekeys, want)
			}
		}
	}
}

func TestSealInPlaceEqualsSealApart(t *testing.T) {
	for _, id := range suite.All() {
		for _, size := range []int{0, 1, 16, 1000} {
			text := bytes.Repeat([]byte("t"), size)
			apart := newEnds(id, Limits{})
			want := apart.seal.Seal(apart.from, []byte("head"), kind, text)

			inPlace := newEnds(id, Limits{})
			buf := make([]byte, 4, 4+size+inPlace.seal.Overhead())
			copy(buf, "head")
			room := buf[5 : 5+size]
			copy(room, text)
			got := inPlace.seal.Seal(inPlace.from, buf, kind, room)
			if !bytes.Equal(got, want) || &got[0] != &buf[0] {
				t.Errorf("%v, %d bytes: in place %x, apart %x", id, size, got, want)
			}
		}
	}
}

func TestSealAndOpenAllocateNothing(t *testing.T) {
	for _, id := range suite.All() {
		for _, size := range []int{0, 64, 1024, 16 << 10} {
			e := newEnds(id, Limits{})
			buf := make([]byte, size+e.seal.Overhead())
			allocs := testing.AllocsPerRun(100, func() {
				_ = e.seal.RekeyDue(1)
				msg := e.seal.Seal(e.from, buf[:0], kind, buf[1:1+size])
				if _, err := e.open.Open(e.to, msg); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v: %v allocations at %d bytes", id, allocs, size)
			}
		}
	}
}

func TestEveryAlteredByteIsRefused(t *testing.T) {
	for _, id := range suite.All() {
		if id == suite.Plain {
			continue // protects nothing, and says so
		}
		text := []byte("secret price")
		for at := range newEnds(id, Limits{}).seal.Seal(NewPool(0, 0), nil, kind, text) {
			e := newEnds(id, Limits{})
			msg := e.seal.Seal(e.from, nil, kind, text)
			msg[at] ^= 0x40
			got, err := e.open.Open(e.to, msg)
			if !errors.Is(err, ErrTag) || got != nil || bytes.Contains(msg, text) {
				t.Errorf("%v, byte %d: %q, %v", id, at, got, err)
			}
		}
	}
}

func TestOrderAndLengthAreProtected(t *testing.T) {
	e := newEnds(suite.AES128GCM, Limits{})
	first := e.seal.Seal(e.from, nil, kind, []byte("first"))
	second := e.seal.Seal(e.from, nil, kind, []byte("second"))
	for name, change := range map[string]func(o *Opener, p *Pool) error{
		"swapped": func(o *Opener, p *Pool) error { _, err := o.Open(p, bytes.Clone(second)); return err },
		"replayed": func(o *Opener, p *Pool) error {
			if _, err := o.Open(p, bytes.Clone(first)); err != nil {
				return err
			}
			_, err := o.Open(p, bytes.Clone(first))
			return err
		},
		"truncated": func(o *Opener, p *Pool) error { _, err := o.Open(p, bytes.Clone(first)[:len(first)-1]); return err },
		"lengthened": func(o *Opener, p *Pool) error {
			_, err := o.Open(p, append(bytes.Clone(first), 0))
			return err
		},
		"of the next key": func(o *Opener, p *Pool) error { o.Rekey(p); _, err := o.Open(p, bytes.Clone(first)); return err },
	} {
		o, p := new(Opener), NewPool(0, 0)
		o.Init(suite.AES128GCM, testSecret(1))
		if err := change(o, p); !errors.Is(err, ErrTag) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShortRecords(t *testing.T) {
	for _, id := range suite.All() {
		e := newEnds(id, Limits{})
		for n := range 1 + id.Overhead() {
			if _, err := e.open.Open(e.to, make([]byte, n)); !errors.Is(err, ErrTag) {
				t.Errorf("%v, %d bytes: %v", id, n, err)
			}
		}
	}
}

func TestReceiverLimit(t *testing.T) {
	e := newEnds(suite.ChaCha20Poly1305, Limits{})
	e.seal.counter, e.open.counter = MaxReceiverCount-1, MaxReceiverCount-1
	e.carry(t, []byte("the last"))
	if _, err := e.open.Open(e.to, make([]byte, 100)); !errors.Is(err, ErrSpent) {
		t.Errorf("after the limit: %v", err)
	}
	mustPanic(t, "Seal after the limit", func() { e.seal.Seal(e.from, nil, kind, nil) })
}

func TestClearedDirection(t *testing.T) {
	e := newEnds(suite.AES256GCM, Limits{})
	e.carry(t, []byte("x"))
	e.seal.Clear(e.from)
	e.open.Clear(e.to)
	if e.from.Stats().Kept != 0 || e.to.Stats().Kept != 0 {
		t.Error("a cleared direction keeps a cipher")
	}
	for _, d := range []*half{&e.seal.half, &e.open.half} {
		if d.secret.bytes != [SecretSize]byte{} || d.key != [suite.MaxKeySize]byte{} || d.iv != [suite.NonceSize]byte{} {
			t.Error("a cleared direction keeps a secret")
		}
	}
	if _, err := e.open.Open(e.to, make([]byte, 100)); err == nil {
		t.Error("a cleared direction opens")
	}
	mustPanic(t, "Seal after Clear", func() { e.seal.Seal(e.from, nil, kind, nil) })
	mustPanic(t, "Seal before Init", func() { new(Sealer).Seal(NewPool(0, 0), nil, kind, nil) })
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

// panicking is a cipher that fails in the worst way.
type panicking struct{ seen *[]uint64 }

func (panicking) NonceSize() int { return suite.NonceSize }
func (panicking) Overhead() int  { return suite.TagSize }
func (p panicking) Seal(_, nonce, _, _ []byte) []byte {
	*p.seen = append(*p.seen, binary.BigEndian.Uint64(nonce[4:]))
	panic("cipher")
}
func (panicking) Open(_, _, _, _ []byte) ([]byte, error) { panic("cipher") }

// TestPanicNeverReusesNonce: the counter is stored before the cipher is called.
func TestPanicNeverReusesNonce(t *testing.T) {
	e := newEnds(suite.AES128GCM, Limits{})
	e.carry(t, nil)
	var seen []uint64
	e.seal.aead = panicking{&seen}
	for range 3 {
		mustPanic(t, "the cipher", func() { e.seal.Seal(e.from, nil, kind, []byte("x")) })
	}
	if len(seen) != 3 || seen[0] == seen[1] || seen[1] == seen[2] || seen[0] == seen[2] {
		t.Errorf("nonces after panics: %x", seen)
	}
}

func TestRekeyDue(t *testing.T) {
	for _, test := range []struct {
		name    string
		limits  Limits
		records int
		size    int
		seconds int64
		want    bool
	}{
		{"nothing sealed, however old", Limits{Age: time.Second}, 0, 0, 1000, false},
		{"one record", Limits{Records: 1}, 1, 0, 0, true},
		{"one of two", Limits{Records: 2}, 1, 0, 0, false},
		{"bytes short of the limit", Limits{Bytes: 100}, 1, 99, 0, false},
		{"bytes", Limits{Bytes: 100}, 2, 50, 0, true},
		{"age short of the limit", Limits{Age: 5 * time.Second}, 1, 0, 4, false},
		{"age", Limits{Age: 5 * time.Second}, 1, 0, 5, true},
		{"default age short", Limits{}, 1, 0, 599, false},
		{"default age", Limits{}, 1, 0, 600, true},
	} {
		e := newEnds(suite.AES128GCM, test.limits)
		const began = 1_700_000_000
		for range test.records {
			e.seal.RekeyDue(began)
			e.carry(t, make([]byte, test.size))
		}
		if got := e.seal.RekeyDue(began + test.seconds); got != test.want {
			t.Errorf("%s: due %v", test.name, got)
		}
	}
	e := newEnds(suite.AES128GCM, Limits{})
	e.seal.RekeyDue(0)
	e.carry(t, nil)
	e.seal.counter = MaxRecords - 1
	if e.seal.RekeyDue(0) {
		t.Error("due before the default number of records")
	}
	if e.carryAt(MaxRecords); !e.seal.RekeyDue(0) {
		t.Error("not due at the default number of records")
	}
	if e.seal.bytes = MaxBytes; !e.carryAt(5).seal.RekeyDue(0) {
		t.Error("not due at the default number of bytes")
	}
}

// carryAt sets the sender's counter.
func (e *ends) carryAt(n uint64) *ends { e.seal.counter = n; return e }

// TestAgeCountsFromRekey: a rekey without a later RekeyDue before the first
// record must not look like a key from the beginning of time.
func TestAgeCountsFromRekey(t *testing.T) {
	e := newEnds(suite.AES128GCM, Limits{})
	e.seal.RekeyDue(5000)
	e.carry(t, nil)
	e.seal.Rekey(e.from, 5001)
	e.open.Rekey(e.to)
	e.carry(t, nil)
	if e.seal.RekeyDue(5002) {
		t.Error("due a second after the last rekey")
	}
}

func TestLimitsCheck(t *testing.T) {
	for _, test := range []struct {
		limits Limits
		ok     bool
	}{
		{Limits{}, true},
		{Limits{1, 1, time.Second}, true},
		{Limits{MaxRecords, MaxBytes, MaxAge}, true},
		{Limits{Records: MaxRecords + 1}, false},
		{Limits{Bytes: MaxBytes + 1}, false},
		{Limits{Age: MaxAge + 1}, false},
		{Limits{Age: time.Millisecond}, false},
		{Limits{Age: -time.Second}, false},
	} {
		if err := test.limits.Check(); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test.limits, err)
		}
	}
}

func TestSecretsPrintRedacted(t *testing.T) {
	s := testSecret(9)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		if got := fmt.Sprintf(format, s); got != "redacted" {
			t.Errorf("%s prints %s", format, got)
		}
		if got := fmt.Sprintf(format, &s); got != "redacted" {
			t.Errorf("%s of a pointer prints %s", format, got)
		}
	}
}

// FuzzOpen: no input opens that was not sealed, none panics, and a refused
// record leaves none of the plaintext.
func FuzzOpen(f *testing.F) {
	for _, id := range suite.All() {
		e := newEnds(id, Limits{})
		f.Add(byte(id), e.seal.Seal(e.from, nil, kind, []byte("tick")))
		f.Add(byte(id), []byte{})
		f.Add(byte(id), []byte{kind})
		f.Add(byte(id), make([]byte, 17))
	}
	f.Fuzz(func(t *testing.T, n byte, msg []byte) {
		id := suite.ID(n)
		if !id.Valid() || id == suite.Plain {
			return
		}
		e := newEnds(id, Limits{})
		sealed := e.seal.Seal(e.from, nil, kind, []byte("tick"))
		genuine := bytes.Equal(msg, sealed)
		got, err := e.open.Open(e.to, bytes.Clone(msg))
		if (err == nil) != genuine {
			t.Errorf("opened %q, %v", got, err)
		}
	})
}
