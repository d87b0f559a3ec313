// Command sealctl is the user's side of Sealcast: it shows ticks, publishes
// them, and looks at gateways. Its commands are thin: no protocol and no
// cryptography lives here.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"golang.org/x/term"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/loadgen"
	"github.com/sealcast/sealcast/internal/version"
)

// Exit statuses.
const (
	statusDone    = advice.StatusDone
	statusFailed  = advice.StatusFailed
	statusUsage   = advice.StatusUsage
	statusRefused = 3 // could not connect, or the other side said no
)

func main() {
	redis.SetLogger(silent{}) // what matters comes back as an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{
		getenv:   os.Getenv,
		stdin:    os.Stdin,
		stdout:   os.Stdout,
		stderr:   os.Stderr,
		terminal: isTerminal,
	}
	if dir, err := os.UserConfigDir(); err == nil {
		a.knownGateways = filepath.Join(dir, "sealcast", "known_gateways")
	}
	status := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// isTerminal tells whether a person reads or writes at the other end of f.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// silent swallows what the Redis library would print by itself.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// app is the program with all that it takes from outside.
type app struct {
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       func(any) bool
	knownGateways  string // the file of known keys, unless a flag names another
}

// command is one of the program's commands.
type command struct {
	name, operands, summary string
	run                     func(*app, context.Context, []string) error
}

// commands lists what there is, in the order of the usage.
func commands() []command {
	return []command{
		{"tail", "URL", "print decrypted ticks", (*app).tail},
		{"publish", "TOPIC [PAYLOAD|-]", "publish one tick through Redis", (*app).publish},
		{"feed", "", "publish a recorded or synthetic feed through Redis", (*app).feed},
		{"info", "URL", "show what a gateway offers", (*app).info},
		{"token", "", "make a token to try a gateway out with", (*app).token},
		{"bench", "WHAT", "put load on a gateway, or measure what cryptography or compression costs", (*app).bench},
		{"report", "FILE...", "show results of load tests: tables, a page with charts, a comparison of two", (*app).report},
		{"plan", "", "estimate what an installation for so many clients and ticks needs", (*app).plan},
		{"dict", "train FILE...", "train a compression dictionary from recorded feeds", (*app).dict},
		{"version", "", "print the version", (*app).version},
	}
}

func usage() string {
	var b strings.Builder
	b.WriteString("sealctl is the user's side of Sealcast.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-34s %s\n", strings.TrimSpace("sealctl "+c.name+" "+c.operands), c.summary)
	}
	b.WriteString(`
"sealctl COMMAND -h" shows a command's flags, which may stand before or after its operands.
Exit status: 0 done, 1 failed, 2 wrong usage, 3 could not connect or was refused,
99 a threshold of a load test was missed.
`)
	return b.String()
}

// run executes one command and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	err := a.dispatch(ctx, args)
	if err == nil {
		return statusDone
	}
	known := advice.Of(err)
	advice.Write(a.stderr, "sealctl", err.Error(), known.Hint)
	return known.Status
}

func (a *app) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return advice.Misuse("no command given", hintCommands())
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return a.print(usage())
	case helperCommand: // for this program's own use
		return loadgen.Help(ctx, a.stdin, a.stdout)
	case "-version", "--version":
		return a.version(ctx, nil)
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return advice.Misuse(fmt.Sprintf("unknown command %q", args[0]), hintCommands())
	}
	return all[i].run(a, ctx, args[1:])
}

func hintCommands() string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return "one of " + strings.Join(names, ", ") + "; \"sealctl help\" tells more"
}

func (a *app) version(_ context.Context, args []string) error {
	f := newFlags("version", "", "Prints the version.")
	if help, err := a.parse(f, args, 0, 0); help || err != nil {
		return err
	}
	return a.print("sealctl " + version.Long() + "\n")
}

// print writes to standard output.
func (a *app) print(s string) error {
	if _, err := io.WriteString(a.stdout, s); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// note tells a person something beside the command's output.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "sealctl: "+format+"\n", args...)
}

// refused is a connection that did not come about, or was ended by the other side.
func refused(err error, hint string) error {
	return &advice.Error{Err: err, Hint: hint, Status: statusRefused}
}
