// Package auth decides whom a bearer token speaks for and what it allows: keys,
// claims, rights as topic patterns, revocations, and which of two sessions of a
// user stays. It knows no connection, and talks to nobody but the server of a
// key set.
//
//	verify.go   a token becomes a Grant, or is refused with a reason
//	keys.go     keys from settings; jwks.go those of a URL
//	rights.go   which filters a Grant covers
//	ticket.go   a Grant as bytes, for a session's ticket
//	revoke.go   what has been taken back
//	message.go  what gateways tell each other of it
package auth

import "time"

// Grant is what a session may do, and in whose name. It is immutable once a
// session has it.
type Grant struct {
	User    string // the token's subject; empty without authentication
	TokenID string // the token's jti; may be empty
	// Login names the verification that the session goes back to, also after it
	// was resumed. The gateway gives it.
	Login string

	Issued        int64 // the token's iat in Unix seconds; 0: it has none
	Authenticated int64 // when the token was taken, Unix milliseconds; 0 without a token
	Expires       int64 // when the session ends, Unix seconds; 0: never

	Rights Rights
	Limits Limits
}

// Limits of a token. 0 is no limit of its own: the gateway's holds. A token
// narrows what the gateway allows and never widens it.
type Limits struct {
	Subscriptions     int
	MessagesPerSecond int
}

// Narrow is the tighter of the gateway's limits and the token's.
func (l Limits) Narrow(gateway Limits) Limits {
	return Limits{narrow(l.Subscriptions, gateway.Subscriptions), narrow(l.MessagesPerSecond, gateway.MessagesPerSecond)}
}

func narrow(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Expired tells whether the session has to end.
func (g *Grant) Expired(now time.Time) bool { return g.Expires != 0 && now.Unix() >= g.Expires }

// Refusal is why a token or a ticket is not taken. Its text goes to the client
// and holds nothing of the token.
type Refusal struct {
	Text string
	// Forbidden: another token does not help (4403); otherwise one does (4401).
	Forbidden bool
}

func (r *Refusal) Error() string { return r.Text }

func refuse(text string) error { return &Refusal{Text: text} }
