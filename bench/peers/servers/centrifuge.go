package servers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/centrifugal/centrifuge"
)

// centrifugeDelay is as long as Sealcast's ticks wait for company by default.
const centrifugeDelay = 5 * time.Millisecond

// serveCentrifuge is the feed on the library centrifuge: one node with its
// broker in memory, into which ticks are published as they come from Redis.
// Clients speak its protobuf protocol, the leaner of the two. With
// Options.Batched its writer collects messages as long as Sealcast does, and
// any number of them in a frame; else it works with its default settings.
func serveCentrifuge(ctx context.Context, l net.Listener, o Options) error {
	node, err := centrifuge.New(centrifuge.Config{LogLevel: centrifuge.LogLevelNone})
	if err != nil {
		return fmt.Errorf("centrifuge: %w", err)
	}
	node.OnConnecting(func(context.Context, centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		reply := centrifuge.ConnectReply{Credentials: &centrifuge.Credentials{}}
		if o.Batched {
			reply.WriteDelay, reply.MaxMessagesInFrame = centrifugeDelay, -1
		}
		return reply, nil
	})
	node.OnConnect(func(c *centrifuge.Client) {
		c.OnSubscribe(func(_ centrifuge.SubscribeEvent, answer centrifuge.SubscribeCallback) {
			answer(centrifuge.SubscribeReply{}, nil)
		})
	})
	if err := node.Run(); err != nil {
		return fmt.Errorf("centrifuge: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{
		CheckOrigin: func(*http.Request) bool { return true },
	}))
	err = serveHTTP(ctx, l, o, mux, func(payload []byte) {
		_, _ = node.Publish(o.Topic, payload) // the broker in memory cannot fail; what is lost the generator misses
	})
	if end := node.Shutdown(context.WithoutCancel(ctx)); err == nil {
		err = end
	}
	return err
}
