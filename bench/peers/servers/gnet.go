package servers

import (
	"context"
	"net"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"go.uber.org/zap"
)

// gnetEcho is the echo on gnet without anything of Sealcast: one event loop,
// one Peek, one Write and one Discard for what a read has brought.
type gnetEcho struct {
	gnet.BuiltinEventEngine
	engine chan gnet.Engine
	out    []byte // of the one loop
}

func serveGnet(ctx context.Context, l net.Listener, _ Options) error {
	address := l.Addr().String()
	l.Close() // gnet binds by itself
	h := &gnetEcho{engine: make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(h, "tcp4://"+address, gnet.WithNumEventLoop(1), gnet.WithReuseAddr(true), gnet.WithLogger(logging.Logger(zap.NewNop().Sugar())))
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case engine := <-h.engine:
		if err := engine.Stop(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		return <-ended
	case err := <-ended:
		return err
	}
}

// OnBoot implements gnet.EventHandler.
func (h *gnetEcho) OnBoot(e gnet.Engine) gnet.Action {
	h.engine <- e
	return gnet.None
}

// OnOpen implements gnet.EventHandler.
func (h *gnetEcho) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(new(bool)) // whether it is upgraded
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (h *gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Peek(-1)
	out, n, err := serveBytes(c.Context().(*bool), h.out[:0], b)
	h.out = out
	if err != nil {
		return gnet.Close
	}
	if len(out) > 0 {
		_, _ = c.Write(out) // a failure closes it
	}
	if n > 0 {
		_, _ = c.Discard(n)
	}
	return gnet.None
}
