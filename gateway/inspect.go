package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
	"unique"

	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/wire"
)

// errEnding is why the loops are not asked any more.
var errEnding = errors.New("the gateway is ending")

// lookAtOnce is how many entries a loop looks at for an inspection before it
// serves its connections again: well under a millisecond of work.
const lookAtOnce = 2048

// SessionInfo is what operators see of one connection.
type SessionInfo struct {
	ID            uint64    `json:"id"`     // as told to the client in Connected
	Remote        string    `json:"remote"` // the client's own address, as a trusted proxy tells it; port 0 if that does not say
	Role          string    `json:"role"`   // push or echo; empty before the upgrade
	Suite         string    `json:"suite"`  // empty on the unencrypted echo
	Seal          string    `json:"seal"`   // group while batches are sealed once for it and others, else session; empty as suite
	Hybrid        bool      `json:"hybrid"`
	Resumed       bool      `json:"resumed"`
	Phase         string    `json:"phase"`
	Since         time.Time `json:"since"`          // when the phase began
	Client        string    `json:"client"`         // as it calls itself, shortened
	ClientVersion string    `json:"client_version"` // likewise
	User          string    `json:"user"`           // empty without authentication
	Login         string    `json:"login"`          // what the session goes back to; empty before Connect
	ExpiresAt     int64     `json:"expires_at"`     // of the token, Unix seconds; 0: never
	Subscriptions int       `json:"subscriptions"`
	QueueBytes    int       `json:"queue_bytes"` // that its socket has not taken yet
}

// identity is who a push session says it is.
type identity struct {
	client unique.Handle[clientName]

	grant *auth.Grant // nil before Connect; everybody without a name has the same
	stamp *auth.Stamp // nil: the session is not the registered one of its user
	// noticeAt is when the client is to be told that its token expires, Unix
	// seconds; 0: it has been told.
	noticeAt int64
}

// clientName is what a client calls itself, each at most maxIdentity bytes. Equal
// ones are kept once.
type clientName struct{ name, version string }

// named returns what the client has called itself.
func (w *identity) named() clientName {
	if w.client == (unique.Handle[clientName]{}) {
		return clientName{} // the session has ended
	}
	return w.client.Value()
}

// maxIdentity bounds what is kept of a client's name, in bytes.
const maxIdentity = 64

// shortened is s, cut before a rune.
func shortened(s string) string {
	if len(s) > maxIdentity {
		cut := maxIdentity
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return s
}

// Sessions lists up to limit connections with an id above after, in order of id;
// with a user, only that user's. more tells whether there are others behind them.
// It fails when a loop does not answer before ctx ends.
func (g *Gateway) Sessions(ctx context.Context, after uint64, limit int, user string) (page []SessionInfo, more bool, err error) {
	page, err = collectPage(ctx, g, after, limit+1, func(l *loop, after uint64, room int) ([]SessionInfo, uint64, bool) {
		return l.sessionsAfter(after, room, user)
	})
	slices.SortFunc(page, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	page, more = cutPage(page, limit)
	return page, more, err
}

// sessionsAfter looks at some connections: at most room of them are returned.
// last is the id to go on from, unless it was the end.
func (l *loop) sessionsAfter(after uint64, room int, user string) (found []SessionInfo, last uint64, end bool) {
	places := l.index.conns.places
	i, ok := l.index.conns.at(after)
	if ok {
		i++
	}
	for n := 0; i < len(places); i, n = i+1, n+1 {
		if len(found) == room || n == lookAtOnce {
			return found, places[i-1].id, false
		}
		if c := places[i].conn; c != nil && (user == "" || c.user() == user) {
			found = append(found, c.info())
		}
	}
	return found, 0, true
}

func (c *conn) user() string {
	if c.sub == nil || c.sub.who.grant == nil {
		return ""
	}
	return c.sub.who.grant.User
}

func (c *conn) info() SessionInfo {
	i := SessionInfo{
		ID: c.id, Remote: c.remote.String(), Phase: c.phase.String(),
		Since:      c.loop.started.Add(time.Duration(c.began) * time.Millisecond).UTC().Truncate(time.Millisecond),
		QueueBytes: c.gc.OutboundBuffered(),
	}
	switch {
	case c.sess != nil:
		peer := c.sess.Peer()
		i.Seal = "session"
		i.Role, i.Suite, i.Hybrid, i.Resumed = c.role.String(), c.sess.Suite().String(), peer.Hybrid, peer.Resumed
	case c.phase == phasePlain:
		i.Role = strings.TrimPrefix(pathEcho, "/")
	}
	if c.sub != nil {
		client := c.sub.who.named()
		i.Client, i.ClientVersion, i.User = client.name, client.version, c.user()
		if g := c.sub.who.grant; g != nil {
			i.Login, i.ExpiresAt = c.own(g).Login, g.Expires
		}
		if m := c.sub.member; m != nil && m.in {
			i.Seal = "group"
		}
		i.Subscriptions = len(c.sub.filters)
		if c.sub.slow != nil {
			i.QueueBytes += c.sub.slow.bytes
		}
	}
	return i
}

// EndSession closes a connection: with a sealed Goodbye where there is a session.
// A client that may come back is told 1012 and does so at once; another is told
// 4403 and, if it is ours, stays away. found is false when there is no such
// connection, or when it is closing already. It fails like Sessions.
func (g *Gateway) EndSession(ctx context.Context, id uint64, comeBack bool) (found bool, err error) {
	code, text := wire.CloseForbidden, "ended by the operator"
	if comeBack {
		code = wire.CloseRestart
	}
	for _, l := range *g.loops.Load() {
		here := false
		err := g.ask(ctx, l, func() {
			c := l.index.conns.find(id)
			if here = c != nil && c.phase < phaseClosing; here {
				l.serve(c, func(c *conn) { c.end(code, text) })
			}
		})
		if err != nil {
			return false, err
		}
		if here {
			return true, nil
		}
	}
	return false, nil
}

// ask runs f on a loop and waits for its end. After an error f may still run, so
// what it writes must not be read then.
func (g *Gateway) ask(ctx context.Context, l *loop, f func()) error {
	done := make(chan struct{})
	l.call(func() { defer close(done); f() })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("an event loop does not answer: %w", ctx.Err())
	case <-g.life.stop:
		return errEnding
	}
}

// collectPage asks every loop for its first limit entries above after, in pieces
// that hold up none for long. What comes back is in order within each loop only.
func collectPage[T any](ctx context.Context, g *Gateway, after uint64, limit int,
	look func(l *loop, after uint64, room int) (found []T, last uint64, end bool)) ([]T, error) {
	var all []T
	for _, l := range *g.loops.Load() {
		from, room, end := after, limit, false
		for room > 0 && !end {
			var found []T
			if err := g.ask(ctx, l, func() { found, from, end = look(l, from, room) }); err != nil {
				return nil, err
			}
			all = append(all, found...)
			room -= len(found)
		}
	}
	return all, nil
}

// cutPage shortens what was collected to limit.
func cutPage[T any](page []T, limit int) (_ []T, more bool) {
	if len(page) > limit {
		return page[:limit], true
	}
	return page, false
}
