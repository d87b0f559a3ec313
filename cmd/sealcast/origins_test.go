package main

import (
	"net"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/internal/config"
)

// TestOwnPage: under these names the gateway's own page can be open.
func TestOwnPage(t *testing.T) {
	for _, c := range []struct {
		admin, bound, public string
		want, others         []string
	}{
		{"127.0.0.1:8081", "127.0.0.1:8081", "",
			[]string{"http://127.0.0.1:8081", "http://localhost:8081", "http://[::1]:8081", "https://localhost:8081"},
			[]string{"http://localhost", "http://localhost:8080", "http://:8081"}},
		{"localhost:0", "127.0.0.1:4711", "", []string{"http://localhost:4711"}, []string{"http://localhost:0"}},
		{":8081", "[::]:8081", "", []string{"http://localhost:8081"}, []string{"http://[::]:8081", "http://:8081"}},
		{"0.0.0.0:80", "0.0.0.0:80", "", []string{"http://localhost", "https://localhost:80"}, []string{"http://0.0.0.0"}},
		{"gateway.internal:8081", "10.0.0.7:8081", "", []string{"http://gateway.internal:8081", "https://gateway.internal:8081"}, nil},
		{"127.0.0.1:1", "127.0.0.1:1", "wss://push.example/ws", []string{"https://push.example"}, []string{"http://push.example", "wss://push.example"}},
		{"127.0.0.1:1", "127.0.0.1:1", "wss://push.example:443", []string{"https://push.example"}, nil},
		{"127.0.0.1:1", "127.0.0.1:1", "ws://push.example:8080/ws", []string{"http://push.example:8080"}, []string{"https://push.example:8080"}},
	} {
		bound, err := net.ResolveTCPAddr("tcp", c.bound)
		if err != nil {
			t.Fatal(err)
		}
		got := ownPage(&config.Config{Admin: config.Admin{Listen: c.admin}, PublicURL: c.public}, bound)
		for _, o := range c.want {
			if !slices.Contains(got, o) {
				t.Errorf("%s, %q: %s is missing in %v", c.admin, c.public, o, got)
			}
		}
		for _, o := range c.others {
			if slices.Contains(got, o) {
				t.Errorf("%s, %q: %s may connect too", c.admin, c.public, o)
			}
		}
	}
}
