package session

import (
	"bytes"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

var update = flag.Bool("update", false, "write testdata/vectors/{session,resumption,group}-*.json anew")

const vectorFolder = "../testdata/vectors"

// vectorRecords is how many records a vector has under the first key.
const vectorRecords = 300

// vectorFile is one session from fixed keys. All values but names are hex.
type vectorFile struct {
	About    []string `json:"about"`
	Suite    string   `json:"suite"`
	Role     string   `json:"role"`
	Realm    string   `json:"realm"`
	Offered  []string `json:"offered"`
	Selected string   `json:"selected"`
	Prologue string   `json:"prologue"`

	GatewayStaticPrivate    string `json:"gateway_static_private"`
	GatewayStaticPublic     string `json:"gateway_static_public"`
	Pin                     string `json:"pin"`
	ClientEphemeralPrivate  string `json:"client_ephemeral_private"`
	GatewayEphemeralPrivate string `json:"gateway_ephemeral_private"`
	KEMSeed                 string `json:"ml_kem_seed_d_z"`
	KEMMessage              string `json:"ml_kem_encapsulation_randomness_m"`

	Ticket *vectorTicket `json:"ticket,omitempty"` // of a resumption

	Handshake    vectorHandshake `json:"handshake"`
	ToGateway    vectorDirection `json:"client_to_gateway"`
	ToClient     vectorDirection `json:"gateway_to_client"`
	ResumeMaster string          `json:"resume_master"`
}

// vectorTicket is what a resumption begins with: a ticket of the session in
// the file named, which has the same static key.
type vectorTicket struct {
	From      string `json:"from"`
	TicketKey string `json:"ticket_key"`
	Nonce     string `json:"nonce"`
	PSK       string `json:"psk"`
	Ticket    string `json:"ticket"`
}

type vectorHandshake struct {
	Init      string `json:"init"`
	Reply     string `json:"reply"`
	Hash      string `json:"h"`
	SplitC    string `json:"k_c"`
	SplitS    string `json:"k_s"`
	KEMSecret string `json:"ml_kem_secret"`
}

// vectorDirection is the keys and messages of one direction.
type vectorDirection struct {
	Keys [2]vectorKey `json:"keys"` // before and after the key update
	// Whole messages by counter under the first key.
	Messages  map[int]string `json:"messages"`
	AllSHA256 string         `json:"messages_0_to_299_sha256"`
	KeyUpdate string         `json:"key_update"`
	After     []string       `json:"messages_after_key_update"`
	Goodbye   string         `json:"goodbye"`
}

type vectorKey struct {
	Secret string `json:"secret"`
	Key    string `json:"key"`
	IV     string `json:"iv"`
}

var vectorAbout = []string{
	"One session of docs/protocol.md from fixed keys. Binary values are hex; messages begin with the kind byte.",
	"The plaintext of record n (counter n under the first key) is n bytes long and its byte i is (n + i) mod 256.",
	"Messages 0 to 299 follow each other under the first key; messages_0_to_299_sha256 is over their concatenation.",
	"The key update has counter 300; messages_after_key_update continue with the plaintexts of n = 300, 301, 302 and counters 0, 1, 2.",
	"The goodbye has counter 3 and the plaintext 'bye'.",
}

// vectorPlaintext is the plaintext of record n.
func vectorPlaintext(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(n + i)
	}
	return out
}

// vectorReference fixes the keys of a vector.
func vectorReference(t *testing.T, id suite.ID, hybrid bool) (*reference, Binding) {
	b := Binding{Role: RolePush, Realm: "vectors", Offered: []string{id.Protocol()}, Selected: id.Protocol()}
	if id != suite.Plain {
		b.Offered = []string{"sealcast.v1.chacha20-poly1305", "sealcast.v1.aes-256-gcm", "sealcast.v1.aes-128-gcm", "sealcast.v1.sm4-gcm"}
	}
	r := &reference{
		t: t, suite: id,
		prologue:         referencePrologue("push", b.Realm, b.Offered, b.Selected),
		clientEphemeral:  fixedBytes("client ephemeral", 32),
		gatewayEphemeral: fixedBytes("gateway ephemeral", 32),
		gatewayStatic:    fixedBytes("gateway static", 32),
	}
	if hybrid {
		r.kemSeed, r.kemMessage = fixedBytes("ML-KEM seed", 64), fixedBytes("ML-KEM message", 32)
	}
	r.run(0)
	return r, b
}

