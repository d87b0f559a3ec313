package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealcast/sealcast/wire"
)

func TestRefusedTokenIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := make(chan string, 10)
		g := newScriptedGateway(t, func(p *peer) {
			p.connected()
			p.goodbye(wire.CloseUnauthenticated, "expired")
		}, func(p *peer) {
			shown <- p.connected().GetToken()
			p.wait()
		})
		given := []string{"old", "old", "old", "new"}
		opts := g.options()
		opts.TokenSource = func(context.Context) (string, error) {
			token := given[0]
			given = given[1:]
			return token, nil
		}
		c := mustOpen(t, opts)
		expectSaid(t, c, "disconnected 4401 final true")
		for range 2 {
			e, err := c.Next(t.Context())
			if d, ok := e.(*Disconnected); err != nil || !ok || !errors.Is(d.Err, ErrToken) {
				t.Errorf("%v, %v", e, err)
			}
		}
		expectSaid(t, c, "connected 7")
		if token := <-shown; token != "new" || len(shown) > 0 {
			t.Errorf("the gateway was shown %q and %d more", token, len(shown))
		}
	})
}

func TestTokenIsRenewedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expires := noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_TOKEN_EXPIRES, ExpiresAtS: uint64(time.Now().Add(time.Minute).Unix())})
		g := newScriptedGateway(t, func(p *peer) {
			p.connected()
			p.send(expires)
			m := p.request().GetRefresh() // comes after two failures of the source
			p.send(errorFrame(m.GetId(), wire.CloseTryLater, "busy", ""))
			m = p.request().GetRefresh()
			if m.GetToken() != "fourth" {
				t.Errorf("token %q", m.GetToken())
			}
			p.send(refreshedFrame(m.GetId(), 0))
			p.batch()
			p.wait()
		})
		calls := 0
		opts := g.options()
		opts.TokenSource = func(ctx context.Context) (string, error) {
			calls++
			if calls == 2 {
				<-ctx.Done() // takes too long
				return "", ctx.Err()
			}
			return []string{"", "first", "", "third", "fourth"}[calls], nil
		}
		c := mustOpen(t, opts)
		e, err := c.Next(t.Context())
		if n, ok := e.(*Notice); err != nil || !ok || n.Kind != wire.Notice_KIND_TOKEN_EXPIRES {
			t.Fatalf("%v, %v", e, err)
		}
		expectSaid(t, c,
			"*client.Refused { 4401 not authenticated the token was not renewed: context deadline exceeded}",
			"*client.Refused { 4401 not authenticated the token was not renewed: request refused: 1013 try again later (busy)}")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if e, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || calls != 4 {
			t.Errorf("%v, %v after %d calls", e, err, calls)
		}
	})
}

func TestRefreshHoldsForLaterConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newScriptedGateway(t, func(p *peer) {
			p.connected()
			p.send(refreshedFrame(p.request().GetRefresh().GetId(), 77))
			p.send(errorFrame(p.request().GetRefresh().GetId(), wire.CloseUnauthenticated, "bad", ""))
		}, func(p *peer) {
			if token := p.connected().GetToken(); token != "two" {
				t.Errorf("token %q", token)
			}
		}, func(p *peer) {
			if token := p.connected().GetToken(); token != "four" {
				t.Errorf("token %q", token)
			}
			p.wait()
		})
		opts := g.options()
		opts.Token = "one"
		c := mustOpen(t, opts)
		if at, err := c.Refresh(t.Context(), "two"); err != nil || at.Unix() != 77 {
			t.Errorf("%v, %v", at, err)
		}
		if _, err := c.Refresh(t.Context(), "three"); !errors.Is(err, ErrRequest) {
			t.Errorf("%v", err)
		}
		expectSaid(t, c, "disconnected 0 final false", "connected 7", "disconnected 0 final false")
		if _, err := c.Refresh(t.Context(), "four"); err != nil { // while there is no connection
			t.Error(err)
		}
		expectSaid(t, c, "connected 7")
	})
}
