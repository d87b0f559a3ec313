package client

import (
	"context"

	"github.com/sealcast/sealcast/wire"
)

// Echo is a connection to a gateway's echo endpoint, for measurements: what is
// sent comes back. Send may be called by any goroutine, Receive by one at a time.
type Echo struct{ *link }

// Send seals and sends a message. It keeps no reference to payload. When ctx
// ends while it is being written, the connection ends.
func (e *Echo) Send(ctx context.Context, payload []byte) error {
	return e.write(ctx, wire.KindRecord, func(dst []byte) ([]byte, error) {
		return append(dst, payload...), nil
	})
}

// Receive returns the next message that came back; it is valid until the next
// call. When ctx ends first, the connection stays as it is.
func (e *Echo) Receive(ctx context.Context) ([]byte, error) {
	if err := e.reading.take(ctx); err != nil {
		return nil, err
	}
	defer e.reading.give()
	_, message, err := e.readRecord(ctx)
	return message, err
}

// Info tells what became known of the gateway while connecting.
func (e *Echo) Info() Info { return e.info }

// Close says goodbye, waits a moment for the gateway to do the same, at most
// until ctx ends, and closes the connection. It may be called more than once
// and by any goroutine; calls that wait return ErrClosed.
func (e *Echo) Close(ctx context.Context) error {
	return e.leave(ctx, wire.CloseNormal, "")
}
