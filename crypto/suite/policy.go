package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxOffers bounds how many subprotocols a client may offer; version 1 has five.
const MaxOffers = 32

// Errors of Policy.Select. Each is answered with HTTP 400.
var (
	ErrNoCommon       = errors.New("no offered subprotocol is accepted here")
	ErrDuplicateOffer = errors.New("a subprotocol is offered twice")
	ErrTooManyOffers  = errors.New("too many subprotocols are offered")
	ErrPlainMixed     = errors.New("plain must be the only offer")
	ErrPlainRefused   = errors.New("plain is not allowed here")
)

// Prefer says whose order decides. The zero value is "auto".
type Prefer struct {
	mode  preferMode
	first ID // with preferNamed
}

type preferMode uint8

const (
	preferAuto   preferMode = iota // hardware decides, then the client's order
	preferServer                   // the gateway's order
	preferClient                   // the client's order
	preferNamed                    // one suite first, then the gateway's order
)

// ParsePrefer reads the setting cipher.prefer: auto, server, client or a suite's name.
func ParsePrefer(s string) (Prefer, error) {
	switch s {
	case "auto":
		return Prefer{}, nil
	case "server":
		return Prefer{mode: preferServer}, nil
	case "client":
		return Prefer{mode: preferClient}, nil
	}
	id, ok := ByName(s)
	if !ok || id == Plain {
		return Prefer{}, fmt.Errorf("%q is none of auto, server, client, or a suite other than plain", s)
	}
	return Prefer{mode: preferNamed, first: id}, nil
}

// String is the setting that ParsePrefer reads.
func (p Prefer) String() string {
	switch p.mode {
	case preferServer:
		return "server"
	case preferClient:
		return "client"
	case preferNamed:
		return p.first.String()
	default:
		return "auto"
	}
}

// Policy is how a gateway chooses a suite. It is a value that nobody changes
// once it is in use.
type Policy struct {
	Enabled    []ID // in the gateway's order of preference; Plain is not a member
	Prefer     Prefer
	AllowPlain bool
	Hardware   Hardware
}

// Check reports what is wrong with the policy: no suite, one listed twice,
// Plain in the list, or a preferred suite that is not enabled.
func (p Policy) Check() error {
	if len(p.Enabled) == 0 && !p.AllowPlain {
		return errors.New("no suite is enabled")
	}
	for i, id := range p.Enabled {
		switch {
		case id == Plain:
			return errors.New("plain is enabled by its own setting, not by the list of suites")
		case !id.Valid():
			return fmt.Errorf("%v is not a suite", id)
		case slices.Contains(p.Enabled[:i], id):
			return fmt.Errorf("suite %v is listed twice", id)
		}
	}
	if p.Prefer.mode == preferNamed && !slices.Contains(p.Enabled, p.Prefer.first) {
		return fmt.Errorf("the preferred suite %v is not enabled", p.Prefer.first)
	}
	return nil
}

// Select chooses a suite from the subprotocol tokens a client offers, in its
// order of preference (docs/protocol.md section 1). Tokens that are not of
// Sealcast are passed over. It fails with one of the sentinels of this file.
func (p Policy) Select(offered []string) (ID, error) {
	if err := checkOffers(offered); err != nil {
		return 0, err
	}
	if slices.Contains(offered, Plain.Protocol()) {
		return p.selectPlain(offered)
	}
	common := p.common(offered)
	if len(common) == 0 {
		return 0, ErrNoCommon
	}
	switch p.Prefer.mode {
	case preferServer:
		return p.firstOfOwn(common), nil
	case preferClient:
		return common[0], nil
	case preferNamed:
		if slices.Contains(common, p.Prefer.first) {
			return p.Prefer.first, nil
		}
		return p.firstOfOwn(common), nil
	default:
		if !p.Hardware.AES && slices.Contains(common, ChaCha20Poly1305) {
			return ChaCha20Poly1305, nil
		}
		return common[0], nil
	}
}

// Accepted lists the subprotocols that a client may offer, for the answer to
// one that offered none of them.
func (p Policy) Accepted() []string {
	tokens := make([]string, 0, len(p.Enabled)+1)
	for _, id := range p.Enabled {
		tokens = append(tokens, id.Protocol())
	}
	if p.AllowPlain {
		tokens = append(tokens, Plain.Protocol())
	}
	return tokens
}

// checkOffers refuses long lists before it compares their members.
func checkOffers(offered []string) error {
	if len(offered) > MaxOffers {
		return fmt.Errorf("%w: %d, at most %d", ErrTooManyOffers, len(offered), MaxOffers)
	}
	for i, token := range offered {
		if slices.Contains(offered[:i], token) {
			return fmt.Errorf("%w: %q", ErrDuplicateOffer, token)
		}
	}
	return nil
}

// selectPlain applies the rules for an offer that contains plain: alone, and
// only where it is allowed.
func (p Policy) selectPlain(offered []string) (ID, error) {
	switch {
	case len(offered) > 1:
		return 0, fmt.Errorf("%w: %s", ErrPlainMixed, strings.Join(offered, ", "))
	case !p.AllowPlain:
		return 0, ErrPlainRefused
	default:
		return Plain, nil
	}
}

// common is the client's offers that are enabled, in the client's order.
func (p Policy) common(offered []string) []ID {
	var common []ID
	for _, token := range offered {
		if id, ok := ByProtocol(token); ok && slices.Contains(p.Enabled, id) {
			common = append(common, id)
		}
	}
	return common
}

// firstOfOwn is the member of common that comes first in the gateway's order.
func (p Policy) firstOfOwn(common []ID) ID {
	for _, id := range p.Enabled {
		if slices.Contains(common, id) {
			return id
		}
	}
	return common[0]
}
