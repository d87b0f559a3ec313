package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/cryptobench"
	"github.com/sealcast/sealcast/internal/version"
)

// benches lists what can be measured.
func benches() []command {
	return append(loadBenches(), []command{
		{"compression", "FILE...", "how much smaller batches of recorded feeds become, and what that costs", (*app).benchCompression},
		{"crypto", "", "what suites, public-key operations and their misuse cost on this machine", (*app).benchCrypto},
	}...)
}

// bench measures what its first argument names.
func (a *app) bench(ctx context.Context, args []string) error {
	all := benches()
	if len(args) == 0 {
		return advice.Misuse("bench: nothing to measure given", hintBenches())
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		return a.print(benchUsage())
	}
	i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return advice.Misuse(fmt.Sprintf("bench: there is no benchmark %q", args[0]), hintBenches())
	}
	return all[i].run(a, ctx, args[1:])
}

func benchUsage() string {
	var b strings.Builder
	b.WriteString("usage: sealctl bench WHAT [flags]\n\n")
	for _, c := range benches() {
		fmt.Fprintf(&b, "  %-12s %s\n", c.name, c.summary)
	}
	b.WriteString("\n\"sealctl bench WHAT -h\" shows its flags.\n")
	return b.String()
}

func hintBenches() string {
	var names []string
	for _, c := range benches() {
		names = append(names, c.name)
	}
	return "one of " + strings.Join(names, ", ") + "; \"sealctl bench -h\" tells more"
}

// cryptoBench is what `sealctl bench crypto` was asked for.
type cryptoBench struct {
	cryptobench.Options
	suites, sizes, only []string
	format              string
}

func (a *app) benchCrypto(ctx context.Context, args []string) error {
	d := cryptobench.Defaults()
	b := cryptoBench{Options: cryptobench.Options{Repeat: d.Repeat, For: d.For, Warmup: d.Warmup, Seed: d.Seed}}
	f := newFlags("bench crypto", "", `Measures on this machine, without any connection: sealing and opening records in every suite, as the
gateway does it; a mixed load; encoding and sealing messages; public-key operations; whole responses
under RSA and under a session key; what common misuse of ciphers costs. Figures are medians over the
repeats, without the extremes. Without flags it takes one to two minutes.`)
	b.declare(f)
	if help, err := a.parse(f, args, 0, 0); help || err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	show, done := a.benchProgress()
	b.Progress = show
	report, err := cryptobench.Run(ctx, b.Options)
	done()
	switch {
	case errors.Is(err, context.Canceled):
		return advice.Failed(errInterrupted, "")
	case errors.Is(err, cryptobench.ErrOptions):
		return advice.Misuse("bench crypto: "+err.Error(), `"sealctl bench crypto -h" shows how it is used`)
	case err != nil:
		return advice.Failed(err, "")
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // Linux only
	report.Machine = cryptobench.DescribeMachine(cpuinfo, version.String())
	if b.format == "json" {
		return outputError(report.WriteJSON(a.stdout))
	}
	return outputError(report.WriteText(a.stdout))
}

func (b *cryptoBench) declare(f *flags) {
	f.list(&b.suites, "suites", true, "`LIST` of suites, default all: "+suiteNames(suite.All()))
	f.list(&b.sizes, "size", true, "`LIST` of sizes of plaintexts in bytes, or with KiB (default 64,256,1KiB,4KiB,16KiB)")
	f.list(&b.only, "only", true, "`LIST` of groups to measure, default all: "+groupNames())
	f.IntVar(&b.Repeat, "repeat", b.Repeat, "measure each operation `N` times; from 5 on, the extremes are dropped")
	f.DurationVar(&b.For, "for", b.For, "`TIME` of one measurement")
	f.DurationVar(&b.Warmup, "warmup", b.Warmup, "`TIME` to warm up each operation")
	f.Uint64Var(&b.Seed, "seed", b.Seed, "`NUMBER` that decides messages and symmetric keys")
	f.StringVar(&b.format, "o", "text", "`FORMAT` of the output: text or json")
}

func groupNames() string {
	var names []string
	for _, g := range cryptobench.Groups() {
		names = append(names, string(g))
	}
	return strings.Join(names, ", ")
}

// check turns the lists into options, and refuses what Run would take for a default.
func (b *cryptoBench) check() error {
	for _, name := range b.suites {
		id, ok := suite.ByName(name)
		if !ok {
			return advice.Misuse(fmt.Sprintf("--suites: there is no suite %q", name), "one of "+suiteNames(suite.All()))
		}
		b.Suites = append(b.Suites, id)
	}
	for _, text := range b.sizes {
		n, err := parseBenchSize(text)
		if err != nil {
			return err
		}
		b.Sizes = append(b.Sizes, n)
	}
	for _, name := range b.only {
		if !slices.Contains(cryptobench.Groups(), cryptobench.Group(name)) {
			return advice.Misuse(fmt.Sprintf("--only: there is no group %q", name), "one of "+groupNames())
		}
		b.Groups = append(b.Groups, cryptobench.Group(name))
	}
	switch {
	case b.Repeat < 1:
		return advice.Misuse("--repeat: at least 1", "for example --repeat 5")
	case b.For <= 0 || b.Warmup <= 0:
		return advice.Misuse("--for and --warmup: more than 0", "for example --for 40ms")
	case b.format != "text" && b.format != "json":
		return advice.Misuse(fmt.Sprintf("-o: there is no format %q", b.format), "one of text, json")
	}
	return nil
}

// parseBenchSize reads a number of bytes such as 64 or 4KiB.
func parseBenchSize(text string) (int, error) {
	digits, kib := strings.CutSuffix(text, "KiB")
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	if err != nil || n < 1 || n > 1<<20 {
		return 0, advice.Misuse(fmt.Sprintf("--size: %q is no size", text), "bytes such as 64, or KiB such as 4KiB; up to 1024KiB")
	}
	if kib {
		n <<= 10
	}
	return n, nil
}

// benchProgress returns what shows on a terminal how far a benchmark is, and
// what wipes that away again.
func (a *app) benchProgress() (show func(done, total int), wipe func()) {
	if !a.terminal(a.stderr) {
		return nil, func() {}
	}
	const width = 30
	var shown time.Time
	show = func(done, total int) {
		if now := time.Now(); now.Sub(shown) >= 100*time.Millisecond {
			shown = now
			bar := strings.Repeat("#", width*done/total)
			fmt.Fprintf(a.stderr, "\r\x1b[K[%-*s] %d of %d measurements", width, bar, done, total)
		}
	}
	return show, func() { fmt.Fprint(a.stderr, "\r\x1b[K") }
}
