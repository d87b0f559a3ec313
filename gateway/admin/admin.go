// Package admin is the gateway's HTTP listener for operators: health, metrics,
// what the gateway offers, its sessions and topics. It learns everything through
// the functions in Options and never serves WebSocket clients.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/auth"
)

// Limits on a request. Answers are small, so a slow peer holds little.
const (
	headerTimeout = 5 * time.Second
	answerTimeout = 10 * time.Second
	idleTimeout   = time.Minute
	headerBytes   = 8 << 10
)

// Options say what the listener tells. All fields but ReusePort are needed; the
// functions are called on any goroutine and must not block.
type Options struct {
	Ready  func() []string // why the gateway is not ready; empty if it is
	Info   func() Info
	Access func() Access
	Page   func() Page
	Parts  func() (Gateway, Hub) // nil, nil as long as the gateway starts
	Log    *zap.Logger
	// ReusePort lets another process listen on the same address, which answers
	// some of the requests as long as both are there.
	ReusePort bool
}

// Access says who may see what.
type Access struct {
	Token string // a bearer token that most paths want; empty: none is asked for
	Pprof bool   // serve /debug/pprof/
}

// Gateway is what of *gateway.Gateway is told and done here.
type Gateway interface {
	Stats() gateway.Stats
	Sessions(ctx context.Context, after uint64, limit int, user string) ([]gateway.SessionInfo, bool, error)
	EndSession(ctx context.Context, id uint64, comeBack bool) (bool, error)
	Topics(ctx context.Context, after uint64, limit int) ([]gateway.TopicInfo, bool, error)
	Revoke(ctx context.Context, kind auth.Kind, value string, duration time.Duration, by string) (auth.Revocation, error)
	Lift(kind auth.Kind, value, by string) bool
	Revocations(after string, limit int) ([]auth.Revocation, bool)
}

// Hub is what of *fanout.Hub is told here.
type Hub interface {
	Stats() fanout.Stats
	Ready() error
}

// Info is the answer of /v1/info. None of it is secret.
type Info struct {
	Version      string   `json:"version"`
	Realm        string   `json:"realm"`
	PublicKey    string   `json:"public_key"`    // the pin
	TemporaryKey bool     `json:"temporary_key"` // made at start, gone at the end
	Suites       []string `json:"suites"`        // what clients may choose, in the gateway's order
	PostQuantum  string   `json:"post_quantum"`  // off, preferred or required
	HardwareAES  bool     `json:"hardware_aes"`
}

// Server is the listener. Its methods are safe for concurrent use.
type Server struct {
	http *http.Server
	ln   net.Listener
}

// Listen binds address. It warns in the log if others than this machine can
// reach it and no token is asked for.
func Listen(address string, o Options) (*Server, error) {
	ln, err := gateway.Listen(address, gateway.SocketOptions{ReusePort: o.ReusePort})
	if err != nil {
		return nil, fmt.Errorf("admin interface: %w", err)
	}
	handler := Handler(o)
	if isLoopback(ln.Addr()) {
		handler = onlyLocalHosts(address, handler)
	} else if o.Access().Token == "" {
		o.Log.Warn("the admin interface is reachable from other machines and asks for no token: set admin.token",
			zap.Stringer("admin", ln.Addr()))
	}
	return &Server{ln: ln, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          zap.NewStdLog(o.Log),
	}}, nil
}

// Addr is the address bound, with the port chosen by the system if port 0 was asked for.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Serve answers until Shutdown, which makes it return nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin interface: %w", err)
	}
	return nil
}

// Shutdown takes no more requests and waits for those being answered until
// ctx ends, then closes them.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	// A Serve that never ran leaves its listener to us; closed twice is harmless.
	return errors.Join(err, ignoreClosed(s.ln.Close()), s.http.Close())
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// index is what / tells without the page.
const index = `Sealcast gateway

/healthz
/readyz
/metrics
/v1/info
/v1/sessions
/v1/topics
/v1/revoke
`

// Handler is the interface without a listener. Methods that a path does not know
// are answered with 405.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	addPage(mux, o)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reasons := o.Ready(); len(reasons) > 0 {
			text(w, http.StatusServiceUnavailable, strings.Join(reasons, "\n")+"\n")
			return
		}
		text(w, http.StatusOK, "ready\n")
	})
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, o.Info())
	})
	mux.Handle("GET /metrics", metricsHandler(o))
	addInspection(mux, o)
	addRevocation(mux, o)
	addProfiling(mux, o)
	// No web page of another origin gets a browser to change anything here.
	return withToken(o.Access, http.NewCrossOriginProtection().Handler(mux))
}

// text answers with plain text that browsers and proxies neither keep nor guess about.
func text(w http.ResponseWriter, status int, body string) {
	header(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the peer is gone if this fails
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		text(w, http.StatusInternalServerError, "cannot encode the answer\n")
		return
	}
	header(w, "application/json")
	_, _ = w.Write(append(body, '\n')) // as in text
}

func header(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
