package servers

import (
	"context"
	"fmt"
	"net"

	"github.com/nats-io/nats-server/v2/server"
)

// serveNATS is nats-server in this process, with WebSocket and its default
// settings. Its publisher sends PUB over a connection like the subscribers';
// there is no Redis in between.
func serveNATS(ctx context.Context, l net.Listener, _ Options) error {
	port := l.Addr().(*net.TCPAddr).Port
	l.Close() // it binds by itself
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		Websocket: server.WebsocketOpts{Host: "127.0.0.1", Port: port, NoTLS: true},
	})
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	go s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
