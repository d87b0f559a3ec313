package suite

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestNames(t *testing.T) {
	for _, id := range All() {
		if got, ok := ByName(id.String()); !ok || got != id {
			t.Errorf("ByName(%q) = %v, %v", id.String(), got, ok)
		}
		if got, ok := ByProtocol(id.Protocol()); !ok || got != id {
			t.Errorf("ByProtocol(%q) = %v, %v", id.Protocol(), got, ok)
		}
	}
	for _, name := range []string{"", "aes", "AES-128-GCM", "sealcast.v1.plain", "suite(0)"} {
		if id, ok := ByName(name); ok {
			t.Errorf("ByName(%q) = %v", name, id)
		}
	}
	for _, token := range []string{"", "plain", "sealcast.v1.", "sealcast.v2.plain", "Sealcast.v1.plain", "sealcast.v1.plain "} {
		if id, ok := ByProtocol(token); ok {
			t.Errorf("ByProtocol(%q) = %v", token, id)
		}
	}
}

func TestKeySizes(t *testing.T) {
	want := map[ID]int{AES128GCM: 16, AES256GCM: 32, ChaCha20Poly1305: 32, SM4GCM: 16, Plain: 0}
	for id, size := range want {
		if id.KeySize() != size {
			t.Errorf("%v: key of %d bytes, want %d", id, id.KeySize(), size)
		}
		aead, err := id.New(make([]byte, size))
		if err != nil {
			t.Fatalf("%v: %v", id, err)
		}
		if aead.Overhead() != id.Overhead() || aead.NonceSize() != NonceSize {
			t.Errorf("%v: overhead %d, nonce %d", id, aead.Overhead(), aead.NonceSize())
		}
		if _, err := id.New(make([]byte, size+1)); err == nil {
			t.Errorf("%v: a key of %d bytes is accepted", id, size+1)
		}
	}
	for _, id := range []ID{0, Plain + 1} {
		if _, err := id.New(nil); err == nil {
			t.Errorf("%v can be made", id)
		}
	}
}

// vector is a published test case of an AEAD.
type vector struct {
	source                                        string
	id                                            ID
	key, nonce, aad, plaintext, ciphertext, tagOf string
}

const (
	gcmPlaintext = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" +
		"1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
	gcmAAD   = "feedfacedeadbeeffeedfacedeadbeefabaddad2"
	gcmNonce = "cafebabefacedbaddecaf888"
)

var published = []vector{
	{"GCM specification, test case 2", AES128GCM, "00000000000000000000000000000000", "000000000000000000000000", "",
		"00000000000000000000000000000000", "0388dace60b6a392f328c2b971b2fe78", "ab6e47d42cec13bdf53a67b21257bddf"},
	{"GCM specification, test case 4", AES128GCM, "feffe9928665731c6d6a8f9467308308", gcmNonce, gcmAAD, gcmPlaintext,
		"42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e" +
			"21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091", "5bc94fbc3221a5db94fae95ae7121a47"},
	{"GCM specification, test case 16", AES256GCM, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
		gcmNonce, gcmAAD, gcmPlaintext,
		"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa" +
			"8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662", "76fc6ece0f4e1768cddf8853bb2d551b"},
	{"RFC 8439 section 2.8.2", ChaCha20Poly1305, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
		"070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
		"4c616469657320616e642047656e746c656d656e206f662074686520636c6173" +
			"73206f66202739393a204966204920636f756c64206f6666657220796f75206f" +
			"6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73" +
			"637265656e20776f756c642062652069742e",
		"d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6" +
			"3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36" +
			"92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc" +
			"3ff4def08e4b7a9de576d26586cec64b6116", "1ae10b594f09e26a7e902ecbd0600691"},
	{"RFC 8998 appendix A.1", SM4GCM, "0123456789abcdeffedcba9876543210", "00001234567800000000abcd",
		"feedfacedeadbeeffeedfacedeadbeefabaddad2",
		"aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd" +
			"eeeeeeeeeeeeeeeeffffffffffffffffeeeeeeeeeeeeeeeeaaaaaaaaaaaaaaaa",
		"17f399f08c67d5ee19d0dc9969c4bb7d5fd46fd3756489069157b282bb200735" +
			"d82710ca5c22f0ccfa7cbf93d496ac15a56834cbcf98c397b4024a2691233b8d", "83de3541e4c2b58177e065a9bf7b62ec"},
}

func TestPublishedVectors(t *testing.T) {
	for _, v := range published {
		aead, err := v.id.New(unhex(t, v.key))
		if err != nil {
			t.Fatalf("%s: %v", v.source, err)
		}
		nonce, aad, plaintext := unhex(t, v.nonce), unhex(t, v.aad), unhex(t, v.plaintext)
		want := unhex(t, v.ciphertext+v.tagOf)
		sealed := aead.Seal(nil, nonce, plaintext, aad)
		if !bytes.Equal(sealed, want) {
			t.Errorf("%s: sealed\n%x, want\n%x", v.source, sealed, want)
		}
		opened, err := aead.Open(nil, nonce, want, aad)
		if err != nil || !bytes.Equal(opened, plaintext) {
			t.Errorf("%s: opened %x, %v", v.source, opened, err)
		}
		for i := range want {
			want[i] ^= 1
			if _, err := aead.Open(nil, nonce, want, aad); err == nil {
				t.Errorf("%s: opens with byte %d flipped", v.source, i)
			}
			want[i] ^= 1
		}
	}
}

// TestInPlaceWithoutAllocation holds for every suite and for sizes around the
// cipher's block boundaries.
func TestInPlaceWithoutAllocation(t *testing.T) {
	for _, id := range All() {
		aead, err := id.New(make([]byte, id.KeySize()))
		if err != nil {
			t.Fatal(err)
		}
		nonce, aad := make([]byte, NonceSize), []byte{0x10}
		for _, size := range []int{0, 1, 15, 16, 17, 64, 1024, 16<<10 + 5} {
			want := aead.Seal(nil, nonce, make([]byte, size), aad)
			buf := make([]byte, size, size+id.Overhead())
			allocs := testing.AllocsPerRun(10, func() {
				clear(buf)
				sealed := aead.Seal(buf[:0], nonce, buf, aad)
				if !bytes.Equal(sealed, want) {
					t.Errorf("%v: %d bytes sealed in place differ", id, size)
				}
				if _, err := aead.Open(sealed[:0], nonce, sealed, aad); err != nil {
					t.Errorf("%v: %d bytes do not open in place", id, size)
				}
			})
			if allocs != 0 {
				t.Errorf("%v: %v allocations at %d bytes", id, allocs, size)
			}
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
