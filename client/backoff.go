package client

import (
	"errors"
	"time"

	"github.com/sealcast/sealcast/wire"
)

// Defaults of Backoff.
const (
	defaultBackoffMin = 500 * time.Millisecond
	defaultBackoffMax = 30 * time.Second
)

// Backoff says how long a Client waits before it connects again. To each delay
// a random time is added, of up to as much again and at least up to twice Min.
// Where the gateway asks for more, it gets more.
type Backoff struct {
	// Min is the delay after a cut; 0 means 0.5 s.
	Min time.Duration
	// Max is what the delay grows to, doubling with each attempt that fails and
	// each connection that does not last for Max; 0 means 30 s.
	Max time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.Min <= 0 {
		b.Min = defaultBackoffMin
	}
	if b.Max <= 0 {
		b.Max = defaultBackoffMax
	}
	b.Max = max(b.Max, b.Min)
	return b
}

// verdict says whether to connect again after the end of a connection or of an
// attempt, and after how long at least (docs/protocol.md section 7.4). Only a
// Goodbye is final; what anybody on the way can say is a hint to wait.
func (c *Client) verdict(cause error) (again bool, wanted time.Duration) {
	var closed *ClosedError
	switch {
	case errors.As(cause, &closed) && closed.Final:
		again, wanted = closed.Code.Reconnect()
		if closed.Code == wire.CloseUnauthenticated && c.opts.TokenSource != nil {
			again, wanted = true, c.backoff.Min
			c.refuseToken()
		}
		if closed.ReconnectAfter > 0 {
			wanted = closed.ReconnectAfter
		}
		return again, wanted
	case errors.As(cause, &closed):
		if _, hint := closed.Code.Reconnect(); hint > defaultBackoffMin {
			return true, hint
		}
	case errors.Is(cause, ErrRefused):
		_, hint := wire.CloseTryLater.Reconnect()
		return true, hint
	}
	return true, c.backoff.Min
}
