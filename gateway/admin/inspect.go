package admin

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// askTimeout is how long the event loops may take; they do within milliseconds.
	askTimeout = 5 * time.Second
)

// Pages, oldest first. Next is what ?after= takes for the page behind it, 0 if
// there is none.
type (
	sessionPage struct {
		Sessions []gateway.SessionInfo `json:"sessions"`
		Next     uint64                `json:"next,omitempty"`
	}
	topicPage struct {
		Topics []gateway.TopicInfo `json:"topics"`
		Next   uint64              `json:"next,omitempty"`
	}
)

// addInspection serves sessions and topics.
func addInspection(mux *http.ServeMux, o Options) {
	mux.HandleFunc("GET /v1/sessions", o.asking(listSessions))
	mux.HandleFunc("DELETE /v1/sessions/{id}", o.asking(func(ctx context.Context, g Gateway, w http.ResponseWriter, r *http.Request) error {
		return endSession(ctx, g, o.Log, w, r)
	}))
	mux.HandleFunc("GET /v1/topics", o.asking(listTopics))
}

// badRequest is a fault of the request, worded for who sent it.
type badRequest string

func (b badRequest) Error() string { return string(b) }

// asking answers with what f writes, unless it fails.
func (o Options) asking(f func(context.Context, Gateway, http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g, _ := o.Parts()
		if g == nil {
			text(w, http.StatusServiceUnavailable, "starting\n")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
		defer cancel()
		err := f(ctx, g, w, r)
		if bad, ok := err.(badRequest); ok {
			text(w, http.StatusBadRequest, bad.Error()+"\n")
		} else if err != nil {
			text(w, http.StatusServiceUnavailable, err.Error()+"\n")
		}
	}
}

func listSessions(ctx context.Context, g Gateway, w http.ResponseWriter, r *http.Request) error {
	after, limit, err := pageOf(r.URL.Query(), "user")
	if err != nil {
		return err
	}
	found, more, err := g.Sessions(ctx, after, limit, r.URL.Query().Get("user"))
	if err != nil {
		return err
	}
	page := sessionPage{Sessions: append([]gateway.SessionInfo{}, found...)} // [] rather than null
	if more {
		page.Next = found[len(found)-1].ID
	}
	writeJSON(w, page)
	return nil
}

func listTopics(ctx context.Context, g Gateway, w http.ResponseWriter, r *http.Request) error {
	after, limit, err := pageOf(r.URL.Query())
	if err != nil {
		return err
	}
	found, more, err := g.Topics(ctx, after, limit)
	if err != nil {
		return err
	}
	page := topicPage{Topics: append([]gateway.TopicInfo{}, found...)}
	if more {
		page.Next = uint64(found[len(found)-1].Number)
	}
	writeJSON(w, page)
	return nil
}

func endSession(ctx context.Context, g Gateway, log *zap.Logger, w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return badRequest("a session's id is a number, as in /v1/sessions")
	}
	if err := known(r.URL.Query(), "reconnect"); err != nil {
		return err
	}
	comeBack := false
	if given := r.URL.Query().Get("reconnect"); given != "" {
		if comeBack, err = strconv.ParseBool(given); err != nil {
			return badRequest("reconnect is true or false")
		}
	}
	found, err := g.EndSession(ctx, id, comeBack)
	if err != nil {
		return err
	}
	if !found {
		text(w, http.StatusNotFound, fmt.Sprintf("there is no session %d on this gateway\n", id))
		return nil
	}
	log.Info("session ended through the admin interface", zap.Uint64("conn", id),
		zap.Bool("reconnect", comeBack), zap.String("by", r.RemoteAddr))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// pageOf reads ?after= and ?limit=; others are the further parameters of the path.
func pageOf(q url.Values, others ...string) (after uint64, limit int, err error) {
	if err := known(q, append(others, "after", "limit")...); err != nil {
		return 0, 0, err
	}
	if given := q.Get("after"); given != "" {
		if after, err = strconv.ParseUint(given, 10, 64); err != nil {
			return 0, 0, badRequest(fmt.Sprintf("after is a number from 0 to %d", uint64(math.MaxUint64)))
		}
	}
	limit, err = limitOf(q)
	return after, limit, err
}

// limitOf reads ?limit=.
func limitOf(q url.Values) (int, error) {
	given := q.Get("limit")
	if given == "" {
		return defaultPage, nil
	}
	limit, err := strconv.Atoi(given)
	if err != nil || limit < 1 || limit > maxPage {
		return 0, badRequest(fmt.Sprintf("limit is a number from 1 to %d", maxPage))
	}
	return limit, nil
}

// known refuses a misspelt parameter, which would otherwise select everything.
func known(q url.Values, names ...string) error {
	for name := range q {
		if !slices.Contains(names, name) {
			return badRequest(fmt.Sprintf("unknown parameter %q", name))
		}
	}
	return nil
}
