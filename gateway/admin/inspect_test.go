package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

func get[T any](t *testing.T, h http.Handler, path string) (page T) {
	t.Helper()
	w := ask(h, "GET", path)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	return page
}

func TestInspectionNeedsGoodRequests(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{
		"GET /v1/sessions?limit=0":                               "400 limit is a number from 1 to 1000",
		"GET /v1/sessions?limit=1001":                            "400 limit is a number from 1 to 1000",
		"GET /v1/topics?limit=x":                                 "400 limit is a number from 1 to 1000",
		"GET /v1/sessions?after=-1":                              "400 after is a number",
		"GET /v1/sessions?usr=a":                                 `400 unknown parameter "usr"`,
		"GET /v1/topics?user=a":                                  `400 unknown parameter "user"`,
		"DELETE /v1/sessions/x":                                  "400 a session's id is a number",
		"DELETE /v1/sessions/1?reconnect=maybe":                  "400 reconnect is true or false",
		"DELETE /v1/sessions/1?reconect=true":                    `400 unknown parameter "reconect"`,
		"DELETE /v1/sessions/7":                                  "404 there is no session 7",
		"DELETE /v1/sessions":                                    "405 Method Not Allowed",
		"POST /v1/sessions/7":                                    "405 Method Not Allowed",
		"GET /v1/sessions":                                       "200 {\n  \"sessions\": []\n}",
		"GET /v1/topics?after=99999999999999999":                 "200 {\n  \"topics\": []\n}",
		"GET /v1/sessions?after=18446744073709551615&limit=1000": "200 {\n  \"sessions\": []\n}",
	} {
		method, url, _ := strings.Cut(path, " ")
		got := ask(w, method, url)
		if s := fmt.Sprintf("%d %s", got.Code, got.Body); !strings.HasPrefix(s, want) {
			t.Errorf("%s: %s, want %s", path, s, want)
		}
	}
	for _, path := range []string{"/v1/sessions", "/v1/topics"} {
		if got := ask(Handler(options()), "GET", path); got.Code != 503 || got.Body.String() != "starting\n" {
			t.Errorf("%s while starting: %d %s", path, got.Code, got.Body)
		}
	}
}

func TestSessions(t *testing.T) {
	w := newWorld(t)
	opts := w.client("a client with a name that is longer than anybody needs: ééééééééé", suite.ChaCha20Poly1305)
	opts.Version = "v7"
	push := w.dial(opts)
	w.subscribe(push, "md:a", "md:*")
	echo, err := client.DialEcho(t.Context(), "ws://"+w.addr+"/echo", w.client("", suite.AES128GCM))
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close(context.Background())

	page := get[sessionPage](t, w, "/v1/sessions")
	if len(page.Sessions) != 2 || page.Next != 0 {
		t.Fatalf("got %+v", page)
	}
	got := page.Sessions[0]
	if time.Since(got.Since) > time.Minute || !strings.HasPrefix(got.Remote, "127.0.0.1:") {
		t.Errorf("got %+v", got)
	}
	want := gateway.SessionInfo{ID: 1, Remote: got.Remote, Role: "push", Suite: "chacha20-poly1305", Seal: "session", Hybrid: push.Info().Hybrid, Phase: "open", Since: got.Since, Login: got.Login,
		Client: "a client with a name that is longer than anybody needs: éééé", ClientVersion: "v7", Subscriptions: 2}
	if got != want || !strings.HasSuffix(got.Login, "-1") {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if e := page.Sessions[1]; e.Role != "echo" || e.Suite != "aes-128-gcm" || e.Seal != "session" || e.Client != "" || e.Subscriptions != 0 {
		t.Errorf("got %+v", e)
	}
	if other := get[sessionPage](t, w, "/v1/sessions?user=nobody"); len(other.Sessions) != 0 {
		t.Errorf("of a user that is not there: %+v", other)
	}
}

// TestSessionsPagedWhileOthersComeAndGo: who is there all the time stands on
// exactly one page, and pages are in order.
func TestSessionsPagedWhileOthersComeAndGo(t *testing.T) {
	w := newWorld(t)
	const steady = 23
	for range steady {
		w.dial(w.client("steady", suite.AES128GCM))
	}
	stop, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c, err := client.Dial(t.Context(), "ws://"+w.addr+"/ws", w.client("brief", suite.AES128GCM)); err == nil {
				_ = c.Close(context.Background())
			}
		}
	}()
	for range 10 {
		seen, last := 0, uint64(0)
		for url := "/v1/sessions?limit=7"; url != ""; {
			page := get[sessionPage](t, w, url)
			if len(page.Sessions) > 7 {
				t.Fatalf("%d on a page of 7", len(page.Sessions))
			}
			for _, s := range page.Sessions {
				if s.ID <= last {
					t.Fatalf("%d comes after %d", s.ID, last)
				}
				last = s.ID
				if s.Client == "steady" {
					seen++
				}
			}
			url = ""
			if page.Next != 0 {
				url = fmt.Sprintf("/v1/sessions?limit=7&after=%d", page.Next)
			}
		}
		if seen != steady {
			t.Errorf("%d of %d seen", seen, steady)
		}
	}
	close(stop)
	<-gone
}

