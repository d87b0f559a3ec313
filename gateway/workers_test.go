package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/wire"
)

// TestTooManyWaitForKeys: while the keys of a URL do not come, a bounded number of
// tokens waits for them, the next are judged at once, and the workers go on.
func TestTooManyWaitForKeys(t *testing.T) {
	asked := make(chan struct{}, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer provider.Close()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{}).SignedString([]byte("any"))
	if err != nil {
		t.Fatal(err)
	}
	v := auth.NewVerifier(auth.Options{Remote: auth.NewRemoteKeys(provider.URL, time.Hour), Audience: "default", Now: time.Now})
	l := &loop{}
	l.mail = newMailbox(l, nil)
	l.mail.close() // nobody reads the results
	c := &conn{loop: l}
	w := newWorkers(zap.NewNop())
	submit := func() {
		for !w.submit(&task{conn: c, login: &login{verifier: v, token: text}}) {
			time.Sleep(time.Millisecond)
		}
	}
	submit()
	<-asked // one is waiting for the network
	for range cap(w.network) + 20 {
		submit()
	}
	for len(w.queue) > 0 || len(w.network) < cap(w.network) {
		time.Sleep(time.Millisecond)
	}
	w.close()
	if code, _ := refusalCode(auth.ErrKeyUnknown); code != wire.CloseTryLater {
		t.Errorf("told %v", code)
	}
}
