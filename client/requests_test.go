package client

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire"
)

func refreshedFrame(id uint32, expires uint64) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Refreshed{Refreshed: &wire.Refreshed{Id: id, ExpiresAtS: expires}}}
}

func errorFrame(id uint32, code wire.CloseCode, text, filter string) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Error{Error: &wire.Error{Id: id, Code: uint32(code), Text: text, Filter: filter}}}
}

func TestSubscribeOptionsOnTheWire(t *testing.T) {
	asked := make(chan *wire.Subscribe, 1)
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		m := p.request().GetSubscribe()
		asked <- m
		p.send(subscribedFrame(m.GetId(), []string{"a", "b:*"}))
		p.wait()
	})
	conn := mustDial(t, g.options())
	opts := SubscribeOptions{MaxRate: 0.5, MaxAge: 1500*time.Millisecond + 1, Cursor: []byte("c"), Since: []Position{{"a", 7, 3}}}
	if _, err := conn.SubscribeWith(t.Context(), opts, "a", "b:*"); err != nil {
		t.Fatal(err)
	}
	m := <-asked
	for i, filter := range []string{"a", "b:*"} {
		s := m.GetSubscriptions()[i]
		if s.GetFilter() != filter || s.GetMaxRate() != 0.5 || s.GetMaxAgeMs() != 1501 {
			t.Errorf("subscription %d: %v", i, s)
		}
	}
	if string(m.GetCursor()) != "c" || len(m.GetSince()) != 1 {
		t.Errorf("cursor %q, since %v", m.GetCursor(), m.GetSince())
	}
	for _, bad := range []SubscribeOptions{{MaxRate: -1}, {MaxRate: math.NaN()}, {MaxRate: math.Inf(1)}, {MaxAge: -1}, {MaxAge: 50 * 24 * time.Hour}} {
		if _, err := conn.SubscribeWith(t.Context(), bad, "a"); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestRefresh(t *testing.T) {
	expires := time.Unix(1_800_000_000, 0)
	g := newFakeGateway(t, func(p *peer) {
		hello := p.request().GetConnect()
		f := connectedFrame(0)
		f.GetConnected().ExpiresAtS = uint64(expires.Unix())
		p.send(f)
		if hello.GetToken() != "first" {
			t.Errorf("token %q", hello.GetToken())
		}
		plaintext := p.receive()
		f2, err := wire.ParseClientFrame(plaintext)
		if err != nil || f2.GetRefresh().GetToken() != "second" || len(plaintext) != connectSize {
			t.Errorf("%v, %v, %d bytes", f2, err, len(plaintext))
		}
		p.send(refreshedFrame(f2.GetRefresh().GetId(), uint64(expires.Unix())+60))
		p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Unsubscribed{Unsubscribed: &wire.Unsubscribed{Filters: []string{"b"}}}})
		p.send(errorFrame(0, wire.CloseForbidden, "no more", "b"))
		p.send(errorFrame(p.request().GetRefresh().GetId(), wire.CloseUnauthenticated, "expired", ""))
		p.send(refreshedFrame(p.request().GetRefresh().GetId(), 0))
		p.wait()
	})
	opts := g.options()
	opts.TokenSource = func(ctx context.Context) (string, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the token source may take any time")
		}
		return "first", nil
	}
	conn := mustDial(t, opts)
	if got := conn.Info().ExpiresAt; !got.Equal(expires) {
		t.Errorf("expires at %v", got)
	}
	if got, err := conn.Refresh(t.Context(), "second"); err != nil || !got.Equal(expires.Add(time.Minute)) {
		t.Errorf("%v, %v", got, err)
	}
	var refused *RequestError
	if _, err := conn.Refresh(t.Context(), "third"); !errors.As(err, &refused) || refused.Code != wire.CloseUnauthenticated {
		t.Errorf("refused: %v", err)
	}
	if got, err := conn.Refresh(t.Context(), "fourth"); err != nil || !got.IsZero() {
		t.Errorf("without expiry: %v, %v", got, err)
	}
	expect(t, conn, "*client.Refused {b 4403 not allowed no more}")
}

func TestTokenSourceFails(t *testing.T) {
	broken := errors.New("no network")
	opts := Options{Insecure: true, TokenSource: func(context.Context) (string, error) { return "", broken }}
	if _, err := Dial(t.Context(), testURL, opts); !errors.Is(err, ErrToken) || !errors.Is(err, broken) || !strings.Contains(err.Error(), "token") {
		t.Errorf("%v", err)
	}
}
