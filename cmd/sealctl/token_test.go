package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/wire/topic"
)

// TestTokenIsTaken: what the command prints passes a gateway's own rules.
func TestTokenIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	secret := strings.Repeat("s", 40)
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := auth.NewSecret("k1", []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	v := auth.NewVerifier(auth.Options{Keys: []auth.Key{key}, Audience: "prod", Issuer: "me", Now: time.Now,
		Claims: auth.Claims{Topics: "topics", Limits: "limits"}})
	got := run("token", "--user", "ann", "--topics", "md:**, news", "--realm", "prod", "--issuer", "me", "--kid", "k1",
		"--secret-file", path, "--subscriptions", "3", "--id", "t-1")
	if got.status != statusDone {
		t.Fatalf("%+v", got)
	}
	g, err := v.Verify(strings.TrimSuffix(got.stdout, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	news, _ := topic.ParseFilter("news")
	if g.User != "ann" || g.TokenID != "t-1" || g.Limits.Subscriptions != 3 || !g.Rights.Allow(news) || g.Expires-time.Now().Unix() > 3600 {
		t.Errorf("%+v", g)
	}
}

func TestTokenNeedsAUserAndASecret(t *testing.T) {
	env := map[string]string{"SEALCTL_TOKEN_SECRET": "short"}
	for args, want := range map[string]string{
		"token":                                                     "--user is missing",
		"token --user ann":                                          "--topics is missing",
		"token --user ann --topics a --for 1ms":                     "shorter than a second",
		"token --user ann --topics a*":                              "whole segment",
		"token --user ann --topics a --subscriptions -1":            "0 or more",
		"token --user ann --topics a":                               "has 5 bytes",
		"token --user ann --topics a --secret-file /does/not/exist": "no such file",
	} {
		got := call{env: env}.run(strings.Fields(args)...)
		if got.status == statusDone || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "short\n") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := run("token", "--user", "ann", "--topics", "a"); got.status != statusUsage || !strings.Contains(got.stderr, "hint: make one") {
		t.Errorf("%+v", got)
	}
}
