package gateway_test

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/gateway"
)

// behindProxies trusts every address that these tests connect from, and those
// that proxies in a chain have.
func behindProxies(protocol bool, change func(*gateway.Limits)) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Proxy = gateway.ProxyOptions{Protocol: protocol, Trusted: []netip.Prefix{
			netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48"),
		}}
		if change != nil {
			change(&o.Limits)
		}
	}
}

// remotes are the clients' addresses as operators see them.
func remotes(t *testing.T, s *server) []string {
	t.Helper()
	page, _, err := s.Sessions(t.Context(), 0, 100, "")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, i := range page {
		all = append(all, i.Remote)
	}
	return all
}

func TestForwardedFor(t *testing.T) {
	s := start(t, behindProxies(false, nil))
	for name, c := range map[string]struct {
		fields []string
		remote string // without the port where there is none
	}{
		"one proxy":                  {[]string{"192.0.2.1"}, "192.0.2.1:0"},
		"two proxies":                {[]string{"192.0.2.1, 10.1.1.1"}, "192.0.2.1:0"},
		"over two lines":             {[]string{"192.0.2.1", "10.1.1.1"}, "192.0.2.1:0"},
		"what a client says of it":   {[]string{"198.51.100.9, 192.0.2.1"}, "192.0.2.1:0"},
		"what it says in its line":   {[]string{"198.51.100.9", "192.0.2.1, 10.1.1.1"}, "192.0.2.1:0"},
		"a lie of a trusted address": {[]string{"10.9.9.9, 192.0.2.1"}, "192.0.2.1:0"},
		"IPv6":                       {[]string{"2001:db8::1"}, "[2001:db8::1]:0"},
		"IPv6 in brackets":           {[]string{"[2001:db8::1]"}, "[2001:db8::1]:0"},
		"with ports":                 {[]string{"[2001:db8::1]:77, 10.1.1.1:99"}, "[2001:db8::1]:77"},
		"mapped":                     {[]string{"::ffff:192.0.2.1"}, "192.0.2.1:0"},
		"mapped proxy":               {[]string{"192.0.2.1,::ffff:10.0.0.1"}, "192.0.2.1:0"},
		"only proxies":               {[]string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1:0"},
		"unknown":                    {[]string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2:0"},
		"nothing that can be read":   {[]string{"192.0.2.1, unknown"}, "127.0.0.1"},
		"empty":                      {[]string{""}, "127.0.0.1"},
		"none":                       {nil, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var more []string
			for _, f := range c.fields {
				more = append(more, "X-Forwarded-For: "+f)
			}
			p := knock(t, s)
			p.send([]byte(request("/echo", more...)))
			if resp, _ := p.response(); resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(resp.Status)
			}
			want := c.remote
			if want == "127.0.0.1" {
				want = p.conn.LocalAddr().String()
			}
			if all := remotes(t, s); len(all) != 1 || all[0] != want {
				t.Errorf("%v, want %s", all, want)
			}
			_ = p.conn.Close()
			eventually(t, "gone", func() bool { return s.Stats().Connections == 0 })
		})
	}
}

// TestForwardedForOfStrangers: without trust, whoever connects is the client.
func TestForwardedForOfStrangers(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		o.Proxy = gateway.ProxyOptions{Protocol: true, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	})
	p := knock(t, s)
	p.send([]byte(request("/echo", "X-Forwarded-For: 192.0.2.1")))
	if resp, _ := p.response(); resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	if all := remotes(t, s); len(all) != 1 || all[0] != p.conn.LocalAddr().String() {
		t.Errorf("%v, want %s", all, p.conn.LocalAddr())
	}
	liar := knock(t, s)
	liar.send([]byte("PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n" + request("/echo")))
	if resp, _ := liar.response(); resp.StatusCode != http.StatusBadRequest {
		t.Error(resp.Status)
	}
}

// proxyV2 is a header of version 2 for a connection from an IPv4 address.
func proxyV2(command byte, source netip.AddrPort) string {
	b := []byte("\r\n\r\n\x00\r\nQUIT\n")
	b = append(b, 0x20|command, 0x11, 0, 12)
	b = append(b, source.Addr().AsSlice()...)
	b = append(b, 10, 0, 0, 1)
	b = binary.BigEndian.AppendUint16(b, source.Port())
	return string(append(b, 0, 80))
}

