package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/cryptobench"
	"github.com/sealcast/sealcast/internal/loadgen"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/internal/loadgen/target"
	"github.com/sealcast/sealcast/internal/version"
	"github.com/sealcast/sealcast/session"
)

// gatewayFlags say which gateway is measured.
type gatewayFlags struct {
	connection
	url, program, admin, adminToken string
	start                           bool
	set, vary                       []string
	gateways                        int
}

func (g *gatewayFlags) declare(a *app, f *flags) {
	f.BoolVar(&g.start, "start", false, "start a gateway for the occasion, instead of naming the URL of one")
	f.StringVar(&g.program, "gateway", "", "`PROGRAM` to start (default: sealcast beside this program, or on PATH)")
	f.list(&g.set, "set", false, "`KEY=VALUE` setting of the gateway that is started; several are allowed")
	f.list(&g.vary, "vary", false, "`KEY=VALUE|VALUE` setting of gateways that are started with each of the values, and measured in turn; several are combined")
	f.StringVar(&g.admin, "admin", "", "`URL` of the running gateway's admin interface; without it the gateway's own figures are unavailable")
	f.StringVar(&g.adminToken, "admin-token", a.getenv("SEALCTL_ADMIN_TOKEN"), "`TOKEN` for it; better given as SEALCTL_ADMIN_TOKEN")
	f.Lookup("admin-token").DefValue = ""
	f.list(&g.keys, "key", true, "`PIN` of the gateway's key, as its operator gave it; several are allowed")
	f.BoolVar(&g.insecure, "insecure", false, "accept any key: whoever answers is measured")
	f.StringVar(&g.known.Path, "known-gateways", a.knownGateways, "`FILE` of keys that were verified before")
	f.StringVar(&g.hybrid, "post-quantum", "preferred", "`MODE` of the key agreement with ML-KEM-768: preferred, required or off")
	f.StringVar(&g.ca, "ca", "", "`FILE` of certificates (PEM) to trust for wss://, instead of the system's")
	f.StringVar(&g.realm, "realm", "default", "`NAME` that the gateway's settings give as its realm")
	f.list(&g.headers, "header", false, "`LINE` to add to upgrade requests, such as 'Origin: https://a.example'; several are allowed")
	f.DurationVar(&g.timeout, "timeout", defaultTimeout, "`TIME` within which a gateway must answer")
	f.StringVar(&g.token, "token", a.getenv("SEALCTL_TOKEN"), "`TOKEN` to authenticate with; better given as SEALCTL_TOKEN")
	f.Lookup("token").DefValue = ""
	g.gateways = 1
}

func (g *gatewayFlags) check(f *flags) error {
	switch {
	case g.start == (g.url != ""):
		return advice.Misuse(f.Name()+": either the URL of a running gateway or --start", "for example ws://127.0.0.1:8080/echo")
	case !g.start && (g.program != "" || len(g.set) > 0 || len(g.vary) > 0):
		return advice.Misuse("--gateway, --set and --vary belong to --start", "a running gateway has its own settings")
	case g.start && (g.admin != "" || g.insecure || len(g.keys) > 0):
		return advice.Misuse("--admin, --key and --insecure belong to a running gateway", "with --start they are known")
	}
	return nil
}

// bed is everything that is there before load begins.
type bed struct {
	env      *loadgen.Env
	where    string
	machine  report.Machine
	accepted []string // suites, plain among them
	suites   []string // that are measured
	variants []variant
	redis    string // address that ticks are published to; empty: none
	stops    []func()
}

func (b *bed) close() {
	for _, stop := range slices.Backward(b.stops) {
		stop()
	}
}

