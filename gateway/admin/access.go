package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
)

// open are the paths that never want a token: probes have none, and a page must
// load before it can ask for one.
var open = append([]string{"/", "/healthz", "/readyz", "/page.json"}, pagePaths()...)

func pagePaths() []string {
	paths := pageNames()
	for i, name := range paths {
		paths[i] = "/" + name
	}
	return paths
}

// withToken lets requests pass that need no token or have the right one.
func withToken(access func() Access, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := access().Token; token != "" && !slices.Contains(open, r.URL.Path) && !hasToken(r, token) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="sealcast admin"`)
			text(w, http.StatusUnauthorized, "the token of admin.token is needed, as Authorization: Bearer TOKEN\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hasToken compares hashes, so that the time taken tells nothing of the token,
// not even its length.
func hasToken(r *http.Request, token string) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// onlyLocalHosts refuses requests that were sent to another name than this
// machine's: a page from elsewhere whose name was made to lead here (DNS
// rebinding) would otherwise be within its origin, and read every answer.
func onlyLocalHosts(address string, next http.Handler) http.Handler {
	own, _, _ := net.SplitHostPort(address) // was listened on, so it is HOST:PORT
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r.Host); !isLocal(host) && !strings.EqualFold(host, own) {
			text(w, http.StatusForbidden, "this address is served to this machine alone, as localhost, 127.0.0.1 or as in admin.listen\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is a Host field without port and brackets.
func hostOf(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	return host
}

// isLocal also takes an empty name: HTTP/1.0 has none, and browsers always send one.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// addProfiling serves net/http/pprof as long as that is allowed.
func addProfiling(mux *http.ServeMux, o Options) {
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/cmdline": pprof.Cmdline,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !o.Access().Pprof {
				text(w, http.StatusNotFound, "profiling is off: set admin.pprof to true\n")
				return
			}
			handler(w, r)
		})
	}
}
