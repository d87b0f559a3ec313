package session

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/sealcast/sealcast/crypto/record"
)

// A ticket is opaque to clients. On the gateway's side it is
//
//	 0  key id      4   which ticket key
//	 4  nonce      24   random
//	28  ciphertext  n   XChaCha20-Poly1305 over the content; additional data: the key id
//	..  tag        16
//
// and its content is
//
//	 0  version       1   1
//	 1  flags         1   bit 0: the session was hybrid
//	 2  static key id 16  SHA-256 of the gateway's public key, cut
//	18  psk           32
//	50  full          8   Unix seconds: the full handshake that this goes back to
//	58  expiry        8   Unix seconds: of the ticket
//	66  authenticated 8   Unix seconds, 0 for none
//	74  token expiry  8   Unix seconds, 0 for none
//	82  realm         1 + length
//	..  identity      2 + length
//	..  rights        the rest
//
// Nonces are random and long enough for many gateways to share a key.
const (
	ticketVersion  = 1
	ticketHybrid   = 1 << 0
	ticketKeyID    = 4
	ticketHeader   = ticketKeyID + chacha20poly1305.NonceSizeX
	ticketOverhead = ticketHeader + chacha20poly1305.Overhead
	ticketFixed    = 82
)

// defaultTicketLifetime is how long a ticket is good unless told otherwise. It
// is short because a ticket key is as powerful as the static key.
const defaultTicketLifetime = 10 * time.Minute

// maxResumedAge is how long after a full handshake resumption goes on.
const maxResumedAge = 24 * time.Hour

// TicketKeySize is the length of a ticket key, in bytes.
const TicketKeySize = chacha20poly1305.KeySize

// errTicket is why a ticket is not taken, or not made.
var errTicket = errors.New("ticket refused")

// Grant is what a ticket says of its bearer. Session does not interpret it.
type Grant struct {
	Identity      string
	Rights        []byte // as the gateway encodes them
	Authenticated int64  // Unix seconds of the token's verification; 0 without a token
	TokenExpiry   int64  // Unix seconds; 0 for none. It is never extended.
}

// Tickets is how a gateway resumes sessions. It must not change once a session
// uses it; new keys are a new Tickets.
type Tickets struct {
	Keys     *TicketKeys
	Lifetime time.Duration // 0: defaultTicketLifetime
	// Now is the clock. Jobs call it from several goroutines.
	Now func() time.Time
	// Accept, if not nil, refuses what was revoked meanwhile. Jobs call it from
	// several goroutines.
	Accept func(Grant) error
}

// TicketKeys are the keys that seal tickets, the current one first. They are
// immutable, print as "redacted" and may be used from several goroutines.
type TicketKeys struct {
	_    [0]func() // not comparable
	ring []ticketKey
}

type ticketKey struct {
	id  [ticketKeyID]byte
	key [TicketKeySize]byte
}

// NewTicketKeys makes a ring of keys of TicketKeySize bytes: the first seals
// tickets, all of them open tickets. Gateways that share keys take each
// other's tickets. It keeps no reference to the keys.
func NewTicketKeys(keys ...[]byte) (*TicketKeys, error) {
	if len(keys) == 0 {
		return nil, errors.New("no ticket key")
	}
	ring := make([]ticketKey, len(keys))
	for i, key := range keys {
		if len(key) != TicketKeySize {
			return nil, fmt.Errorf("ticket key of %d bytes, want %d", len(key), TicketKeySize)
		}
		copy(ring[i].key[:], key)
		id, err := hkdf.Expand(sha256.New, key, "sealcast v1 ticket key id", ticketKeyID)
		if err != nil {
			return nil, err
		}
		ring[i].id = [ticketKeyID]byte(id)
	}
	return &TicketKeys{ring: ring}, nil
}

// Rotated is a ring in which key is the current one and the one that was
// current before still opens tickets; older ones are gone.
func (k *TicketKeys) Rotated(key []byte) (*TicketKeys, error) {
	return NewTicketKeys(key, k.ring[0].key[:])
}

// Format prints "redacted" whatever the verb.
func (k TicketKeys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redacted") }

// seal makes a ticket of content, which it clears.
func (k *TicketKeys) seal(random io.Reader, content []byte) ([]byte, error) {
	defer clear(content)
	if len(content)+ticketOverhead > maxTicket {
		return nil, fmt.Errorf("%w: %d bytes of content, at most %d", errTicket, len(content), maxTicket-ticketOverhead)
	}
	current := &k.ring[0]
	ticket := make([]byte, ticketHeader, ticketOverhead+len(content))
	copy(ticket, current.id[:])
	nonce := ticket[ticketKeyID:]
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, fmt.Errorf("ticket nonce: %w", err)
	}
	aead, err := chacha20poly1305.NewX(current.key[:])
	if err != nil {
		return nil, err
	}
	return aead.Seal(ticket, nonce, content, current.id[:]), nil
}

