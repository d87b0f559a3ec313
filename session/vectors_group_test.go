package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// vectorGroup is a group's key and what is sealed under it. Values but names and
// numbers are hex.
type vectorGroup struct {
	About  []string `json:"about"`
	Suite  string   `json:"suite"`
	ID     uint32   `json:"id"`
	Secret string   `json:"secret"`
	Key    string   `json:"key"`
	IV     string   `json:"iv"`
	// By counter: whole messages, and the chain before them.
	Messages  map[int]string `json:"messages"`
	AllSHA256 string         `json:"messages_0_to_299_sha256"`
	Chains    map[int]string `json:"chains"`
	// Plaintexts of records of a session: two members that come in, a mark, an end.
	GroupKeys  map[int]string `json:"group_keys"`
	GroupMarks map[int]string `json:"group_marks"`
	GroupLeave string         `json:"group_leave"`
}

var vectorGroupAbout = []string{
	"A group's key of docs/protocol.md section 4.5 and its first 300 group records. Binary values are hex; messages begin with the kind byte.",
	"The plaintext of record n (counter n) is n bytes long and its byte i is (n + i) mod 256, so it is no Batch.",
	"chains are by the counter of the record that they stand before; group_keys, group_marks and group_leave are plaintexts of records of a session.",
}

const vectorGroupID = 70_000

// groupSeal makes the group record with that counter, by the specification alone.
func (r *reference) groupSeal(secret []byte, counter uint64, plaintext []byte) []byte {
	key, iv := r.groupKeys(secret)
	aead, err := r.suite.New(key)
	must(r.t, err)
	header := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{0x11}, vectorGroupID), counter)
	for i := range 8 {
		iv[4+i] ^= header[5+i]
	}
	return append(header, aead.Seal(nil, iv, plaintext, header)...)
}

func (r *reference) groupKeys(secret []byte) (key, iv []byte) {
	if size := r.suite.KeySize(); size > 0 {
		key = r.expand(secret, "sealcast v1 group key "+r.suite.String(), size)
	}
	return key, r.expand(secret, "sealcast v1 group iv "+r.suite.String(), 12)
}

// groupFile makes the vector by the reference implementation.
func (r *reference) groupFile() vectorGroup {
	secret := fixedBytes("group secret", 32)
	key, iv := r.groupKeys(secret)
	v := vectorGroup{
		About: vectorGroupAbout, Suite: r.suite.String(), ID: vectorGroupID,
		Secret: hex.EncodeToString(secret), Key: hex.EncodeToString(key), IV: hex.EncodeToString(iv),
		Messages: map[int]string{}, Chains: map[int]string{}, GroupKeys: map[int]string{}, GroupMarks: map[int]string{},
		GroupLeave: r.plaintext(&wire.ServerFrame{Message: &wire.ServerFrame_GroupLeave{GroupLeave: &wire.GroupLeave{Id: vectorGroupID}}}),
	}
	all, chain := sha256.New(), make([]byte, 32)
	for n := range vectorRecords {
		v.noteChain(r, n, secret, chain)
		msg := r.groupSeal(secret, uint64(n), vectorPlaintext(n))
		all.Write(msg)
		if slices.Contains([]int{0, 1, 2, 17, 255, 256, 299}, n) {
			v.Messages[n] = hex.EncodeToString(msg)
		}
		sum := sha256.Sum256(join(chain, msg))
		chain = sum[:]
	}
	v.noteChain(r, vectorRecords, secret, chain)
	v.AllSHA256 = hex.EncodeToString(all.Sum(nil))
	return v
}

