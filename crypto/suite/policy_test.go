package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ids reads a list such as "aes-128-gcm sm4-gcm".
func ids(t *testing.T, list string) (out []ID) {
	t.Helper()
	for _, name := range strings.Fields(list) {
		id, ok := ByName(name)
		if !ok {
			t.Fatalf("no suite %q", name)
		}
		out = append(out, id)
	}
	return out
}

func tokens(ids []ID) (out []string) {
	for _, id := range ids {
		out = append(out, id.Protocol())
	}
	return out
}

func prefer(t *testing.T, s string) Prefer {
	t.Helper()
	p, err := ParsePrefer(s)
	if err != nil {
		t.Fatal(err)
	}
	if p.String() != s {
		t.Errorf("prefer %q prints as %q", s, p.String())
	}
	return p
}

func TestSelect(t *testing.T) {
	const (
		usual  = "aes-128-gcm aes-256-gcm chacha20-poly1305"
		a, A   = "aes-128-gcm", "aes-256-gcm"
		c, s   = "chacha20-poly1305", "sm4-gcm"
		none   = ""
		with   = true
		noAES  = false
		auto   = "auto"
		server = "server"
		client = "client"
	)
	for _, test := range []struct {
		enabled, prefer string
		aes             bool
		offered, want   string
	}{
		// auto with AES: the client's order.
		{usual, auto, with, a + " " + A + " " + c, a},
		{usual, auto, with, A + " " + a + " " + c, A},
		{usual, auto, with, c + " " + a, c},
		{usual, auto, with, s + " " + A, A},
		// auto without: ChaCha20 wherever it is in common.
		{usual, auto, noAES, a + " " + A + " " + c, c},
		{usual, auto, noAES, A + " " + c + " " + a, c},
		{usual, auto, noAES, A + " " + a, A},
		{a + " " + A, auto, noAES, a + " " + c, a},
		{usual + " " + s, auto, noAES, s + " " + a, s},
		// server: the gateway's order, with and without AES.
		{usual, server, with, c + " " + A + " " + a, a},
		{c + " " + a, server, with, a + " " + c, c},
		{A + " " + a, server, noAES, c + " " + a + " " + A, A},
		// client: the client's order, with and without AES.
		{usual, client, with, c + " " + a, c},
		{usual, client, noAES, A + " " + c, A},
		{usual, client, noAES, s + " " + A + " " + c, A},
		// a name: that one, else the gateway's order.
		{usual, A, with, a + " " + A + " " + c, A},
		{usual, c, with, a + " " + A + " " + c, c},
		{usual, A, noAES, c + " " + a, a},
		{usual + " " + s, s, with, a + " " + s, s},
		// nothing in common.
		{usual, auto, with, s, none},
		{c, auto, noAES, a + " " + A, none},
		{usual, server, with, none, none},
	} {
		p := Policy{Enabled: ids(t, test.enabled), Prefer: prefer(t, test.prefer), Hardware: Hardware{AES: test.aes}}
		if err := p.Check(); err != nil {
			t.Errorf("%+v: Check: %v", test, err)
		}
		got, err := p.Select(tokens(ids(t, test.offered)))
		if test.want == none {
			if !errors.Is(err, ErrNoCommon) {
				t.Errorf("%+v: %v, %v", test, got, err)
			}
			continue
		}
		if err != nil || got.String() != test.want {
			t.Errorf("%+v: got %v, %v", test, got, err)
		}
	}
}

// TestSelectEveryOrder tries each order of each set of offers with each
// setting, hardware and set of enabled suites, against the rule's own words.
func TestSelectEveryOrder(t *testing.T) {
	suites := []ID{AES128GCM, AES256GCM, ChaCha20Poly1305, SM4GCM}
	orders := orderings(suites)
	tried := 0
	for _, setting := range []string{"auto", "server", "client", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "sm4-gcm"} {
		for _, aes := range []bool{true, false} {
			for _, enabled := range orders {
				p := Policy{Enabled: enabled, Prefer: prefer(t, setting), Hardware: Hardware{AES: aes}}
				for _, offered := range orders {
					got, err := p.Select(tokens(offered))
					if want := expected(setting, aes, enabled, offered); got != want || (err == nil) != (want != 0) {
						t.Fatalf("%s, AES %v, enabled %v, offered %v: %v, %v; want %v", setting, aes, enabled, offered, got, err, want)
					}
					tried++
				}
			}
		}
	}
	if tried != 7*2*64*64 {
		t.Errorf("%d combinations tried", tried)
	}
}

