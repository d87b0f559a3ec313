package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sealcast/sealcast/crypto/suite"
)

// Role is what a session is for; the endpoint's path decides it.
type Role uint8

// The roles of protocol version 1.
const (
	RolePush Role = iota + 1 // /ws: ticks
	RoleEcho                 // /echo: opaque plaintext, returned unchanged
)

// String is the role's name in the prologue.
func (r Role) String() string {
	switch r {
	case RolePush:
		return "push"
	case RoleEcho:
		return "echo"
	default:
		return fmt.Sprintf("role(%d)", uint8(r))
	}
}

// MaxRealm is the longest realm, in bytes.
const MaxRealm = 255

// Binding is what both sides saw before the handshake and put into its
// prologue: a proxy that changes any of it breaks the handshake.
type Binding struct {
	Role     Role
	Realm    string
	Offered  []string // subprotocol tokens, in order, as sent
	Selected string   // the one that the gateway selected
}

// check validates the binding and finds the suite that it selects.
func (b *Binding) check() (suite.ID, error) {
	if b.Role != RolePush && b.Role != RoleEcho {
		return 0, fmt.Errorf("%w: no such role: %v", ErrBinding, b.Role)
	}
	if len(b.Realm) > MaxRealm || strings.IndexByte(b.Realm, 0) >= 0 {
		return 0, fmt.Errorf("%w: realm %q is longer than %d bytes or contains NUL", ErrBinding, b.Realm, MaxRealm)
	}
	if err := b.checkOffers(); err != nil {
		return 0, err
	}
	id, ok := suite.ByProtocol(b.Selected)
	switch {
	case !ok:
		return 0, fmt.Errorf("%w: selected subprotocol %q is not of Sealcast", ErrBinding, b.Selected)
	case !slices.Contains(b.Offered, b.Selected):
		return 0, fmt.Errorf("%w: selected subprotocol %q was not offered", ErrBinding, b.Selected)
	case id == suite.Plain && len(b.Offered) != 1:
		return 0, fmt.Errorf("%w: %w", ErrBinding, suite.ErrPlainMixed)
	}
	return id, nil
}

// checkOffers refuses what would make two different offers the same prologue.
func (b *Binding) checkOffers() error {
	if len(b.Offered) > suite.MaxOffers {
		return fmt.Errorf("%w: %w: %d", ErrBinding, suite.ErrTooManyOffers, len(b.Offered))
	}
	for i, token := range b.Offered {
		if token == "" || strings.ContainsAny(token, ",\x00") {
			return fmt.Errorf("%w: offered subprotocol %q", ErrBinding, token)
		}
		if slices.Contains(b.Offered[:i], token) {
			return fmt.Errorf("%w: %w: %q", ErrBinding, suite.ErrDuplicateOffer, token)
		}
	}
	return nil
}

// prologue is the Noise prologue (Noise section 6):
//
//	"sealcast.v1" 00 role 00 realm 00 offered, joined by "," 00 selected
func (b *Binding) prologue() []byte {
	p := make([]byte, 0, 256)
	p = append(p, "sealcast.v1\x00"...)
	p = append(append(p, b.Role.String()...), 0)
	p = append(append(p, b.Realm...), 0)
	for i, token := range b.Offered {
		if i > 0 {
			p = append(p, ',')
		}
		p = append(p, token...)
	}
	return append(append(p, 0), b.Selected...)
}
