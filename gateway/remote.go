package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway/proxyproto"
	"github.com/sealcast/sealcast/gateway/upgrade"
)

// ProxyOptions say whose word about a client's address counts.
type ProxyOptions struct {
	Trusted  []netip.Prefix // networks of proxies
	Protocol bool           // connections from there begin with a PROXY protocol header
}

// trusts tells whether an address is that of a proxy whose word counts.
func (p *ProxyOptions) trusts(addr netip.Addr) bool { return contains(p.Trusted, addr) }

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// peerOf is the address at the other end of a connection; not valid when it is
// not one of TCP.
func peerOf(addr net.Addr) netip.AddrPort {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	peer := tcp.AddrPort()
	return netip.AddrPortFrom(peer.Addr().Unmap().WithZone(""), peer.Port())
}

// onPreamble takes the PROXY protocol header that a trusted proxy puts before
// everything else. It returns how much of buf belongs to it.
func (c *conn) onPreamble(buf []byte) int {
	before, all := c.gather(buf)
	source, n, err := proxyproto.Parse(all)
	switch {
	case err != nil:
		c.loop.gateway.stats.badProxy.Add(1)
		c.loop.gateway.log.Debug("trusted proxy", zap.Uint64("conn", c.id), zap.Stringer("remote", c.remote), zap.Error(err))
		_ = c.loop.el.Close(c.gc) // the proxy would not understand an answer
		return len(buf)
	case n == 0:
		return len(buf)
	}
	c.arrival.request = nil
	c.move(phaseUpgrade)
	if source.IsValid() {
		c.identify(source)
	}
	return n - before
}

// gather adds buf to what has come of a request or a header before. It returns
// how much that was, and everything.
func (c *conn) gather(buf []byte) (before int, all []byte) {
	a := c.arrival
	before = len(a.request)
	a.request = append(a.request, buf...)
	return before, a.request
}

// identify takes a client's address from a proxy that is trusted and judges it
// like admit one that connects by itself. It reports false when the client is
// refused.
func (c *conn) identify(client netip.AddrPort) bool {
	g, opts := c.loop.gateway, c.loop.settings()
	c.remote = client
	if opts.Limits.denies(client.Addr()) {
		g.stats.denied.Add(1)
		c.reject(upgrade.Reject(http.StatusForbidden, "this address is not allowed"))
		return false
	}
	if opts.Proxy.trusts(client.Addr()) {
		return true // still a proxy
	}
	if !g.admission.enter(sourceOf(client.Addr()), opts.Limits.ConnectionsPerIP) {
		g.stats.refused.Add(1)
		c.reject(tooManyOfOne)
		return false
	}
	c.counted = true
	return true
}

// forwarded is the client that X-Forwarded-For names: the last address that is
// not a trusted proxy's, because each proxy appends whom it has the request from,
// and what stands before a client's own address is what that client says. ok is
// false when nothing of it can be believed. A port is 0 unless it is named.
func (p *ProxyOptions) forwarded(values []string) (client netip.AddrPort, ok bool) {
	for _, value := range slices.Backward(values) {
		for hops := value; hops != ""; {
			i := strings.LastIndexByte(hops, ',')
			hop, valid := parseHop(hops[i+1:])
			if !valid {
				return client, ok
			}
			if client, ok = hop, true; !p.trusts(hop.Addr()) {
				return client, true
			}
			hops = hops[:max(i, 0)]
		}
	}
	return client, ok
}

// parseHop reads an address, with or without a port.
func parseHop(s string) (netip.AddrPort, bool) {
	s = strings.Trim(s, " \t")
	hop, err := netip.ParseAddrPort(s)
	if err != nil {
		var addr netip.Addr
		if addr, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err != nil {
			return hop, false
		}
		hop = netip.AddrPortFrom(addr, 0)
	}
	return netip.AddrPortFrom(hop.Addr().Unmap().WithZone(""), hop.Port()), true
}
