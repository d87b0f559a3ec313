package session

import (
	"crypto/mlkem"

	"github.com/sealcast/sealcast/wire"
)

// The handshake messages have fixed layouts. After the kind byte:
//
//	HandshakeInit                        HandshakeReply
//	   0  e        32                       0  e             32
//	  32  flags     1                      32  static key    32 + 16 tag, encrypted
//	  33  ML-KEM key   0 or 1,184          80  flags          1, encrypted
//	                                       81  ML-KEM ciphertext 0 or 1,088, encrypted
//	                                       ..  tag           16
const (
	helloFlags = 1
	noiseTag   = 16
	initSize   = 1 + KeySize + helloFlags
	replySize  = 1 + KeySize + KeySize + noiseTag + helloFlags + noiseTag

	initHybridSize  = initSize + mlkem.EncapsulationKeySize768
	replyHybridSize = replySize + mlkem.CiphertextSize768
)

// Flags of ClientHello and ServerHello. Receivers ignore the others.
const (
	flagHybrid      = 1 << 0 // both: the ML-KEM part follows
	flagHardwareAES = 1 << 1 // ServerHello: the gateway has AES in hardware
)

// handshakeSize reports whether a message of that kind may have n bytes, the
// kind included, and whether it is then a hybrid one.
func handshakeSize(kind wire.Kind, n int) (hybrid, ok bool) {
	switch {
	case kind == wire.KindHandshakeInit && n == initSize, kind == wire.KindHandshakeReply && n == replySize:
		return false, true
	case kind == wire.KindHandshakeInit && n == initHybridSize, kind == wire.KindHandshakeReply && n == replyHybridSize:
		return true, true
	}
	return false, false
}

// hello is a parsed ClientHello or ServerHello. kem aliases the payload.
type hello struct {
	flags byte
	kem   []byte
}

// parseHello splits a payload whose length has been checked with the
// message's; it fails when the flag does not say what the length says.
func parseHello(payload []byte) (hello, error) {
	if len(payload) < helloFlags {
		return hello{}, ErrMalformed
	}
	h := hello{payload[0], payload[helloFlags:]}
	if h.hybrid() != (len(h.kem) > 0) {
		return hello{}, ErrMalformed
	}
	return h, nil
}

func (h hello) hybrid() bool { return h.flags&flagHybrid != 0 }
