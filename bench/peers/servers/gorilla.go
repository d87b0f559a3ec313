package servers

import (
	"context"
	"net"
	"net/http"

	"github.com/gorilla/websocket"
)

// serveGorilla is the echo on gorilla/websocket with its default settings: one
// goroutine for each connection reads a message and writes it back. It has no
// feed: gws stands for that way of writing.
func serveGorilla(ctx context.Context, l net.Listener, o Options) error {
	upgrader := &websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // it has answered
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil {
				return
			}
			if err := c.WriteMessage(kind, message); err != nil {
				return
			}
		}
	})
	return serveHTTP(ctx, l, o, mux, nil)
}