// fixedBytes are bytes that anybody can see were not chosen.
func fixedBytes(name string, n int) []byte {
	var out []byte
	for i := byte(0); len(out) < n; i++ {
		sum := sha256.Sum256(append([]byte("sealcast vector "+name), i))
		out = append(out, sum[:]...)
	}
	return out[:n]
}

// file makes the vector by the reference implementation.
func (r *reference) file(b Binding) vectorFile {
	return vectorFile{
		About: vectorAbout, Suite: r.suite.String(), Role: b.Role.String(), Realm: b.Realm, Offered: b.Offered, Selected: b.Selected,
		Prologue:                hex.EncodeToString(r.prologue),
		GatewayStaticPrivate:    hex.EncodeToString(r.gatewayStatic),
		GatewayStaticPublic:     hex.EncodeToString(r.public(r.gatewayStatic)),
		Pin:                     PublicKey(r.public(r.gatewayStatic)).String(),
		ClientEphemeralPrivate:  hex.EncodeToString(r.clientEphemeral),
		GatewayEphemeralPrivate: hex.EncodeToString(r.gatewayEphemeral),
		KEMSeed:                 hex.EncodeToString(r.kemSeed),
		KEMMessage:              hex.EncodeToString(r.kemMessage),
		Handshake: vectorHandshake{
			Init: hex.EncodeToString(r.init), Reply: hex.EncodeToString(r.reply), Hash: hex.EncodeToString(r.hash),
			SplitC: hex.EncodeToString(r.splitClient), SplitS: hex.EncodeToString(r.splitGateway), KEMSecret: hex.EncodeToString(r.kem),
		},
		ToGateway:    r.direction(r.toGateway),
		ToClient:     r.direction(r.toClient),
		ResumeMaster: hex.EncodeToString(r.resumeMaster()),
	}
}

func (r *reference) direction(secret []byte) vectorDirection {
	next := r.next(secret)
	d := vectorDirection{Messages: map[int]string{}}
	for i, s := range [][]byte{secret, next} {
		key, iv := r.keys(s)
		d.Keys[i] = vectorKey{hex.EncodeToString(s), hex.EncodeToString(key), hex.EncodeToString(iv)}
	}
	all := sha256.New()
	for n := range vectorRecords {
		msg := r.seal(secret, uint64(n), 0x10, vectorPlaintext(n))
		all.Write(msg)
		if slices.Contains([]int{0, 1, 2, 17, 255, 256, 299}, n) {
			d.Messages[n] = hex.EncodeToString(msg)
		}
	}
	d.AllSHA256 = hex.EncodeToString(all.Sum(nil))
	d.KeyUpdate = hex.EncodeToString(r.seal(secret, vectorRecords, 0x12, nil))
	for i := range 3 {
		d.After = append(d.After, hex.EncodeToString(r.seal(next, uint64(i), 0x10, vectorPlaintext(vectorRecords+i))))
	}
	d.Goodbye = hex.EncodeToString(r.seal(next, 3, 0x13, []byte("bye")))
	return d
}

// TestVectors checks the stored files against the reference implementation,
// and the product against the stored files.
func TestVectors(t *testing.T) {
	for _, id := range suite.All() {
		for name, hybrid := range map[string]bool{"classical": false, "hybrid": true} {
			t.Run(id.String()+"-"+name, func(t *testing.T) {
				r, b := vectorReference(t, id, hybrid)
				v := storedVector(t, "session-"+id.String()+"-"+name+".json", r.file(b))
				p := vectorHandshakeRun(t, v, b, hybrid)
				v.ToGateway.check(t, p.client, p.gateway)
				v.ToClient.check(t, p.gateway, p.client)
			})
		}
	}
}

// storedVector reads the stored file, which must be what the reference
// implementation wants; with -update it becomes that.
func storedVector(t *testing.T, name string, want vectorFile) (v vectorFile) {
	t.Helper()
	must(t, json.Unmarshal(storedFile(t, name, want), &v))
	return v
}