// noteChain stores the chain before record n, where members come in, and marks.
func (v *vectorGroup) noteChain(r *reference, n int, secret, chain []byte) {
	if slices.Contains([]int{0, 1, 255, 300}, n) {
		v.Chains[n] = hex.EncodeToString(chain)
	}
	if n == 0 || n == 255 {
		v.GroupKeys[n] = r.plaintext(&wire.ServerFrame{Message: &wire.ServerFrame_GroupKey{GroupKey: &wire.GroupKey{
			Id: vectorGroupID, Secret: secret, Suite: r.suite.String(), NextCounter: uint64(n), Chain: chain}}})
	}
	if n == 1 || n == vectorRecords {
		v.GroupMarks[n] = r.plaintext(&wire.ServerFrame{Message: &wire.ServerFrame_GroupMark{GroupMark: &wire.GroupMark{
			Id: vectorGroupID, Counter: uint64(n), Chain: chain}}})
	}
}

func (r *reference) plaintext(f *wire.ServerFrame) string {
	out, err := wire.AppendServerFrame(nil, f)
	must(r.t, err)
	return hex.EncodeToString(out)
}

// TestGroupVectors is TestVectors for groups.
func TestGroupVectors(t *testing.T) {
	for _, id := range suite.All() {
		t.Run(id.String(), func(t *testing.T) {
			r := &reference{t: t, suite: id}
			var v vectorGroup
			must(t, json.Unmarshal(storedFile(t, "group-"+id.String()+".json", r.groupFile()), &v))
			v.check(t, id)
		})
	}
}

// check seals the vector's records with the product, and opens them in two
// sessions of the product: one there from the start, one that comes in later.
func (v *vectorGroup) check(t *testing.T, id suite.ID) {
	secret, err := record.NewSecret(bytes.NewReader(unhex(t, v.Secret)))
	must(t, err)
	var sealer record.GroupSealer
	sealer.Init(id, v.ID, secret, record.Limits{})
	pool, all := record.NewPool(0, 0), sha256.New()
	early, late := newPair(t, options{suite: id}).establish(t).client, newPair(t, options{suite: id}).establish(t).client
	admits(t, early, unhex(t, v.GroupKeys[0]))
	for n := range vectorRecords {
		v.checkChain(t, sealer.Point())
		if n == 255 {
			admits(t, late, unhex(t, v.GroupKeys[255]))
		}
		msg := sealer.Seal(pool, nil, 0x11, vectorPlaintext(n))
		all.Write(msg)
		if whole, ok := v.Messages[n]; ok {
			same(t, "group record "+strconv.Itoa(n), msg, whole)
		}
		opens(t, early, msg, wire.KindGroupRecord, vectorPlaintext(n))
		if n >= 255 {
			opens(t, late, msg, wire.KindGroupRecord, vectorPlaintext(n))
		}
		if n == 0 {
			admits(t, early, unhex(t, v.GroupMarks[1]))
		}
	}
	v.checkChain(t, sealer.Point())
	same(t, "hash of the records", all.Sum(nil), v.AllSHA256)
	for _, s := range []*Session{early, late} {
		admits(t, s, unhex(t, v.GroupMarks[vectorRecords]))
		admits(t, s, unhex(t, v.GroupLeave))
	}
}

func (v *vectorGroup) checkChain(t *testing.T, at record.GroupPoint) {
	t.Helper()
	n := int(at.Next)
	if want, ok := v.Chains[n]; ok {
		same(t, "chain before record "+strconv.Itoa(n), at.Chain[:], want)
	}
	if want, ok := v.GroupMarks[n]; ok {
		same(t, "mark", wire.AppendGroupMarkFrame(nil, at.ID, at.Next, at.Chain[:]), want)
	}
	if want, ok := v.GroupKeys[n]; ok {
		same(t, "key", wire.AppendGroupKeyFrame(nil, at.ID, unhex(t, v.Secret), v.Suite, at.Next, at.Chain[:]), want)
	}
}

// admits passes the plaintext of a record, about the group alone, to the session.
func admits(t *testing.T, s *Session, plaintext []byte) {
	t.Helper()
	f, err := wire.ParseServerFrame(plaintext)
	must(t, err)
	if done, err := s.Admit(wire.KindRecord, f); err != nil || !done {
		t.Fatalf("%v: dealt with: %v, %v", f, done, err)
	}
}
