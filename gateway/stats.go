package gateway

import "sync/atomic"

// counters are written by the loops and the acceptor, read by Stats.
type counters struct {
	accepted         atomic.Uint64
	refused          atomic.Uint64
	denied           atomic.Uint64
	enrollFailed     atomic.Uint64
	handshakes       atomic.Uint64
	resumed          atomic.Uint64
	ticketsRefused   atomic.Uint64
	handshakesFailed atomic.Uint64
	handshakesBusy   atomic.Uint64
	recordsOpened    atomic.Uint64
	delivered        atomic.Uint64
	tooSlow          atomic.Uint64
	panics           atomic.Uint64
}

// Stats is what the gateway has counted since its start.
type Stats struct {
	Connections      int64  // open now
	Accepted         uint64 // connections handed to a loop
	Refused          uint64 // told 503 or closed because of the connection limit
	Denied           uint64 // closed because of the deny list
	EnrollFailed     uint64 // accepted, but not taken by a loop
	Handshakes       uint64 // completed
	Resumed          uint64 // of these, with a ticket
	TicketsRefused   uint64 // the client went on with a full handshake
	HandshakesFailed uint64
	HandshakesBusy   uint64 // refused with 1013 because all workers were busy
	RecordsOpened    uint64
	Delivered        uint64 // ticks sealed for a session
	TooSlow          uint64 // sessions ended with 4413
	Panics           uint64
}

// Stats is safe for concurrent use.
func (g *Gateway) Stats() Stats {
	s := &g.stats
	return Stats{
		Connections:      g.conns.Load(),
		Accepted:         s.accepted.Load(),
		Refused:          s.refused.Load(),
		Denied:           s.denied.Load(),
		EnrollFailed:     s.enrollFailed.Load(),
		Handshakes:       s.handshakes.Load(),
		Resumed:          s.resumed.Load(),
		TicketsRefused:   s.ticketsRefused.Load(),
		HandshakesFailed: s.handshakesFailed.Load(),
		HandshakesBusy:   s.handshakesBusy.Load(),
		RecordsOpened:    s.recordsOpened.Load(),
		Delivered:        s.delivered.Load(),
		TooSlow:          s.tooSlow.Load(),
		Panics:           s.panics.Load(),
	}
}
