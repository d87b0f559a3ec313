package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/auth"
)

const (
	maxBody = 4 << 10
	maxBan  = 366 * 24 * time.Hour
)

// revocation is what is told of one; revocationPage is ordered by kind and value,
// and Next is what ?after= takes.
type (
	revocation struct {
		Kind  auth.Kind `json:"kind"` // user, session or token
		Value string    `json:"value"`
		Since time.Time `json:"since"`
		Until time.Time `json:"until"`
		Ban   bool      `json:"ban"` // of a user: later tokens are refused, too
	}
	revocationPage struct {
		Revocations []revocation `json:"revocations"`
		Next        string       `json:"next,omitempty"`
	}
	// revokeRequest names one of User, Session and Token.
	revokeRequest struct {
		User    string `json:"user"`
		Session string `json:"session"` // a login, or a session's id on this gateway
		Token   string `json:"token"`   // its jti
		For     string `json:"for"`     // a duration such as 1h
	}
)

func shown(r auth.Revocation) revocation {
	return revocation{r.Kind, r.Value, time.UnixMilli(r.At).UTC(), time.UnixMilli(r.Until).UTC(), r.Ban}
}

// addRevocation serves the list of revocations.
func addRevocation(mux *http.ServeMux, o Options) {
	mux.HandleFunc("GET /v1/revoke", o.asking(listRevocations))
	mux.HandleFunc("POST /v1/revoke", o.asking(revoke))
	mux.HandleFunc("DELETE /v1/revoke", o.asking(lift))
}

func listRevocations(_ context.Context, g Gateway, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if err := known(q, "after", "limit"); err != nil {
		return err
	}
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	found, more := g.Revocations(q.Get("after"), limit)
	page := revocationPage{Revocations: make([]revocation, len(found))}
	for i, e := range found {
		page.Revocations[i] = shown(e)
	}
	if more {
		page.Next = found[len(found)-1].Place()
	}
	writeJSON(w, page)
	return nil
}

func revoke(ctx context.Context, g Gateway, w http.ResponseWriter, r *http.Request) error {
	if err := known(r.URL.Query()); err != nil {
		return err
	}
	var ask revokeRequest
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(&ask)
	if _, more := d.Token(); err != nil || !errors.Is(more, io.EOF) {
		return badRequest(`the body is a JSON object such as {"user": "ann", "for": "1h"}, with one of user, session, token`)
	}
	kind, value, err := subject(ask.User, ask.Session, ask.Token)
	if err != nil {
		return err
	}
	duration := time.Duration(0)
	if ask.For != "" {
		if duration, err = time.ParseDuration(ask.For); err != nil || duration < time.Second || duration > maxBan {
			return badRequest("for is a duration from 1s to 8784h, such as 15m or 24h")
		}
	}
	done, err := g.Revoke(ctx, kind, value, duration, r.RemoteAddr)
	switch {
	case errors.Is(err, gateway.ErrNoSession):
		text(w, http.StatusNotFound, fmt.Sprintf("there is no session %s on this gateway; its login, from /v1/sessions, can be revoked everywhere\n", value))
		return nil
	case errors.Is(err, auth.ErrRevocation):
		return badRequest(err.Error())
	case err != nil:
		return err
	}
	writeJSON(w, shown(done))
	return nil
}

func lift(_ context.Context, g Gateway, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if err := known(q, "user", "session", "token"); err != nil {
		return err
	}
	kind, value, err := subject(q.Get("user"), q.Get("session"), q.Get("token"))
	if err != nil {
		return err
	}
	if !g.Lift(kind, value, r.RemoteAddr) {
		text(w, http.StatusNotFound, "nothing of the kind is revoked\n")
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// subject is the one of three that is given.
func subject(user, session, token string) (kind auth.Kind, value string, err error) {
	n := 0
	for _, s := range []struct {
		kind  auth.Kind
		value string
	}{{auth.KindUser, user}, {auth.KindSession, session}, {auth.KindToken, token}} {
		if s.value != "" {
			kind, value = s.kind, s.value
			n++
		}
	}
	if n != 1 {
		return "", "", badRequest("name exactly one of user, session, token")
	}
	return kind, value, nil
}