func TestDeleteEndsASessionWithASealedGoodbye(t *testing.T) {
	w := newWorld(t)
	for query, want := range map[string]wire.CloseCode{"": wire.CloseForbidden, "?reconnect=false": wire.CloseForbidden, "?reconnect=true": wire.CloseRestart} {
		c := w.dial(w.client("victim", suite.AES128GCM))
		sessions := get[sessionPage](t, w, "/v1/sessions").Sessions
		i := slices.IndexFunc(sessions, func(s gateway.SessionInfo) bool { return s.Phase == "open" })
		url := fmt.Sprintf("/v1/sessions/%d%s", sessions[i].ID, query)
		if got := ask(w, "DELETE", url); got.Code != http.StatusNoContent || got.Body.Len() != 0 {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		_, err := c.Next(t.Context())
		var closed *client.ClosedError
		if !errors.As(err, &closed) || !closed.Final || closed.Code != want || closed.Text != "ended by the operator" {
			t.Errorf("%q: the client saw %v", query, err)
		}
		_ = c.Close(context.Background())
		w.eventually("gone", func() bool { return w.gateway.Stats().Connections == 0 })
		if got := ask(w, "DELETE", url); got.Code != http.StatusNotFound {
			t.Errorf("again: %d %s", got.Code, got.Body)
		}
	}
}

func TestTopics(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.dial(w.client("a", suite.AES128GCM)), w.dial(w.client("b", suite.AES128GCM)), w.dial(w.client("c", suite.AES128GCM))
	w.subscribe(a, "md:a", "md:*") // two filters, one subscriber
	w.subscribe(b, "md:*")
	w.subscribe(c, "md:b")
	for range 3 {
		w.redis.Publish("md:a", "x")
	}
	w.redis.Publish("md:c", "x")
	for range 3 {
		w.nextTick(a)
	}
	tick := w.nextTick(a)
	for range 4 {
		w.nextTick(b)
	}
	if tick.Topic != "md:c" {
		t.Fatalf("got %+v", tick)
	}
	var all []gateway.TopicInfo
	for url := "/v1/topics?limit=1"; url != ""; {
		page := get[topicPage](t, w, url)
		if len(page.Topics) != 1 {
			t.Fatalf("%s: %+v", url, page)
		}
		all = append(all, page.Topics...)
		url = ""
		if page.Next != 0 {
			url = fmt.Sprintf("/v1/topics?limit=1&after=%d", page.Next)
		}
	}
	if whole := get[topicPage](t, w, "/v1/topics").Topics; !slices.Equal(whole, all) {
		t.Errorf("in one page %+v, in many %+v", whole, all)
	}
	got := map[string]string{}
	for _, topic := range all {
		if topic.Number == 0 || topic.Epoch == 0 {
			t.Errorf("got %+v", topic)
		}
		got[topic.Name] = fmt.Sprintf("seq %d, %d subscribers", topic.Seq, topic.Subscribers)
	}
	for name, want := range map[string]string{"md:a": "seq 3, 2 subscribers", "md:b": "seq 0, 3 subscribers", "md:c": "seq 1, 2 subscribers"} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
}

func TestInspectionAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	w.dial(w.client("a", suite.AES128GCM)).Close(context.Background())
	if err := w.gateway.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"GET /v1/sessions", "GET /v1/topics", "DELETE /v1/sessions/1"} {
		method, url, _ := strings.Cut(path, " ")
		if got := ask(w, method, url); got.Code != 503 || got.Body.String() != "the gateway is ending\n" {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
}
