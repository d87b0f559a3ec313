package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
)

const groupKind, groupNumber = 0x11, 7

// club is a group's sealer with one pool, and members with another.
type club struct {
	seal     GroupSealer
	from, to *Pool
	id       suite.ID
}

func newClub(id suite.ID, limits Limits) *club {
	c := &club{from: NewPool(0, 0), to: NewPool(0, 0), id: id}
	c.seal.Init(id, groupNumber, groupSecret(1), limits)
	return c
}

// groupSecret is a fixed secret for each n.
func groupSecret(n byte) Secret {
	s, err := NewSecret(bytes.NewReader(bytes.Repeat([]byte{n}, SecretSize)))
	if err != nil {
		panic(err)
	}
	return s
}

// member joins as of now, the way a GroupKey is handed over.
func (c *club) member(t *testing.T) *GroupOpener {
	t.Helper()
	secret, ok := ParseSecret(c.seal.Secret().AppendTo(nil))
	if !ok {
		t.Fatal("the secret does not come through")
	}
	g := new(GroupOpener)
	g.Init(c.id, secret, c.seal.Point())
	return g
}

func (c *club) record(text string) []byte {
	return c.seal.Seal(c.from, nil, groupKind, []byte(text))
}

// opens opens a copy of msg.
func (c *club) opens(g *GroupOpener, msg []byte) (string, error) {
	text, err := g.Open(c.to, bytes.Clone(msg))
	return string(text), err
}

func TestGroupRecordsOpenForEveryMember(t *testing.T) {
	for _, id := range suite.All() {
		c := newClub(id, Limits{})
		members := []*GroupOpener{c.member(t), c.member(t)}
		for i := range 300 {
			if i == 100 {
				members = append(members, c.member(t))
			}
			want := strings.Repeat("x", i)
			msg := c.record(want)
			if len(msg) != len(want)+c.seal.Overhead() || binary.BigEndian.Uint64(msg[5:]) != uint64(i) {
				t.Fatalf("%v, record %d: %x", id, i, msg[:GroupHeaderSize])
			}
			for _, m := range members {
				if got, err := c.opens(m, msg); err != nil || got != want {
					t.Fatalf("%v, record %d: %q, %v", id, i, got, err)
				}
			}
		}
		for i, m := range members {
			if m.Settled() {
				t.Error("records need no mark")
			}
			if err := m.Check(c.seal.Point()); err != nil || !m.Settled() {
				t.Errorf("%v, member %d: mark %v", id, i, err)
			}
		}
	}
}

func TestGroupSealInPlaceEqualsSealApart(t *testing.T) {
	for _, id := range suite.All() {
		for _, size := range []int{0, 1, 16, 1000} {
			text := bytes.Repeat([]byte("t"), size)
			apart := newClub(id, Limits{})
			want := apart.seal.Seal(apart.from, []byte("head"), groupKind, text)
			c := newClub(id, Limits{})
			buf := make([]byte, 4, 4+size+c.seal.Overhead())
			copy(buf, "head")
			room := buf[4+GroupHeaderSize : 4+GroupHeaderSize+size]
			copy(room, text)
			got := c.seal.Seal(c.from, buf, groupKind, room)
			if !bytes.Equal(got, want) || &got[0] != &buf[0] || c.seal.Point() != apart.seal.Point() {
				t.Errorf("%v, %d bytes: in place %x, apart %x", id, size, got, want)
			}
		}
	}
}

