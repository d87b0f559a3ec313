package auth

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func sampleRevoke() *Message {
	return &Message{From: "gw", Revoke: &Revocation{Kind: KindUser, Value: "ann", At: at(0), Until: at(hour), Ban: true}}
}

func sampleLogin() *Message {
	return &Message{From: "gw", Login: &Login{User: "ann", Stamp: Stamp{Login: "gw-1", Auth: at(0), Entered: at(1), Gateway: "gw", Conn: 7}}}
}

func sealed(t testing.TB, m *Message, secret string) []byte {
	t.Helper()
	raw, err := m.Seal([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestMessages(t *testing.T) {
	for _, m := range []*Message{sampleRevoke(), sampleLogin()} {
		for _, key := range []string{"", secret} {
			got, err := OpenMessage([]byte(key), sealed(t, m, key), noon)
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
}

func TestForgedMessages(t *testing.T) {
	good := string(sealed(t, sampleRevoke(), secret))
	open := string(sealed(t, sampleRevoke(), ""))
	late := sampleLogin()
	late.Login.Stamp.Entered = at(6 * 60 * 1000)
	both := sampleRevoke()
	both.Login = sampleLogin().Login
	for name, c := range map[string]struct{ key, raw string }{
		"nothing":                {"", ""},
		"no version":             {"", open[1:]},
		"another version":        {"", "2" + open[1:]},
		"without a MAC":          {secret, open},
		"another secret":         {secret + "x", good},
		"a MAC where none is":    {"", good},
		"more behind":            {"", open + "{}"},
		"unknown field":          {"", strings.Replace(open, `"from"`, `"x":1,"from"`, 1)},
		"no sender":              {"", strings.Replace(open, `"gw"`, `""`, 1)},
		"nothing said":           {"", `1..{"from":"gw"}`},
		"both said":              {"", string(sealed(t, both, ""))},
		"from the future":        {"", string(sealed(t, late, ""))},
		"too long":               {"", string(sealed(t, &Message{From: strings.Repeat("x", 5000)}, ""))},
		"negative connection":    {"", strings.Replace(string(sealed(t, sampleLogin(), "")), `"conn":7`, `"conn":-7`, 1)},
		"a login without a user": {"", strings.Replace(string(sealed(t, sampleLogin(), "")), `"user":"ann"`, `"user":""`, 1)},
	} {
		if m, err := OpenMessage([]byte(c.key), []byte(c.raw), noon); err == nil {
			t.Errorf("%s: taken: %+v", name, m)
		}
	}
	for i := range good {
		raw := []byte(good)
		raw[i] ^= 1
		if _, err := OpenMessage([]byte(secret), raw, noon); err == nil {
			t.Errorf("byte %d changed: taken", i)
		}
	}
}

func FuzzOpenMessage(f *testing.F) {
	f.Add(sealed(f, sampleRevoke(), ""))
	f.Add(sealed(f, sampleLogin(), ""))
	f.Add([]byte(`1..{"from":"gw","revoke":null,"login":{"user":"a","stamp":{}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := OpenMessage(nil, raw, noon)
		if err != nil {
			return
		}
		again, err := OpenMessage(nil, sealed(t, m, ""), noon)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
		list, register := NewRevocations(atNoon), NewRegister(atNoon)
		if m.Revoke != nil {
			list.Merge(*m.Revoke)
			return
		}
		register.Enter(DuplicateReplace, m.Login.User, Stamp{Login: "x", Gateway: "y"})
		register.Hear(DuplicateReplace, m.Login)
	})
}

// TestReconcile: two gateways that only meet in Redis end up with the same list.
func TestReconcile(t *testing.T) {
	a, b, stored := NewRevocations(atNoon), NewRevocations(atNoon), map[string]string{"user:old": "garbage"}
	meet := func(list *Revocations, name string) int {
		taken, put, drop, until := list.Reconcile([]byte(secret), name, stored)
		for k, v := range put {
			stored[k] = v
		}
		for _, k := range drop {
			delete(stored, k)
		}
		if len(put) > 0 && until.UnixMilli() < at(hour) {
			t.Errorf("%s: kept until %v", name, until)
		}
		return len(taken)
	}
	a.Merge(Revocation{Kind: KindUser, Value: "ann", At: at(0), Until: at(hour)})
	b.Merge(Revocation{Kind: KindUser, Value: "ann", At: at(1), Until: at(hour), Ban: true}, Revocation{Kind: KindToken, Value: "t", At: at(0), Until: at(hour)})
	meet(a, "a")
	if n := meet(b, "b"); n != 0 {
		t.Errorf("b took %d", n)
	}
	if n := meet(a, "a"); n != 2 {
		t.Errorf("a took %d", n)
	}
	if !reflect.DeepEqual(a.all(), b.all()) || len(stored) != 3 {
		t.Errorf("%v, %v, %v", a.all(), b.all(), stored)
	}
	if n := meet(a, "a") + meet(b, "b"); n != 0 {
		t.Error("they do not come to rest")
	}
	clear(stored) // Redis has lost everything
	meet(a, "a")
	if len(stored) != 2 {
		t.Errorf("not healed: %v", stored)
	}
	late := NewRevocations(func() time.Time { return noon.Add(2 * time.Hour) })
	meet(late, "late")
	if len(stored) != 0 || len(late.all()) != 0 {
		t.Errorf("what is over stays: %v", stored)
	}
}
