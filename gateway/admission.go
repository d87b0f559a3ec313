package gateway

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// admission keeps the count of connections per source and the rates of
// connections and handshakes. It is safe for concurrent use.
type admission struct {
	arrivals, handshakes *rate.Limiter

	mu      sync.Mutex
	sources map[netip.Addr]int
}

func newAdmission() *admission {
	return &admission{arrivals: rate.NewLimiter(rate.Inf, 0), handshakes: rate.NewLimiter(rate.Inf, 0),
		sources: make(map[netip.Addr]int)}
}

// setRate allows so many a second, with a second's worth at once; 0 is any number.
func setRate(l *rate.Limiter, perSecond int) {
	if perSecond == 0 {
		l.SetLimit(rate.Inf)
		return
	}
	l.SetBurst(perSecond)
	l.SetLimit(rate.Limit(perSecond))
}

// sourceOf is what connections are counted by: an IPv4 address, or the /64 of an
// IPv6 address, which one customer has as a whole.
func sourceOf(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	return netip.PrefixFrom(ip, 64).Masked().Addr()
}

// enter counts a connection of a source, unless it has limit already; 0 is no limit.
func (a *admission) enter(source netip.Addr, limit int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit > 0 && a.sources[source] >= limit {
		return false
	}
	a.sources[source]++
	return true
}

func (a *admission) leave(source netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sources[source]--; a.sources[source] <= 0 {
		delete(a.sources, source)
	}
}

// denies tells whether an address is in the deny list.
func (l *Limits) denies(addr netip.Addr) bool { return contains(l.Deny, addr) }

// allowsOrigin tells whether a page of this origin may connect. Without the
// header the client is no browser, and the header would prove nothing.
func (s *Settings) allowsOrigin(origin string) bool {
	same := func(o string) bool { return strings.EqualFold(o, origin) }
	return origin == "" || len(s.Origins) == 0 || slices.ContainsFunc(s.Origins, same) || slices.ContainsFunc(s.OwnPage, same)
}
