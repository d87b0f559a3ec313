package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/knownhosts"
	"github.com/sealcast/sealcast/internal/version"
	"github.com/sealcast/sealcast/session"
)

// defaultTimeout is for a gateway's first answer.
const defaultTimeout = 10 * time.Second

// connection is what the flags say about how to reach a gateway and which keys
// it may have.
type connection struct {
	suites, keys, headers []string
	token, realm, ca      string
	hybrid                string
	insecure              bool
	timeout               time.Duration
	known                 knownhosts.File
}

// declare adds the flags of a command that connects to a gateway. withToken is
// false for one that does not authenticate.
func (c *connection) declare(a *app, f *flags, withToken bool) {
	f.list(&c.keys, "key", true, "`PIN` of the gateway's key, as its operator gave it; several are allowed")
	f.BoolVar(&c.insecure, "insecure", false, "accept any key: whoever answers can read and change everything")
	f.StringVar(&c.known.Path, "known-gateways", a.knownGateways, "`FILE` of keys that were verified before")
	f.list(&c.suites, "suite", true, "`SUITES` to offer, best first: "+suiteNames(suite.All()))
	f.StringVar(&c.hybrid, "post-quantum", "preferred", "`MODE` of the key agreement with ML-KEM-768: preferred, required or off")
	f.StringVar(&c.realm, "realm", "default", "`NAME` that the gateway's settings give as its realm")
	f.StringVar(&c.ca, "ca", "", "`FILE` of certificates (PEM) to trust for wss://, instead of the system's")
	f.list(&c.headers, "header", false, "`LINE` to add to the upgrade request, such as 'Origin: https://a.example'; several are allowed")
	f.DurationVar(&c.timeout, "timeout", defaultTimeout, "`TIME` within which the connection must be ready")
	if withToken {
		f.StringVar(&c.token, "token", a.getenv("SEALCTL_TOKEN"), "`TOKEN` to authenticate with; better given as SEALCTL_TOKEN, which other users cannot see")
		f.Lookup("token").DefValue = ""
	}
}

func suiteNames(ids []suite.ID) string {
	var names []string
	for _, id := range ids {
		names = append(names, id.String())
	}
	return strings.Join(names, ", ")
}

// options makes options of the flags, with the pins of the address, if any are known.
func (c *connection) options(address string) (client.Options, error) {
	opts := client.Options{
		Insecure:    c.insecure,
		Realm:       c.realm,
		Token:       c.token,
		Name:        "sealctl",
		Version:     version.String(),
		DialTimeout: c.timeout,
	}
	if c.insecure && len(c.keys) > 0 {
		return opts, advice.Misuse("--key and --insecure exclude each other", "with --key the gateway is verified; leave --insecure out")
	}
	if c.insecure && c.token != "" {
		return opts, advice.Misuse("a token is not sent to a gateway that is not verified", "give the gateway's key with --key instead of --insecure")
	}
	steps := []func(*client.Options) error{c.setSuites, c.setHybrid, c.setHeader, c.setTLS,
		func(o *client.Options) error { return c.setPins(o, address) }}
	for _, set := range steps {
		if err := set(&opts); err != nil {
			return opts, err
		}
	}
	return opts, nil
}

func (c *connection) setSuites(o *client.Options) error {
	for _, name := range c.suites {
		id, ok := suite.ByName(name)
		if !ok {
			return advice.Misuse(fmt.Sprintf("--suite: there is no suite %q", name), "one of "+suiteNames(suite.All()))
		}
		o.Suites = append(o.Suites, id)
	}
	return nil
}

func (c *connection) setHybrid(o *client.Options) (err error) {
	if o.PostQuantum, err = session.ParsePostQuantum(c.hybrid); err != nil {
		return advice.Misuse("--post-quantum: "+err.Error(), "one of preferred, required, off")
	}
	return nil
}

func (c *connection) setHeader(o *client.Options) error {
	for _, line := range c.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" || strings.ContainsAny(line, "\r\n") {
			return advice.Misuse(fmt.Sprintf("--header: %q is not NAME: VALUE", line), "for example --header 'Origin: https://a.example'")
		}
		if o.Header == nil {
			o.Header = http.Header{}
		}
		o.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return nil
}

func (c *connection) setTLS(o *client.Options) error {
	if c.ca == "" {
		return nil
	}
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return advice.Failed(fmt.Errorf("--ca: %w", err), "it must be a file of certificates in PEM form that can be read")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return advice.Failed(fmt.Errorf("--ca: %s holds no certificate", c.ca), "it must be in PEM form, with lines such as -----BEGIN CERTIFICATE-----")
	}
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return nil
}

func (c *connection) setPins(o *client.Options, address string) (err error) {
	for _, pin := range c.keys {
		key, err := session.ParsePin(pin)
		if err != nil {
			return advice.Misuse("--key: "+err.Error(), "the gateway prints its public key at the start, and /v1/info of its admin address names it")
		}
		o.Pins = append(o.Pins, key)
	}
	if len(c.keys) > 0 || c.insecure || c.known.Path == "" {
		return nil
	}
	if o.Pins, err = c.known.Lookup(address); err != nil {
		return advice.Failed(fmt.Errorf("known gateways: %w", err), "correct the line, or name another file with --known-gateways")
	}
	return nil
}

// connect dials with the flags' options. dial is called once more if the
// gateway is unknown and the user, asked on a terminal, accepts its key.
func (a *app) connect(c *connection, url string, dial func(client.Options) error) error {
	address, err := client.Address(url)
	if err != nil {
		return advice.Misuse(err.Error(), "a gateway's address looks like ws://127.0.0.1:8080/ws")
	}
	opts, err := c.options(address)
	if err != nil {
		return err
	}
	if c.insecure {
		a.note("warning: the gateway's key is not verified (--insecure)")
	}
	err = dial(opts)
	var unknown *session.PinError
	if errors.As(err, &unknown) && errors.Is(err, session.ErrNoPin) && a.asksToTrust(c, address, unknown.Seen) {
		if err := c.known.Add(address, unknown.Seen); err != nil {
			return advice.Failed(fmt.Errorf("known gateways: %w", err), "pass the key with --key, or name another file with --known-gateways")
		}
		opts.Pins = []session.PublicKey{unknown.Seen}
		err = dial(opts)
	}
	return explainDial(err, c, address)
}

// asksToTrust asks whether an unknown gateway's key is right, if somebody is
// there to answer. Only "yes" is a yes.
func (a *app) asksToTrust(c *connection, address string, seen session.PublicKey) bool {
	if c.known.Path == "" || !a.terminal(a.stdin) || !a.terminal(a.stderr) {
		return false
	}
	fmt.Fprintf(a.stderr, "The gateway at %s is unknown. Its key is\n\n    %v\n\n"+
		"Compare it with the one its operator gave you. Remember it and go on (yes/no)? ", address, seen)
	answer, _ := bufio.NewReader(io.LimitReader(a.stdin, 100)).ReadString('\n')
	return slices.Contains([]string{"yes", "y"}, strings.ToLower(strings.TrimSpace(answer)))
}