func TestGroupSealAndOpenAllocateNothing(t *testing.T) {
	for _, id := range suite.All() {
		for _, size := range []int{0, 64, 16 << 10} {
			c := newClub(id, Limits{})
			m := c.member(t)
			buf := make([]byte, size+c.seal.Overhead())
			allocs := testing.AllocsPerRun(100, func() {
				_ = c.seal.RekeyDue(1)
				msg := c.seal.Seal(c.from, buf[:0], groupKind, buf[GroupHeaderSize:GroupHeaderSize+size])
				if _, err := m.Open(c.to, msg); err != nil {
					t.Fatal(err)
				}
				if err := m.Check(c.seal.Point()); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v: %v allocations at %d bytes", id, allocs, size)
			}
		}
	}
}

func TestEveryAlteredByteOfAGroupRecordIsRefused(t *testing.T) {
	const text = "secret price"
	for _, id := range suite.All() {
		if id == suite.Plain {
			continue // protects nothing, and says so
		}
		for at := range newClub(id, Limits{}).record(text) {
			c := newClub(id, Limits{})
			m := c.member(t)
			msg := c.record(text)
			msg[at] ^= 0x40
			got, err := m.Open(c.to, msg)
			if err == nil || got != nil || bytes.Contains(msg, []byte(text)) {
				t.Errorf("%v, byte %d: %q, %v", id, at, got, err)
			}
		}
	}
}

// TestGroupOrder: the first record is that of the point at which the member came
// in, and then exactly one more each.
func TestGroupOrder(t *testing.T) {
	c := newClub(suite.AES128GCM, Limits{})
	before := c.record("before")
	late := c.member(t)
	first, second, third := c.record("first"), c.record("second"), c.record("third")
	other := newClub(suite.AES128GCM, Limits{})
	other.seal.point.ID++
	other.record("")
	for name, msgs := range map[string][][]byte{
		"older than the member": {before},
		"dropped":               {second},
		"dropped later":         {first, third},
		"repeated":              {first, first},
		"swapped":               {second, first},
		"of another group":      {other.record("first")},
		"truncated":             {first[:len(first)-1]},
		"lengthened":            {append(bytes.Clone(first), 0)},
		"header alone":          {first[:GroupHeaderSize]},
		"half a header":         {first[:5]},
		"empty":                 {{}},
	} {
		m := *late
		m.hash = c.member(t).hash
		var err error
		for i := 0; i < len(msgs) && err == nil; i++ {
			_, err = c.opens(&m, msgs[i])
		}
		if !errors.Is(err, ErrGroup) && !errors.Is(err, ErrTag) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, msg := range [][]byte{first, second, third} {
		if _, err := c.opens(late, msg); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMarkUncovers: a member holds the key and can seal what others will open,
// but not make the sealer vouch for it.
func TestMarkUncovers(t *testing.T) {
	c := newClub(suite.ChaCha20Poly1305, Limits{})
	m := c.member(t)
	insider := newClub(suite.ChaCha20Poly1305, Limits{})
	c.record("price 1")
	if got, err := c.opens(m, insider.record("price 2")); err != nil || got != "price 2" {
		t.Fatalf("a forged record has to open, or this test shows nothing: %q, %v", got, err)
	}
	if err := m.Check(c.seal.Point()); !errors.Is(err, ErrMark) {
		t.Errorf("forged record: %v", err)
	}

	m = c.member(t)
	c.record("dropped at the end")
	if err := m.Check(c.seal.Point()); !errors.Is(err, ErrMark) {
		t.Errorf("dropped record: %v", err)
	}

	m = c.member(t)
	point := c.seal.Point()
	if _, err := c.opens(m, c.record("delayed until behind the mark")); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(point); !errors.Is(err, ErrMark) {
		t.Errorf("mark that came late: %v", err)
	}
	point = c.seal.Point()
	point.ID++
	if err := m.Check(point); !errors.Is(err, ErrMark) {
		t.Errorf("mark of another group: %v", err)
	}
}

func TestGroupKeysDifferFromSessionKeys(t *testing.T) {
	secret := groupSecret(1)
	key, iv := secret.keys(suite.AES128GCM, labelKey, labelIV)
	groupKey, groupIV := secret.keys(suite.AES128GCM, labelGroupKey, labelGroupIV)
	if bytes.Equal(key, groupKey) || bytes.Equal(iv, groupIV) {
		t.Error("a group's key is that of a session with the same secret")
	}
}

func TestGroupRekeyDue(t *testing.T) {
	c := newClub(suite.AES128GCM, Limits{Records: 2, Bytes: 100, Age: 5 * time.Second})
	if c.seal.RekeyDue(1000) {
		t.Error("due before the first record")
	}
	c.record("1")
	if c.seal.RekeyDue(1004) {
		t.Error("due after one record of two, 4 s of 5")
	}
	if !c.seal.RekeyDue(1005) {
		t.Error("not due after its time")
	}
	c.record("2")
	if !c.seal.RekeyDue(1000) {
		t.Error("not due after its records")
	}
	c = newClub(suite.AES128GCM, Limits{Bytes: 100})
	c.seal.RekeyDue(1000)
	if c.record(strings.Repeat("x", 100)); !c.seal.RekeyDue(1000) {
		t.Error("not due after its bytes")
	}
}

func TestGroupLimits(t *testing.T) {
	c := newClub(suite.AES128GCM, Limits{})
	c.seal.counter, c.seal.point.Next = MaxReceiverCount-1, MaxReceiverCount-1
	m := c.member(t)
	if _, err := c.opens(m, c.record("the last")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.opens(m, make([]byte, 100)); !errors.Is(err, ErrSpent) {
		t.Errorf("after the limit: %v", err)
	}
	mustPanic(t, "Seal after the limit", func() { c.record("") })
}

func TestClearedGroup(t *testing.T) {
	c := newClub(suite.AES256GCM, Limits{})
	m := c.member(t)
	msg := c.record("x")
	if _, err := c.opens(m, msg); err != nil {
		t.Fatal(err)
	}
	c.seal.Clear(c.from)
	m.Clear(c.to)
	if c.from.Stats().Kept != 0 || c.to.Stats().Kept != 0 {
		t.Error("a cleared group keeps a cipher")
	}
	for _, g := range []*group{&c.seal.group, &m.group} {
		if g.secret.bytes != [SecretSize]byte{} || g.key != [suite.MaxKeySize]byte{} || g.iv != [suite.NonceSize]byte{} {
			t.Error("a cleared group keeps a secret")
		}
	}
	if _, err := c.opens(m, msg); err == nil {
		t.Error("a cleared group opens")
	}
	mustPanic(t, "Seal after Clear", func() { c.record("") })
	mustPanic(t, "Seal before Init", func() { new(GroupSealer).Seal(NewPool(0, 0), nil, groupKind, nil) })
}

// TestPanicNeverReusesGroupNonce: both counters are stored before the cipher is called.
func TestPanicNeverReusesGroupNonce(t *testing.T) {
	c := newClub(suite.AES128GCM, Limits{})
	c.record("")
	var seen []uint64
	c.seal.aead = panicking{&seen}
	for range 3 {
		mustPanic(t, "the cipher", func() { c.record("x") })
	}
	if len(seen) != 3 || seen[0] == seen[1] || seen[1] == seen[2] || seen[0] == seen[2] {
		t.Errorf("nonces after panics: %x", seen)
	}
	if p := c.seal.Point(); p.Next != 4 || p.Next != c.seal.counter {
		t.Errorf("the header's counter is %d, the nonce's %d", p.Next, c.seal.counter)
	}
}

func TestGroupSecrets(t *testing.T) {
	for _, n := range []int{0, 31, 33} {
		if _, ok := ParseSecret(make([]byte, n)); ok {
			t.Errorf("a secret of %d bytes", n)
		}
	}
	if _, err := NewSecret(strings.NewReader("too few")); err == nil {
		t.Error("a secret without randomness")
	}
}

// FuzzGroupOpen: no input opens that was not sealed, none panics, and a refused
// record does not move the member on.
func FuzzGroupOpen(f *testing.F) {
	for _, id := range suite.All() {
		msg := newClub(id, Limits{}).record("tick")
		f.Add(byte(id), msg)
		f.Add(byte(id), msg[:GroupHeaderSize])
		f.Add(byte(id), append(bytes.Clone(msg), 0))
		f.Add(byte(id), []byte{groupKind})
	}
	f.Fuzz(func(t *testing.T, n byte, msg []byte) {
		id := suite.ID(n)
		if !id.Valid() || id == suite.Plain {
			return
		}
		c := newClub(id, Limits{})
		m := c.member(t)
		genuine := bytes.Equal(msg, c.record("tick"))
		got, err := c.opens(m, msg)
		if (err == nil) != genuine || m.Settled() == genuine {
			t.Errorf("opened %q, %v", got, err)
		}
	})
}