// open returns a ticket's content, which the caller clears.
func (k *TicketKeys) open(ticket []byte) ([]byte, error) {
	if len(ticket) < ticketOverhead {
		return nil, fmt.Errorf("%w: %d bytes", errTicket, len(ticket))
	}
	id := [ticketKeyID]byte(ticket)
	for i := range k.ring {
		if k.ring[i].id != id {
			continue
		}
		aead, err := chacha20poly1305.NewX(k.ring[i].key[:])
		if err != nil {
			return nil, err
		}
		content, err := aead.Open(nil, ticket[ticketKeyID:ticketHeader], ticket[ticketHeader:], id[:])
		if err != nil {
			return nil, fmt.Errorf("%w: it does not authenticate", errTicket)
		}
		return content, nil
	}
	return nil, fmt.Errorf("%w: its key is not in use", errTicket)
}

// ticketContent is what a ticket holds.
type ticketContent struct {
	hybrid bool
	static [16]byte
	psk    [record.SecretSize]byte
	full   int64
	expiry int64
	realm  string
	grant  Grant
}

// staticID is how a ticket names the gateway's static key.
func staticID(key PublicKey) [16]byte {
	sum := sha256.Sum256(key[:])
	return [16]byte(sum[:])
}

func (c *ticketContent) encode() []byte {
	out := make([]byte, 0, ticketFixed+3+len(c.realm)+len(c.grant.Identity)+len(c.grant.Rights))
	var flags byte
	if c.hybrid {
		flags |= ticketHybrid
	}
	out = append(out, ticketVersion, flags)
	out = append(out, c.static[:]...)
	out = append(out, c.psk[:]...)
	for _, seconds := range []int64{c.full, c.expiry, c.grant.Authenticated, c.grant.TokenExpiry} {
		out = binary.BigEndian.AppendUint64(out, uint64(seconds))
	}
	out = append(append(out, byte(len(c.realm))), c.realm...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(c.grant.Identity)))
	return append(append(out, c.grant.Identity...), c.grant.Rights...)
}

// decodeTicket reads what encode wrote. It came out of a sealed ticket, so a
// fault means a gateway of another version with the same key.
func decodeTicket(in []byte) (*ticketContent, error) {
	if len(in) < ticketFixed || in[0] != ticketVersion {
		return nil, fmt.Errorf("%w: not of this version", errTicket)
	}
	seconds := func(at int) int64 { return int64(binary.BigEndian.Uint64(in[at:])) }
	c := &ticketContent{
		hybrid: in[1]&ticketHybrid != 0, static: [16]byte(in[2:]), psk: [record.SecretSize]byte(in[18:]),
		full: seconds(50), expiry: seconds(58),
		grant: Grant{Authenticated: seconds(66), TokenExpiry: seconds(74)},
	}
	realm, rest, ok := cutLength(in[ticketFixed:], 1)
	if ok {
		c.realm = string(realm)
		realm, rest, ok = cutLength(rest, 2)
	}
	if !ok {
		return nil, fmt.Errorf("%w: not of this version", errTicket)
	}
	c.grant.Identity = string(realm)
	c.grant.Rights = append([]byte(nil), rest...)
	return c, nil
}

// cutLength takes a field behind its length of size bytes from the front.
func cutLength(in []byte, size int) (field, rest []byte, ok bool) {
	if len(in) < size {
		return nil, nil, false
	}
	n := 0
	for _, b := range in[:size] {
		n = n<<8 | int(b)
	}
	if len(in) < size+n {
		return nil, nil, false
	}
	return in[size : size+n], in[size+n:], true
}

// check applies the rules for taking a ticket back (docs/protocol.md section 3).
func (c *ticketContent) check(g *GatewayConfig, realm string, offersHybrid bool) error {
	now := g.Tickets.Now().Unix()
	switch {
	case c.realm != realm:
		return fmt.Errorf("%w: of another realm", errTicket)
	case c.static != staticID(g.Key.Public()):
		return fmt.Errorf("%w: its static key is not in use", errTicket)
	case now >= c.expiry:
		return fmt.Errorf("%w: expired", errTicket)
	case c.grant.TokenExpiry != 0 && now >= c.grant.TokenExpiry:
		return fmt.Errorf("%w: its token has expired", errTicket)
	case now-c.full >= int64(maxResumedAge/time.Second):
		return fmt.Errorf("%w: a full handshake is due", errTicket)
	case c.hybrid && (!offersHybrid || g.PostQuantum == PostQuantumOff):
		return fmt.Errorf("%w: of a hybrid session, and the new one would not be", errTicket)
	case g.PostQuantum == PostQuantumRequired && (!c.hybrid || !offersHybrid):
		return fmt.Errorf("%w: %w", errTicket, ErrPostQuantumRequired)
	}
	if g.Tickets.Accept != nil {
		if err := g.Tickets.Accept(c.grant); err != nil {
			return fmt.Errorf("%w: %w", errTicket, err)
		}
	}
	return nil
}
