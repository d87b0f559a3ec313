package session

import (
	"crypto/mlkem"
	"encoding/binary"

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
//	ResumeInit                           ResumeReply
//	   0  n, ticket's length  2             0  e             32
//	   2  ticket    n, at most 1,024       32  flags          1, encrypted
//	   .. e        32                      33  ML-KEM ciphertext 0 or 1,088, encrypted
//	   .. flags     1, encrypted           ..  tag           16
//	   .. ML-KEM key   0 or 1,184, encrypted
//	   .. tag      16                    ResumeRefused: nothing
const (
	helloFlags = 1
	noiseTag   = 16
	initSize   = 1 + keySize + helloFlags
	replySize  = 1 + keySize + keySize + noiseTag + helloFlags + noiseTag

	resumeHead      = 1 + 2                                        // before the ticket
	resumeInitSize  = resumeHead + keySize + helloFlags + noiseTag // without the ticket
	resumeReplySize = 1 + keySize + helloFlags + noiseTag

	kemKey        = mlkem.EncapsulationKeySize768
	kemCiphertext = mlkem.CiphertextSize768
)

// maxTicket is the longest ticket, in bytes.
const maxTicket = 1024

// Flags of ClientHello and ServerHello. Receivers ignore the others.
const (
	flagHybrid      = 1 << 0 // both: the ML-KEM part follows
	flagHardwareAES = 1 << 1 // ServerHello: the gateway has AES in hardware
)

// checkSize reports whether a handshake message has one of the exact lengths
// of its kind, and whether it is then a hybrid one.
func checkSize(msg []byte) (hybrid, ok bool) {
	n, base, more := len(msg), 0, 0
	switch wire.Kind(msg[0]) {
	case wire.KindHandshakeInit:
		base, more = initSize, kemKey
	case wire.KindHandshakeReply:
		base, more = replySize, kemCiphertext
	case wire.KindResumeInit:
		if n < resumeHead || ticketLength(msg) > maxTicket {
			return false, false
		}
		base, more = resumeInitSize+ticketLength(msg), kemKey
	case wire.KindResumeReply:
		base, more = resumeReplySize, kemCiphertext
	case wire.KindResumeRefused:
		return false, n == 1
	}
	return n == base+more, n == base || n == base+more
}

// ticketLength is the length field of a ResumeInit, which must be there.
func ticketLength(msg []byte) int { return int(binary.BigEndian.Uint16(msg[1:])) }

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
