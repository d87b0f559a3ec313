package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
	return w
}

func TestRevokeNeedsGoodRequests(t *testing.T) {
	w := newWorld(t)
	const form = "400 the body is a JSON object"
	for request, want := range map[string]string{
		"POST /v1/revoke ":                                             form,
		"POST /v1/revoke user=ann":                                     form,
		`POST /v1/revoke {"usr":"ann"}`:                                form,
		`POST /v1/revoke {"user":"ann"}{}`:                             form,
		`POST /v1/revoke {"user":7}`:                                   form,
		`POST /v1/revoke {"user":"` + strings.Repeat("a", 5000) + `"}`: form,
		`POST /v1/revoke {}`:                                           "400 name exactly one",
		`POST /v1/revoke {"user":"ann","token":"t"}`:                   "400 name exactly one",
		`POST /v1/revoke {"user":"ann","for":"soon"}`:                  "400 for is a duration",
		`POST /v1/revoke {"user":"ann","for":"10ms"}`:                  "400 for is a duration",
		`POST /v1/revoke {"user":"ann","for":"9000h"}`:                 "400 for is a duration",
		`POST /v1/revoke {"user":"` + strings.Repeat("a", 256) + `"}`:  "400 no revocation: a name of 1 to 255 bytes",
		`POST /v1/revoke {"session":"4711"}`:                           "404 there is no session 4711",
		`POST /v1/revoke?user=ann {"user":"ann"}`:                      "400 unknown parameter",
		"DELETE /v1/revoke":                                            "400 name exactly one",
		"DELETE /v1/revoke?user=ann":                                   "404 nothing of the kind",
		"DELETE /v1/revoke?usr=ann":                                    "400 unknown parameter",
		"GET /v1/revoke?limit=0":                                       "400 limit is a number",
		"GET /v1/revoke?user=ann":                                      "400 unknown parameter",
		"GET /v1/revoke":                                               "200 {\n  \"revocations\": []\n}",
		"PUT /v1/revoke":                                               "405 Method Not Allowed",
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		got := httptest.NewRecorder()
		w.ServeHTTP(got, r)
		if s := fmt.Sprintf("%d %s", got.Code, got.Body); !strings.HasPrefix(s, want) {
			t.Errorf("%.80s: %s, want %s", request, s, want)
		}
	}
	if got := ask(Handler(options()), "GET", "/v1/revoke"); got.Code != 503 {
		t.Errorf("while starting: %d", got.Code)
	}
}

func TestRevokeASession(t *testing.T) {
	w := newWorld(t)
	conn := w.dial(w.client("a", suite.AES128GCM))
	ticket := conn.Ticket()
	id := get[sessionPage](t, w, "/v1/sessions").Sessions[0].ID
	if got := post(w, "/v1/revoke", fmt.Sprintf(`{"session":"%d","for":"1h"}`, id)); got.Code != 200 || !strings.Contains(got.Body.String(), `"kind": "session"`) {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	for {
		_, err := conn.Next(t.Context())
		var end *client.ClosedError
		if errors.As(err, &end) {
			if end.Code != wire.CloseUnauthenticated {
				t.Errorf("%v", end)
			}
			break
		}
	}
	opts := w.client("a", suite.AES128GCM)
	opts.Ticket = ticket
	if again := w.dial(opts); again.Info().Resumed {
		t.Error("the ticket of a revoked session is taken")
	}
	page := get[revocationPage](t, w, "/v1/revoke").Revocations
	if len(page) != 1 || page[0].Kind != "session" || page[0].Until.Sub(page[0].Since) != time.Hour {
		t.Fatalf("%+v", page)
	}
	path := "/v1/revoke?session=" + url.QueryEscape(page[0].Value)
	for i, want := range []int{204, 404} {
		if got := ask(w, "DELETE", path); got.Code != want {
			t.Errorf("lift %d: %d %s", i, got.Code, got.Body)
		}
	}
	if page := get[revocationPage](t, w, "/v1/revoke").Revocations; len(page) != 0 {
		t.Errorf("%+v", page)
	}
}

func TestRevocationsInPages(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		if got := post(w, "/v1/revoke", fmt.Sprintf(`{"user":"u/%02d&"}`, i)); got.Code != 200 || strings.Contains(got.Body.String(), `"ban": true`) {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
	}
	if got := post(w, "/v1/revoke", `{"user":"zoe","for":"1h"}`); !strings.Contains(got.Body.String(), `"ban": true`) {
		t.Errorf("%s", got.Body)
	}
	n, last := 0, ""
	for path := "/v1/revoke?limit=10"; path != ""; {
		page := get[revocationPage](t, w, path)
		for _, r := range page.Revocations {
			if r.Value <= last {
				t.Fatalf("%s after %s", r.Value, last)
			}
			n, last = n+1, r.Value
		}
		if path = ""; page.Next != "" {
			path = "/v1/revoke?limit=10&after=" + url.QueryEscape(page.Next)
		}
	}
	if n != 26 {
		t.Errorf("%d listed", n)
	}
}

// TestPagesOfOthersChangeNothing: a browser says where a request comes from.
func TestPagesOfOthersChangeNothing(t *testing.T) {
	w := newWorld(t)
	for origin, want := range map[string]int{"https://evil.example": 403, "null": 403, "http://example.com": 200, "": 200} {
		r := httptest.NewRequest("POST", "/v1/revoke", strings.NewReader(`{"user":"ann"}`))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		got := httptest.NewRecorder()
		w.ServeHTTP(got, r)
		if got.Code != want {
			t.Errorf("from %q: %d", origin, got.Code)
		}
	}
}
