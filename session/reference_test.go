package session

// A second implementation of the handshake and the key schedule, written from
// the specification with primitives alone: no flynn/noise, no crypto/record.
// The vectors come from it, and the product must produce the same bytes.

import (
	"crypto/hkdf"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/crypto/curve25519"

	"github.com/sealcast/sealcast/crypto/suite"
)

// reference is everything that fixes a session, and what follows from it.
type reference struct {
	t testing.TB

	suite                                suite.ID
	prologue                             []byte
	clientEphemeral, gatewayEphemeral    []byte // private keys
	gatewayStatic                        []byte // private key
	kemSeed, kemMessage                  []byte // empty: not hybrid
	psk, ticket                          []byte // empty: a full handshake
	init, reply                          []byte
	hash, splitClient, splitGateway, kem []byte
	toGateway, toClient                  []byte // first secrets S
}

// noiseState is a Noise SymmetricState (Noise section 5.2) with its CipherState.
type noiseState struct {
	t        testing.TB
	ck, h, k []byte
	n        uint64
}

func (s *noiseState) mixHash(data []byte) {
	sum := sha256.Sum256(append(append([]byte(nil), s.h...), data...))
	s.h = sum[:]
}

func (s *noiseState) mixKey(ikm []byte) {
	out := noiseHKDF(s.t, s.ck, ikm)
	s.ck, s.k, s.n = out[:32], out[32:64], 0
}

func (s *noiseState) encryptAndHash(plaintext []byte) []byte {
	aead, err := chacha20poly1305.New(s.k)
	must(s.t, err)
	nonce := make([]byte, 12)
	binary.LittleEndian.PutUint64(nonce[4:], s.n)
	s.n++
	out := aead.Seal(nil, nonce, plaintext, s.h)
	s.mixHash(out)
	return out
}

func (s *noiseState) mixKeyAndHash(ikm []byte) {
	out := noiseHKDF(s.t, s.ck, ikm)
	s.ck = out[:32]
	s.mixHash(out[32:64])
	s.k, s.n = out[64:], 0
}

// noiseHKDF is HKDF of Noise section 4.3 with three outputs of 32 bytes, of
// which the first two are those of HKDF with two.
func noiseHKDF(t testing.TB, ck, ikm []byte) []byte {
	out, err := hkdf.Key(sha256.New, ikm, ck, "", 96)
	must(t, err)
	return out
}

// resume computes what run does, for a resumption by r.ticket and r.psk.
func (r *reference) resume(gatewayFlags byte) {
	name := sha256.Sum256([]byte("Noise_NNpsk0_25519_ChaChaPoly_SHA256"))
	s := &noiseState{t: r.t, ck: name[:], h: name[:]}
	sum := sha256.Sum256(r.ticket)
	r.prologue = join(r.prologue, []byte{0}, sum[:])
	s.mixHash(r.prologue)

	// -> psk, e, ClientHello encrypted; with a psk the e token mixes the key too
	ePublic := r.public(r.clientEphemeral)
	hello, kemReply := r.hellos(gatewayFlags)
	s.mixKeyAndHash(r.psk)
	s.mixHash(ePublic)
	s.mixKey(ePublic)
	length := []byte{byte(len(r.ticket) >> 8), byte(len(r.ticket))}
	r.init = join([]byte{0x03}, length, r.ticket, ePublic, s.encryptAndHash(hello))

	// <- e, ee, ServerHello encrypted
	re := r.public(r.gatewayEphemeral)
	s.mixHash(re)
	s.mixKey(re)
	s.mixKey(r.dh(r.gatewayEphemeral, ePublic))
	r.reply = join([]byte{0x04}, re, s.encryptAndHash(kemReply))
	r.split(s)
}

