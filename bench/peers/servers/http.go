package servers

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// serveHTTP runs a net/http server until ctx ends, and a feed beside it if
// there is a Redis.
func serveHTTP(ctx context.Context, l net.Listener, o Options, h http.Handler, tick func([]byte)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	context.AfterFunc(ctx, func() { s.Close() })
	failed := make(chan error, 1)
	if o.Redis != "" && tick != nil {
		go func() {
			failed <- follow(ctx, o, tick)
			cancel()
		}()
	} else {
		failed <- nil
	}
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	cancel()
	return errors.Join(err, <-failed)
}
