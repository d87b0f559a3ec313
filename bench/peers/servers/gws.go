package servers

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/lxzan/gws"
)

// gwsHandler is the server on lxzan/gws, with its default settings: net/http
// takes the upgrade, one goroutine reads each connection, an echo is written
// from there, and a tick goes out through one gws.Broadcaster.
type gwsHandler struct {
	gws.BuiltinEventHandler
	echo bool

	mu    sync.Mutex // guards conns
	conns map[*gws.Conn]struct{}
}

func serveGWS(ctx context.Context, l net.Listener, o Options) error {
	echo := &gwsHandler{echo: true}
	feed := &gwsHandler{conns: map[*gws.Conn]struct{}{}}
	mux := http.NewServeMux()
	mux.Handle("/echo", echo)
	mux.Handle("/ws", feed)
	return serveHTTP(ctx, l, o, mux, feed.tick)
}

func (h *gwsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := gws.NewUpgrader(h, nil).Upgrade(w, r)
	if err != nil {
		return // it has answered
	}
	go conn.ReadLoop() // outside of net/http's goroutine, whose memory can go
}

// OnOpen implements gws.Event.
func (h *gwsHandler) OnOpen(c *gws.Conn) {
	if h.echo {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = struct{}{}
}

// OnClose implements gws.Event.
func (h *gwsHandler) OnClose(c *gws.Conn, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// OnMessage implements gws.Event.
func (h *gwsHandler) OnMessage(c *gws.Conn, m *gws.Message) {
	defer m.Close()
	if h.echo {
		_ = c.WriteMessage(m.Opcode, m.Bytes()) // a failure has closed it
	}
}

func (h *gwsHandler) tick(payload []byte) {
	b := gws.NewBroadcaster(gws.OpcodeBinary, payload)
	defer b.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		_ = b.Broadcast(c) // fails for those that are closing
	}
}
