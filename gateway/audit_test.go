package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/wire"
)

func TestAuditLines(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	s := start(t, withTokens(t, func(o *gateway.Options) { o.Audit = zap.New(core) }))
	secretToken := token(t, "ann", time.Hour, func(c jwt.MapClaims) { c["jti"] = "t-1" })
	p := loggedIn(t, s, secretToken)
	p.send(p.say(subscribeTo(1, "md:a", "x")))
	p.hear()
	p.hear()
	_, _ = s.dialAs(t, "bad", nil)
	if _, err := s.Revoke(t.Context(), auth.KindToken, "t-1", 0, "test"); err != nil {
		t.Fatal(err)
	}
	p.expectClose(wire.CloseUnauthenticated, true)
	var events []string
	for _, l := range lines.All() {
		events = append(events, l.Message)
		if text := fmt.Sprint(l.Message, l.ContextMap()); strings.Contains(text, secretToken[:30]) || strings.Contains(text, tokenSecret) {
			t.Errorf("a line tells the token: %s", text)
		}
	}
	if got := strings.Join(events, ", "); got != "login, refusal, subscription, refusal, revocation, revoked" {
		t.Errorf("got %s", got)
	}
	if c := lines.All()[0].ContextMap(); c["user"] != "ann" || c["jti"] != "t-1" || c["login"] == "" {
		t.Errorf("%v", c)
	}
}
