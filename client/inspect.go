package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Inspection is what a gateway tells a stranger.
type Inspection struct {
	Info Info
	// Refusal is why the gateway sent no Connected, which is where its version
	// stands: most often it wants a token. Nil for an echo endpoint.
	Refusal error
}

// Inspect agrees on keys with a gateway, takes down what it says of itself, and
// leaves. The path says which endpoint it is; an empty one means /ws. Pins are
// enforced as by Dial.
func Inspect(ctx context.Context, url string, opts Options) (Inspection, error) {
	var found Inspection
	d, err := newDialer(url, pushPath, opts)
	if err != nil {
		return found, err
	}
	role := session.RolePush
	if strings.HasSuffix(d.url.Path, echoPath) {
		role = session.RoleEcho
	}
	ctx, cancel := d.timeLimit(ctx)
	defer cancel()
	if d.opts.Token, err = d.opts.token(ctx); err != nil {
		return found, err
	}
	l, err := d.dial(ctx, role)
	if err != nil {
		return found, err
	}
	if role == session.RolePush {
		found.Refusal = l.connect(ctx, &d.opts)
	}
	found.Info = l.info
	if found.Refusal != nil {
		found.Refusal = d.inTime(ctx, l, found.Refusal)
		return found, nil
	}
	_ = l.leave(ctx, wire.CloseNormal, "") // all that was wanted is there
	return found, nil
}

// unknownSuite is a subprotocol that no gateway accepts.
const unknownSuite = suite.SubprotocolPrefix + "which"

// AcceptedSuites asks a gateway which suites it accepts, by offering one that
// does not exist. It returns their names in the gateway's order. Nothing about
// the answer is authenticated.
func AcceptedSuites(ctx context.Context, url string, opts Options) ([]string, error) {
	d, err := newDialer(url, pushPath, opts)
	if err != nil {
		return nil, err
	}
	d.offers = []string{unknownSuite}
	ctx, cancel := d.timeLimit(ctx)
	defer cancel()
	s, err := d.open(ctx)
	var none *NoCommonSuiteError
	switch {
	case err == nil:
		s.Close()
		return nil, fmt.Errorf("%w: the server selected a subprotocol that does not exist", ErrNotGateway)
	case errors.As(err, &none):
		return none.Accepted, nil
	default:
		return nil, err
	}
}