// run computes messages, handshake hash, Split keys and first secrets.
func (r *reference) run(gatewayFlags byte) {
	name := []byte("Noise_NX_25519_ChaChaPoly_SHA256")
	s := &noiseState{t: r.t, ck: name, h: name}
	s.mixHash(r.prologue)

	// -> e, ClientHello in clear
	ePublic := r.public(r.clientEphemeral)
	hello, kemReply := r.hellos(gatewayFlags)
	s.mixHash(ePublic)
	s.mixHash(hello)
	r.init = join([]byte{0x01}, ePublic, hello)

	// <- e, ee, s, es, ServerHello encrypted
	re := r.public(r.gatewayEphemeral)
	s.mixHash(re)
	s.mixKey(r.dh(r.gatewayEphemeral, ePublic))
	static := s.encryptAndHash(r.public(r.gatewayStatic))
	s.mixKey(r.dh(r.gatewayStatic, ePublic))
	r.reply = join([]byte{0x02}, re, static, s.encryptAndHash(kemReply))
	r.split(s)
}

// split takes the results out of a finished Noise state (Noise section 5.2).
func (r *reference) split(s *noiseState) {
	out := noiseHKDF(r.t, s.ck, nil)
	r.hash, r.splitClient, r.splitGateway = s.h, out[:32], out[32:64]
	r.toGateway = r.extract(r.splitClient)
	r.toClient = r.extract(r.splitGateway)
}

// hellos makes both payloads and the ML-KEM secret.
func (r *reference) hellos(gatewayFlags byte) (client, gateway []byte) {
	if len(r.kemSeed) == 0 {
		return []byte{0}, []byte{gatewayFlags}
	}
	key, err := mlkem.NewDecapsulationKey768(r.kemSeed)
	must(r.t, err)
	shared, ciphertext, err := mlkemtest.Encapsulate768(key.EncapsulationKey(), r.kemMessage)
	must(r.t, err)
	r.kem = shared
	return join([]byte{1}, key.EncapsulationKey().Bytes()), join([]byte{gatewayFlags | 1}, ciphertext)
}

func (r *reference) public(private []byte) []byte { return r.dh(private, curve25519.Basepoint) }

func (r *reference) dh(private, public []byte) []byte {
	out, err := curve25519.X25519(private, public)
	must(r.t, err)
	return out
}

// extract is S of a direction.
func (r *reference) extract(splitKey []byte) []byte {
	out, err := hkdf.Extract(sha256.New, join(splitKey, r.kem), r.hash)
	must(r.t, err)
	return out
}

func (r *reference) expand(secret []byte, label string, size int) []byte {
	out, err := hkdf.Expand(sha256.New, secret, label, size)
	must(r.t, err)
	return out
}

// next is S after a key update.
func (r *reference) next(secret []byte) []byte { return r.expand(secret, "sealcast v1 next", 32) }

// resumeMaster is what tickets' keys come from.
func (r *reference) resumeMaster() []byte {
	return r.expand(r.toClient, "sealcast v1 resume", 32)
}

// pskOf is the psk of a ticket with that nonce.
func (r *reference) pskOf(nonce []byte) []byte {
	return r.expand(r.resumeMaster(), "sealcast v1 psk"+string(nonce), 32)
}

// keys are the record key and IV under a secret.
func (r *reference) keys(secret []byte) (key, iv []byte) {
	if size := r.suite.KeySize(); size > 0 {
		key = r.expand(secret, "sealcast v1 key "+r.suite.String(), size)
	}
	return key, r.expand(secret, "sealcast v1 iv "+r.suite.String(), 12)
}

// seal makes the record with that counter.
func (r *reference) seal(secret []byte, counter uint64, kind byte, plaintext []byte) []byte {
	key, iv := r.keys(secret)
	aead, err := r.suite.New(key)
	must(r.t, err)
	var number [12]byte
	binary.BigEndian.PutUint64(number[4:], counter)
	for i := range iv {
		iv[i] ^= number[i]
	}
	return aead.Seal([]byte{kind}, iv, plaintext, []byte{kind})
}

// referencePrologue is the prologue by the specification's own words.
func referencePrologue(role, realm string, offered []string, selected string) []byte {
	return []byte("sealcast.v1\x00" + role + "\x00" + realm + "\x00" + strings.Join(offered, ",") + "\x00" + selected)
}

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