// expected is protocol.md section 1 put differently from Select: filter one
// list by membership in the other and take the head.
func expected(setting string, aes bool, enabled, offered []ID) ID {
	own, theirs := enabled, offered
	pinned, named := ByName(setting)
	both := func(id ID) bool { return slices.Contains(own, id) && slices.Contains(theirs, id) }
	switch {
	case named && both(pinned):
		return pinned
	case setting == "auto" && !aes && both(ChaCha20Poly1305):
		return ChaCha20Poly1305
	}
	order := offered
	if named || setting == "server" {
		order = enabled
	}
	if i := slices.IndexFunc(order, both); i >= 0 {
		return order[i]
	}
	return 0
}

// orderings lists every order of every subset of all but the empty one.
func orderings(all []ID) (out [][]ID) {
	var grow func(chosen []ID)
	grow = func(chosen []ID) {
		for _, id := range all {
			if !slices.Contains(chosen, id) {
				next := append(slices.Clone(chosen), id)
				out = append(out, next)
				grow(next)
			}
		}
	}
	grow(nil)
	return out
}

func TestSelectRefuses(t *testing.T) {
	p := Policy{Enabled: []ID{AES128GCM, ChaCha20Poly1305}, AllowPlain: true}
	strict := Policy{Enabled: p.Enabled}
	aes, plain := AES128GCM.Protocol(), Plain.Protocol()
	var many []string
	for i := range MaxOffers + 1 {
		many = append(many, fmt.Sprint("other", i))
	}
	for _, test := range []struct {
		policy  Policy
		offered []string
		want    error
	}{
		{p, []string{plain, aes}, ErrPlainMixed},
		{p, []string{aes, plain}, ErrPlainMixed},
		{p, []string{plain, "other"}, ErrPlainMixed},
		{strict, []string{plain}, ErrPlainRefused},
		{p, []string{aes, aes}, ErrDuplicateOffer},
		{p, []string{"other", aes, "other"}, ErrDuplicateOffer},
		{p, []string{plain, plain}, ErrDuplicateOffer},
		{p, many, ErrTooManyOffers},
		{p, []string{"sealcast.v2.aes-128-gcm"}, ErrNoCommon},
		{p, []string{"SEALCAST.V1.AES-128-GCM"}, ErrNoCommon},
		{p, nil, ErrNoCommon},
	} {
		if got, err := test.policy.Select(test.offered); !errors.Is(err, test.want) {
			t.Errorf("%q: %v, %v; want %v", test.offered, got, err, test.want)
		}
	}
	if got, err := p.Select([]string{plain}); got != Plain || err != nil {
		t.Errorf("plain alone where allowed: %v, %v", got, err)
	}
	if got, err := p.Select([]string{"other", aes}); got != AES128GCM || err != nil {
		t.Errorf("beside a foreign token: %v, %v", got, err)
	}
}

func TestAccepted(t *testing.T) {
	p := Policy{Enabled: []ID{SM4GCM, AES256GCM}, AllowPlain: true}
	want := []string{"sealcast.v1.sm4-gcm", "sealcast.v1.aes-256-gcm", "sealcast.v1.plain"}
	if got := p.Accepted(); !slices.Equal(got, want) {
		t.Errorf("accepted %q", got)
	}
}

func TestPolicyCheck(t *testing.T) {
	named := prefer(t, "sm4-gcm")
	for _, test := range []struct {
		policy Policy
		ok     bool
	}{
		{Policy{Enabled: []ID{AES128GCM}}, true},
		{Policy{AllowPlain: true}, true},
		{Policy{Enabled: []ID{SM4GCM}, Prefer: named}, true},
		{Policy{}, false},
		{Policy{Enabled: []ID{AES128GCM, AES128GCM}}, false},
		{Policy{Enabled: []ID{AES128GCM, Plain}}, false},
		{Policy{Enabled: []ID{77}}, false},
		{Policy{Enabled: []ID{AES128GCM}, Prefer: named}, false},
	} {
		if err := test.policy.Check(); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test.policy, err)
		}
	}
	for _, s := range []string{"", "Auto", "plain", "aes"} {
		if p, err := ParsePrefer(s); err == nil {
			t.Errorf("ParsePrefer(%q) = %v", s, p)
		}
	}
}
