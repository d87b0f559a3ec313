package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/config"
)

// Bounds of one question to the admin interface.
const (
	healthTimeout = 3 * time.Second
	healthAnswer  = 4 << 10 // bytes that are read of the answer
)

// health asks a gateway on this machine how it is, for probes of containers
// that hold no other program. It reads the settings to know the address.
func (a *app) health(args []string) error {
	flags := newFlags("health")
	sources := a.sourceFlags(flags)
	alive := flags.Bool("live", false, "ask whether it lives, not whether it is ready")
	if help, err := a.parse(flags, args, 0); help || err != nil {
		return err
	}
	loaded, err := config.Load(*sources)
	if err != nil {
		return err
	}
	path := "/readyz"
	if *alive {
		path = "/healthz"
	}
	text, err := probe(loaded.Config.Admin.Listen, path)
	if err != nil {
		return err
	}
	return a.print(text + "\n")
}

// probe returns the answer of the admin interface, or why it is no good one.
func probe(listen, path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return "", fmt.Errorf("admin.listen %s: %w", listen, err)
	}
	url := "http://" + reachable(addr) + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Transport{Proxy: nil}).RoundTrip(req)
	if err != nil {
		return "", advice.Failed(fmt.Errorf("%s: %w", url, err), "is a gateway running with this admin.listen?")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, healthAnswer))
	text := strings.TrimSpace(string(body))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", url, err)
	case resp.StatusCode != http.StatusOK:
		return "", advice.Failed(fmt.Errorf("%s: %s: %s", url, resp.Status, text), "the text says what is missing; the gateway's log says since when")
	}
	return text, nil
}
