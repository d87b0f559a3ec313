package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Page says whether the live page is served and where it finds the gateway.
type Page struct {
	Served    bool
	PublicURL string   // of the WebSocket, as browsers reach it; empty: Listen
	Listen    net.Addr // of the gateway; nil as long as it starts
}

// pageFiles is what `make page` builds from web/page.
//
//go:embed page
var pageFiles embed.FS

// pageSettings is the answer of /page.json, by which the page finds the gateway.
type pageSettings struct {
	WebSocket string `json:"websocket"`
}

// addPage serves the live page: its files, and where the gateway is. Without it
// / lists what else there is.
func addPage(mux *http.ServeMux, o Options) {
	mux.HandleFunc("GET /page.json", func(w http.ResponseWriter, r *http.Request) {
		if p := o.Page(); p.Served {
			writeJSON(w, pageSettings{WebSocket: p.webSocket(r)})
		} else {
			http.NotFound(w, r)
		}
	})
	for _, name := range pageNames() {
		content, _ := fs.ReadFile(pageFiles, "page/"+name) // embedded, so it can be read
		pattern := "GET /" + name
		if name == "index.html" {
			pattern = "GET /{$}"
		}
		mux.HandleFunc(pattern, pageHandler(o, name, content))
	}
}

// pageNames are the files of the page.
func pageNames() []string {
	entries, _ := fs.ReadDir(pageFiles, "page") // embedded, so it can be read
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// pageHandler answers with one file. Browsers keep it and ask whether it has
// changed: another version of the gateway has other files under the same names.
func pageHandler(o Options, name string, content []byte) http.HandlerFunc {
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		p := o.Page()
		switch {
		case !p.Served && name == "index.html":
			text(w, http.StatusOK, index)
			return
		case !p.Served:
			http.NotFound(w, r)
			return
		}
		header(w, mime.TypeByExtension(path.Ext(name)))
		h := w.Header()
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		h.Set("Content-Security-Policy", pagePolicy(p.webSocket(r)))
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(content) // as in text
	}
}

// pagePolicy allows the page its own files and the gateway, and nothing else.
func pagePolicy(webSocket string) string {
	connect := "'self'"
	if u, err := url.Parse(webSocket); err == nil && webSocket != "" {
		connect += " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// plainHost is a name or an address as it may stand in a policy.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// webSocket is the address that the page connects to: the one set, or the
// gateway's port under the name by which the browser found this listener. It is
// empty as long as there is none.
func (p Page) webSocket(r *http.Request) string {
	if u, err := url.Parse(p.PublicURL); err == nil && p.PublicURL != "" {
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/ws"
		}
		return u.String()
	}
	tcp, ok := p.Listen.(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = hostOf(r.Host)
	}
	if _, err := netip.ParseAddr(host); err != nil && !plainHost.MatchString(host) {
		return ""
	}
	_, port, _ := net.SplitHostPort(tcp.String()) // always HOST:PORT
	return (&url.URL{Scheme: "ws", Host: net.JoinHostPort(host, port), Path: "/ws"}).String()
}