// prepare starts or looks at the gateway. After an error nothing is left behind.
func (a *app) prepare(ctx context.Context, b *load) (*bed, error) {
	d := &bed{env: &loadgen.Env{
		Realm: b.gw.realm, Insecure: b.gw.insecure, Token: b.gw.token, Version: version.String(),
		Seed: b.how.seed, Loops: b.how.loops, Connecting: b.how.connecting, For: b.how.during, Warmup: b.how.warmup, Profiles: b.out.profiles,
	}}
	if d.env.Loops == 0 {
		d.env.Loops = max(runtime.NumCPU()/2, 1)
	}
	steps := []func() error{
		func() (err error) { d.env.PostQuantum, err = parseHybrid(b.gw.hybrid); return err },
		func() error { return d.setHeader(b.gw.headers) },
		func() error { return b.users.prepare(a, b) },
		func() error { return a.find(ctx, b, d) },
		func() error { return d.describe(ctx) },
		func() error { return d.chooseSuites(b.how.suites) },
		func() error { return d.chooseSources(b) },
		func() error { return a.openSource(ctx, b, d) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func parseHybrid(text string) (session.PostQuantum, error) {
	mode, err := session.ParsePostQuantum(text)
	if err != nil {
		return 0, advice.Misuse("--post-quantum: "+err.Error(), "")
	}
	return mode, nil
}

func (d *bed) setHeader(lines []string) error {
	o := client.Options{}
	if err := (&connection{headers: lines}).setHeader(&o); err != nil {
		return err
	}
	for name, values := range o.Header {
		for _, v := range values {
			d.env.Header += name + ": " + v + "\r\n"
		}
	}
	return nil
}

// find makes d.env.Gateways of what the user named.
func (a *app) find(ctx context.Context, b *load, d *bed) error {
	if b.gw.start {
		return a.startGateways(ctx, b, d)
	}
	gw, err := b.gw.named()
	if err != nil {
		return err
	}
	d.where = b.gw.url
	d.env.Gateways = []*loadgen.Gateway{gw}
	d.variants = []variant{{"", d.env.Gateways}}
	if b.gw.admin != "" {
		if gw.Admin, err = target.NewAdmin(b.gw.admin, b.gw.adminToken); err != nil {
			return advice.Misuse("--admin: "+err.Error(), "for example http://127.0.0.1:8081")
		}
	}
	return a.connect(&b.gw.connection, b.gw.url, func(opts client.Options) error {
		gw.Pins = opts.Pins
		var err error
		if d.accepted, err = client.AcceptedSuites(ctx, b.gw.url, opts); err != nil {
			return err
		}
		ids, _ := suitesNamed(d.accepted)
		if opts.Suites = slices.DeleteFunc(ids, func(id suite.ID) bool { return id == suite.Plain }); len(opts.Suites) == 0 {
			return nil
		}
		_, err = client.Inspect(ctx, b.gw.url, opts)
		return err
	})
}

// named reads the URL of a running gateway.
func (g *gatewayFlags) named() (*loadgen.Gateway, error) {
	const hint = "a gateway's address looks like ws://127.0.0.1:8080/echo"
	u, err := url.Parse(g.url)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" {
		return nil, advice.Misuse(fmt.Sprintf("%q is no address of a gateway", g.url), hint)
	}
	secure, port := u.Scheme == "wss", u.Port()
	switch {
	case port == "" && secure:
		port = "443"
	case port == "":
		port = "80"
	}
	addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, refused(err, hint)
	}
	prefix := strings.TrimRight(u.Path, "/")
	for _, path := range []string{"/ws", "/echo"} {
		prefix = strings.TrimSuffix(prefix, path)
	}
	gw := &loadgen.Gateway{Address: unmapped(addr.AddrPort()), Host: u.Host, Prefix: prefix}
	if secure {
		gw.TLS, err = g.tls(u.Hostname())
	}
	return gw, err
}

// tls is the configuration for what ends TLS before the gateway.
func (g *gatewayFlags) tls(host string) (*tls.Config, error) {
	o := client.Options{TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if err := g.setTLS(&o); err != nil {
		return nil, err
	}
	o.TLSConfig.ServerName, o.TLSConfig.NextProtos = host, []string{"http/1.1"}
	return o.TLSConfig, nil
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// benchSettings are what a gateway is started with, before the user's own.
func (b *load) benchSettings() []string {
	enabled := []string{"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"}
	if slices.Contains(b.how.suites, "sm4-gcm") {
		enabled = append(enabled, "sm4-gcm")
	}
	set := []string{
		"cipher.suites=[" + strings.Join(enabled, ", ") + "]", "cipher.prefer=client", "cipher.allow_plain=true",
		"echo.max_message=4MiB",
	}
	if b.out.profiles != "" {
		set = append(set, "admin.pprof=true")
	}
	return set
}

// startGateways starts those of every variant. A variant that the gateway
// refuses is left out, with a note; the first one must not be.
func (a *app) startGateways(ctx context.Context, b *load, d *bed) error {
	program, err := target.FindGateway(b.gw.program)
	if err != nil {
		return advice.Failed(err, "build it with \"make build\", or name it with --gateway")
	}
	more, err := a.startSource(ctx, b, d)
	if err != nil {
		return err
	}
	settings := slices.Concat(b.benchSettings(), more, b.users.settings(b), b.gw.set)
	d.where = "started for the occasion"
	variants, err := variants(b.gw.vary)
	if err != nil {
		return err
	}
	for i, v := range variants {
		gateways, err := d.startVariant(ctx, b, program, slices.Concat(settings, v))
		switch {
		case err != nil && (len(variants) == 1 || ctx.Err() != nil || i == len(variants)-1 && len(d.variants) == 0):
			return explainLoad(err)
		case err != nil:
			a.note("%s is left out: %v", strings.Join(v, " "), err)
			continue
		}
		d.variants = append(d.variants, variant{strings.Join(v, " "), gateways})
	}
	d.env.Gateways = d.variants[0].gateways
	return nil
}

// variant is gateways with settings of their own.
type variant struct {
	name     string // empty: there is only one
	gateways []*loadgen.Gateway
}

// variants makes all combinations of settings that are to be varied, each given
// as KEY=VALUE|VALUE.
func variants(vary []string) ([][]string, error) {
	all := [][]string{nil}
	for _, v := range vary {
		key, values, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, advice.Misuse(fmt.Sprintf("--vary: %q is not KEY=VALUE|VALUE", v), "for example --vary 'batch.max_delay=0s|5ms'")
		}
		var next [][]string
		for _, before := range all {
			for value := range strings.SplitSeq(values, "|") {
				next = append(next, append(slices.Clone(before), key+"="+strings.TrimSpace(value)))
			}
		}
		all = next
	}
	return all, nil
}

func (d *bed) startVariant(ctx context.Context, b *load, program string, settings []string) (all []*loadgen.Gateway, err error) {
	for range b.gw.gateways {
		p, err := target.Start(ctx, program, settings)
		if err != nil {
			return nil, err
		}
		d.stops = append(d.stops, p.Stop)
		if d.redis == "" {
			d.redis = p.Redis
		}
		admin, err := target.NewAdmin(p.AdminAddress, "")
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(p.Listen)
		if err != nil {
			return nil, err
		}
		all = append(all, &loadgen.Gateway{Address: at, Host: p.Listen, Admin: admin, PID: p.PID(), Ended: p.Ended()})
	}
	return all, nil
}

// gateways are those of all variants.
func (d *bed) gateways() (all []*loadgen.Gateway) {
	for _, v := range d.variants {
		all = append(all, v.gateways...)
	}
	return all
}

// bind has all cases measured in every variant.
func (d *bed) bind(cases []loadgen.Case) (all []loadgen.Case) {
	for _, v := range d.variants {
		env := *d.env
		env.Gateways = v.gateways
		for _, c := range cases {
			all = append(all, &loadgen.Bound{Case: c, Env: &env, Variant: v.name})
		}
	}
	return all
}

// describe asks the gateways what they are.
func (d *bed) describe(ctx context.Context) error {
	d.machine = thisMachine()
	d.machine.Same, d.machine.GatewayAES = true, true
	for _, gw := range d.gateways() {
		d.machine.Same = d.machine.Same && gw.Address.Addr().IsLoopback()
		if gw.Admin == nil {
			continue
		}
		info, err := gw.Admin.Info(ctx)
		if err != nil {
			return explainAdmin(err)
		}
		if len(gw.Pins) == 0 && gw.Ended != nil {
			key, err := session.ParsePin(info.PublicKey)
			if err != nil {
				return advice.Failed(err, "")
			}
			gw.Pins, d.accepted = []session.PublicKey{key}, append([]string{suite.Plain.String()}, info.Suites...)
		}
		d.machine.GatewayAES = d.machine.GatewayAES && info.HardwareAES
		if !slices.Contains(d.machine.Gateways, info.Version) {
			d.machine.Gateways = append(d.machine.Gateways, info.Version)
		}
	}
	if d.env.Gateways[0].Admin == nil {
		d.machine.GatewayAES = d.machine.AES && d.machine.Same
	}
	return nil
}

func explainAdmin(err error) error {
	var answer *target.StatusError
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusUnauthorized:
		return refused(err, "give its token with --admin-token or SEALCTL_ADMIN_TOKEN")
	case errors.As(err, &answer):
		return refused(err, "is it the gateway's admin address?")
	}
	return refused(err, "is --admin the address that the gateway logs at its start?")
}

// thisMachine describes where this program runs.
func thisMachine() report.Machine {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // this and the next two are Linux only
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m := cryptobench.DescribeMachine(cpuinfo, version.String())
	return report.Machine{
		CPU: m.CPU, Cores: runtime.NumCPU(), MemoryBytes: memory(), GOOS: m.GOOS, GOARCH: m.GOARCH,
		Kernel: strings.TrimSpace(string(kernel)), Go: m.Go, AES: m.AES.Hardware, Sealctl: version.String(),
	}
}

func memory() int64 {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(meminfo)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// chooseSuites takes the user's, or plain and what the gateway accepts.
func (d *bed) chooseSuites(wanted []string) error {
	if len(wanted) == 0 {
		for _, id := range []suite.ID{suite.Plain, suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305} {
			if slices.Contains(d.accepted, id.String()) {
				d.suites = append(d.suites, id.String())
			}
		}
		if len(d.suites) == 0 {
			d.suites = slices.Clone(d.accepted)
		}
		return nil
	}
	for _, name := range wanted {
		if _, ok := suite.ByName(name); !ok && name != loadgen.WebSocket {
			return advice.Misuse(fmt.Sprintf("--suites: there is no suite %q", name), "one of "+suiteNames(suite.All())+"; for /echo also "+loadgen.WebSocket)
		}
		if name != loadgen.WebSocket && !slices.Contains(d.accepted, name) {
			return refused(fmt.Errorf("the gateway does not accept the suite %s", name), "it accepts "+strings.Join(d.accepted, ", "))
		}
		d.suites = append(d.suites, name)
	}
	return nil
}

func suitesNamed(names []string) (ids []suite.ID, unknown []string) {
	for _, name := range names {
		if id, ok := suite.ByName(name); ok {
			ids = append(ids, id)
		} else {
			unknown = append(unknown, name)
		}
	}
	return ids, unknown
}

// chooseSources takes the user's addresses, or of loopback as many as the most
// connections of one process need.
func (d *bed) chooseSources(b *load) error {
	for _, s := range b.how.sources {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return advice.Misuse(fmt.Sprintf("--sources: %q is no address", s), "for example 127.0.0.2,127.0.0.3")
		}
		d.env.Sources = append(d.env.Sources, addr)
	}
	most := 0
	for _, s := range b.how.connections {
		n, _ := strconv.Atoi(s)
		most = max(most, n)
	}
	if at := d.env.Gateways[0].Address.Addr(); len(d.env.Sources) == 0 && at.Is4() && at.IsLoopback() && runtime.GOOS == "linux" {
		d.env.Sources = loadgen.LoopbackSources(0, most)
	}
	return nil
}