func TestProxyProtocol(t *testing.T) {
	s := start(t, behindProxies(true, nil))
	client := netip.MustParseAddrPort("192.0.2.1:4242")
	for name, c := range map[string]struct{ header, field, remote string }{
		"version 1": {"PROXY TCP4 192.0.2.1 10.0.0.1 4242 80\r\n", "", client.String()},
		"version 2": {proxyV2(1, client), "", client.String()},
		// The client speaks to the proxy itself: what it says of others is not believed.
		"a client that lies": {proxyV2(1, client), "198.51.100.9", client.String()},
		// The one behind it has an HTTP proxy of ours before it.
		"a proxy behind a proxy": {proxyV2(1, netip.MustParseAddrPort("10.1.1.1:1")), "198.51.100.9", "198.51.100.9:0"},
		"the proxy's own":        {proxyV2(0, client), "", ""},
		"unknown":                {"PROXY UNKNOWN\r\n", "", ""},
	} {
		for _, pieces := range []int{1, 7} {
			p := knock(t, s)
			req := request("/echo")
			if c.field != "" {
				req = request("/echo", "X-Forwarded-For: "+c.field)
			}
			all := c.header + req
			for i := range pieces { // each written by itself, so that they mostly come apart
				p.send([]byte(all[len(all)*i/pieces : len(all)*(i+1)/pieces]))
			}
			if resp, _ := p.response(); resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%s: %s", name, resp.Status)
			}
			want := c.remote
			if want == "" {
				want = p.conn.LocalAddr().String()
			}
			if all := remotes(t, s); len(all) != 1 || all[0] != want {
				t.Errorf("%s: %v, want %s", name, all, want)
			}
			_ = p.conn.Close()
			eventually(t, "gone", func() bool { return s.Stats().Connections == 0 })
		}
	}
}

// TestMalformedProxyHeader: a proxy that is set up wrongly must show, not be
// taken for a client.
func TestMalformedProxyHeader(t *testing.T) {
	s := start(t, behindProxies(true, nil))
	for i, header := range []string{"", "PROXY TCP4 nobody 10.0.0.1 1 2\r\n", "\r\n\r\n\x00\r\nQUIT\r", strings.Repeat("P", 3000)} {
		p := knock(t, s)
		p.send([]byte(header + request("/echo")))
		if answer, err := io.ReadAll(p.br); len(answer) > 0 {
			t.Errorf("%q: answer %q, %v", header, answer, err)
		}
		eventually(t, "counted", func() bool { return s.Stats().BadProxy == uint64(i+1) })
	}
}

// TestLimitsOfClientsBehindAProxy: limits count clients, and never the proxy.
func TestLimitsOfClientsBehindAProxy(t *testing.T) {
	for name, protocol := range map[string]bool{"X-Forwarded-For": false, "PROXY protocol": true} {
		t.Run(name, func(t *testing.T) {
			s := start(t, behindProxies(protocol, func(l *gateway.Limits) {
				l.ConnectionsPerIP = 2
				l.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
			}))
			come := func(from string, want int) *peer {
				p := knock(t, s)
				switch {
				case from == "": // the proxy itself
					p.send([]byte(map[bool]string{true: "PROXY UNKNOWN\r\n"}[protocol] + request("/echo")))
				case protocol:
					p.send([]byte("PROXY TCP6 " + from + " ::1 1 2\r\n" + request("/echo")))
				default:
					p.send([]byte(request("/echo", "X-Forwarded-For: "+from)))
				}
				if resp, _ := p.response(); resp.StatusCode != want {
					t.Errorf("%q: %s, want %d", from, resp.Status, want)
				}
				return p
			}
			const ok, no, denied = http.StatusSwitchingProtocols, http.StatusServiceUnavailable, http.StatusForbidden
			first := come("2001:db8::1", ok)
			come("2001:db8::2", ok) // the same /64
			come("2001:db8::3", no)
			come("2001:db8:1::1", ok)
			for range 3 {
				come("", ok)
			}
			come("::ffff:198.51.100.7", denied)
			if stats := s.Stats(); stats.Denied != 1 || stats.Refused != 1 {
				t.Errorf("%d denied, %d refused", stats.Denied, stats.Refused)
			}
			_ = first.conn.Close()
			eventually(t, "room again", func() bool {
				return !slices.ContainsFunc(remotes(t, s), func(r string) bool { return strings.HasPrefix(r, "[2001:db8::1]") })
			})
			come("2001:db8::3", ok)
			come("2001:db8::4", no)
		})
	}
}
