// Package servers is small servers that do the work of Sealcast's echo and
// fan-out with what a user could take instead. Each file is one server. They
// drive no load and measure nothing, but for subscriber.go, which has no
// clients and times what it reads itself. Linux only.
//
// What all of them serve is what the generator needs: WebSocket upgrades on
// one address, an echo under /echo or a feed under /ws, in plaintext except
// where the name ends in "-tls". A feed brings each payload that is published
// to Options.Topic as one message to every connection.
package servers

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
)

// Options are for whichever server is run.
type Options struct {
	// Redis is where ticks come from, host:port; empty: there are none. A server
	// with a protocol of its own for publishers (NATS) ignores it.
	Redis string
	Topic string
	// Batched says that ticks may wait for company, as Sealcast's do in the same
	// work, where a server has a setting for that.
	Batched bool
}

// Serve answers connections of l until ctx ends or it fails. It closes l.
type Serve func(ctx context.Context, l net.Listener, o Options) error

var all = map[string]Serve{
	"epoll":        serveEpoll,
	"gnet":         serveGnet,
	"gws":          serveGWS,
	"gws-tls":      overTLS(serveGWS),
	"gorilla":      serveGorilla,
	"gorilla-tls":  overTLS(serveGorilla),
	"centrifuge":   serveCentrifuge,
	"nats":         serveNATS,
	"redis-client": serveSubscriber,
}

// Names lists all servers.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Run runs the server of that name on a free port of 127.0.0.1 until ctx ends.
// ready is told its address.
func Run(ctx context.Context, name string, o Options, ready func(address string)) error {
	serve, ok := all[name]
	if !ok {
		return fmt.Errorf("there is no server %q: the servers are %v", name, Names())
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(l.Addr().String())
	return serve(ctx, l, o)
}