func storedFile(t *testing.T, name string, want any) []byte {
	t.Helper()
	path := filepath.Join(vectorFolder, name)
	text, err := json.MarshalIndent(want, "", "  ")
	must(t, err)
	text = append(text, '\n')
	if *update {
		must(t, os.WriteFile(path, text, 0o644))
	}
	stored, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(stored, text) {
		t.Fatalf("%s differs from the reference implementation: go test ./session -update", path)
	}
	return stored
}

// vectorHandshakeRun drives the product with the vector's keys.
func vectorHandshakeRun(t *testing.T, v vectorFile, b Binding, hybrid bool) *pair {
	t.Helper()
	p := vectorPair(t, v, b, hybrid, nil, nil)
	init, err := start(p.client)
	must(t, err)
	same(t, "init", init, v.Handshake.Init)
	reply, err := receive(p.gateway, init)
	must(t, err)
	same(t, "reply", reply, v.Handshake.Reply)
	_, err = receive(p.client, reply)
	must(t, err)
	return p
}

// vectorPair makes both sessions with the vector's keys for randomness; the
// gateway's goes on with more.
func vectorPair(t *testing.T, v vectorFile, b Binding, hybrid bool, tickets *Tickets, more []byte) *pair {
	t.Helper()
	static, err := GenerateStaticKey(bytes.NewReader(unhex(t, v.GatewayStaticPrivate)))
	must(t, err)
	pin, err := ParsePin(v.Pin)
	must(t, err)
	cc := &ClientConfig{Pins: []PublicKey{pin}, PostQuantum: PostQuantumOff}
	cc.Rand = bytes.NewReader(join(unhex(t, v.KEMSeed), unhex(t, v.ClientEphemeralPrivate)))
	gc := &GatewayConfig{Key: static, Tickets: tickets, Rand: bytes.NewReader(join(unhex(t, v.GatewayEphemeralPrivate), more))}
	if hybrid {
		cc.PostQuantum = PostQuantumRequired
		gc.encapsulate = func(key *mlkem.EncapsulationKey768) (shared, ciphertext []byte) {
			shared, ciphertext, err := mlkemtest.Encapsulate768(key, unhex(t, v.KEMMessage))
			must(t, err)
			return shared, ciphertext
		}
	}
	p := &pair{}
	p.client, err = NewClient(cc, record.NewPool(0, 0), b)
	must(t, err)
	p.gateway, err = NewGateway(gc, record.NewPool(0, 0), b)
	must(t, err)
	return p
}

// check sends the vector's messages from one session to the other.
func (d vectorDirection) check(t *testing.T, from, to *Session) {
	t.Helper()
	all := sha256.New()
	for n := range vectorRecords {
		msg := from.Seal(nil, wire.KindRecord, vectorPlaintext(n))
		all.Write(msg)
		if whole, ok := d.Messages[n]; ok {
			same(t, "record", msg, whole)
		}
		opens(t, to, msg, wire.KindRecord, vectorPlaintext(n))
	}
	same(t, "hash of the records", all.Sum(nil), d.AllSHA256)
	msg := from.AppendKeyUpdate(nil, 0)
	same(t, "key update", msg, d.KeyUpdate)
	opens(t, to, msg, wire.KindKeyUpdate, nil)
	for i, want := range d.After {
		msg := from.Seal(nil, wire.KindRecord, vectorPlaintext(vectorRecords+i))
		same(t, "record after the key update", msg, want)
		opens(t, to, msg, wire.KindRecord, vectorPlaintext(vectorRecords+i))
	}
	msg = from.Seal(nil, wire.KindGoodbye, []byte("bye"))
	same(t, "goodbye", msg, d.Goodbye)
	opens(t, to, msg, wire.KindGoodbye, []byte("bye"))
}

func opens(t *testing.T, s *Session, msg []byte, kind wire.Kind, want []byte) {
	t.Helper()
	got, plaintext, err := s.Open(bytes.Clone(msg))
	if err != nil || got != kind || !bytes.Equal(plaintext, want) {
		t.Fatalf("opened kind %#x, %q, %v", got, plaintext, err)
	}
}

func same(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Fatalf("%s is %x, want %s", what, got, want)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}
