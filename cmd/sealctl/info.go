package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/advice"
)

// gatewayInfo is what `sealctl info` shows.
type gatewayInfo struct {
	Address          string   `json:"address"`
	Key              string   `json:"key"`
	Verified         bool     `json:"verified"`
	Version          string   `json:"version,omitempty"`
	Suites           []string `json:"suites"`
	Suite            string   `json:"suite"`
	Hybrid           bool     `json:"hybrid"`
	ClientAES        bool     `json:"client_aes_hardware"`
	GatewayAES       bool     `json:"gateway_aes_hardware"`
	HeartbeatMS      int64    `json:"heartbeat_interval_ms,omitempty"`
	TimeoutMS        int64    `json:"heartbeat_timeout_ms,omitempty"`
	MaxMessage       int      `json:"max_message,omitempty"`
	MaxSubscriptions int      `json:"max_subscriptions,omitempty"`
	Seal             string   `json:"seal,omitempty"` // session or group, as in fanout.seal
	Refusal          string   `json:"refusal,omitempty"`
}

func (a *app) info(ctx context.Context, args []string) error {
	var c connection
	var format string
	f := newFlags("info", "URL", `Shows what a gateway offers: its key, suites, version. A key that is neither given nor known is
shown unverified; compare it with the operator's before you trust anything here.`)
	c.declare(a, f, false)
	f.StringVar(&format, "o", "text", "`FORMAT` of the output: text or json")
	if help, err := a.parse(f, args, 1, 1); help || err != nil {
		return err
	}
	if format != "text" && format != "json" {
		return advice.Misuse(fmt.Sprintf("-o: there is no format %q", format), "one of text, json")
	}
	url := f.Arg(0)
	var found client.Inspection
	var accepted []string
	err := a.connect(&c, url, func(opts client.Options) (err error) {
		opts.Insecure = len(opts.Pins) == 0 // nothing secret is sent, and what is shown is marked
		if accepted, err = client.AcceptedSuites(ctx, url, opts); err == nil {
			found, err = client.Inspect(ctx, url, opts)
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.show(format, describe(url, accepted, found))
}

func describe(url string, accepted []string, found client.Inspection) gatewayInfo {
	address, _ := client.Address(url) // connect has read it already
	i := found.Info
	g := gatewayInfo{
		Address: address, Key: i.Key.String(), Verified: i.Pinned, Version: i.Version,
		Suites: accepted, Suite: i.Suite.String(), Hybrid: i.Hybrid,
		ClientAES: suite.Detect().AES, GatewayAES: i.GatewayAES,
		HeartbeatMS: i.HeartbeatInterval.Milliseconds(), TimeoutMS: i.HeartbeatTimeout.Milliseconds(),
		MaxMessage: i.MaxMessage, MaxSubscriptions: i.MaxSubscriptions,
	}
	if found.Refusal != nil {
		g.Refusal = found.Refusal.Error()
	} else if found.Info.Version != "" { // it is no echo endpoint
		g.Seal = sealMode(i)
	}
	return g
}

// sealGroup is the mode in which batches are sealed once for several sessions.
const sealGroup = "group"

// sealMode names how a gateway seals batches for a client, as fanout.seal does.
func sealMode(i client.Info) string { return choose(i.Groups, sealGroup, "session") }

func (a *app) show(format string, g gatewayInfo) error {
	if format == "json" {
		line, err := json.Marshal(g)
		if err != nil {
			return err
		}
		return a.print(string(line) + "\n")
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, value) }
	row("address", g.Address)
	row("key", g.Key+choose(g.Verified, " (verified)", " (NOT VERIFIED)"))
	row("version", choose(g.Version != "", g.Version, "not told"))
	row("suites", strings.Join(g.Suites, ", "))
	row("chosen", g.Suite)
	row("hybrid", choose(g.Hybrid, "yes: X25519 and ML-KEM-768", "no: X25519 alone"))
	row("AES here", suite.Detect().String())
	row("AES there", choose(g.GatewayAES, "in hardware", "in software"))
	if g.Seal != "" {
		row("sealing", choose(g.Seal == sealGroup, "once for a group of sessions", "for each session"))
	}
	if g.TimeoutMS > 0 {
		row("heartbeat", fmt.Sprintf("every %v, given up after %v", time.Duration(g.HeartbeatMS)*time.Millisecond, time.Duration(g.TimeoutMS)*time.Millisecond))
	}
	if g.MaxMessage > 0 {
		row("limits", fmt.Sprintf("%s a message, %d subscriptions", size(int64(g.MaxMessage)), g.MaxSubscriptions))
	}
	if g.Refusal != "" {
		row("connecting", g.Refusal)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.print(b.String())
}

func choose(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
