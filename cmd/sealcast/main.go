// Command sealcast is the gateway: it serves, checks settings and makes keys.
// It only joins the packages that do the work; no protocol and no rule for
// ticks lives here.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/config"
	"github.com/sealcast/sealcast/internal/version"
)

// Exit statuses.
const (
	statusDone   = advice.StatusDone
	statusFailed = advice.StatusFailed
	statusUsage  = advice.StatusUsage // also faulty settings
)

func main() {
	fanout.QuietLibrary()
	a := app{
		program: os.Args[0],
		environ: os.Environ(),
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		signals: func() (stops, hangups <-chan os.Signal) {
			s, h := make(chan os.Signal, 2), make(chan os.Signal, 1)
			signal.Notify(s, os.Interrupt, syscall.SIGTERM)
			signal.Notify(h, syscall.SIGHUP)
			// Else a write to a pipe that nobody reads any more would end the
			// gateway, with no word of it: clients matter more than the log.
			signal.Ignore(syscall.SIGPIPE)
			return s, h
		},
		terminal: func() bool { return term.IsTerminal(int(os.Stdin.Fd())) },
	}
	os.Exit(a.run(os.Args[1:]))
}

// app is the program with all that it takes from outside.
type app struct {
	program        string // as it was called
	environ        []string
	stdout, stderr io.Writer
	signals        func() (stops, hangups <-chan os.Signal) // starts to catch them
	terminal       func() bool                              // whether somebody sits at a terminal now
}

const usage = `sealcast is a gateway that sends ticks from Redis to WebSocket clients, encrypted end to end.

  sealcast serve [--config FILE] [--set KEY=VALUE]...        run the gateway; SIGHUP reloads the settings
  sealcast config check FILE                                 look for faults in a settings file
  sealcast config show [--config FILE] [--set KEY=VALUE]...  print the settings in force
  sealcast keygen [-o FILE] [--force]                        make a key file, print the public key
  sealcast keygen --ticket [--rotate] [-o FILE] [--force]    make or renew ticket keys, for gateways that share them
  sealcast health [--live] [--config FILE] [--set KEY=VALUE]...  ask the gateway on this machine whether it is ready
  sealcast version

Settings also come from SEALCAST_KEY_WITH_UNDERSCORES in the environment; --set beats the
environment, the environment beats the file. Values are YAML.
`

// run executes one command and returns the exit status.
func (a *app) run(args []string) int {
	err := a.command(args)
	if err == nil {
		return statusDone
	}
	return a.report(err)
}

func (a *app) command(args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "serve":
		return a.serve(args)
	case "config":
		return a.config(args)
	case "keygen":
		return a.keygen(args)
	case "health":
		return a.health(args)
	case "version":
		return a.version(args)
	case "help", "-h", "-help", "--help":
		return a.print(usage)
	case "":
		return advice.Misuse("no command given", "one of serve, config, keygen, health, version; `sealcast help` tells more")
	}
	return advice.Misuse(fmt.Sprintf("unknown command %q", name), "one of serve, config, keygen, health, version; `sealcast help` tells more")
}

func (a *app) version(args []string) error {
	flags := newFlags("version")
	if help, err := a.parse(flags, args, 0); help || err != nil {
		return err
	}
	return a.print("sealcast " + version.Long() + "\n")
}

// print writes to standard output.
func (a *app) print(s string) error {
	if _, err := io.WriteString(a.stdout, s); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// fault is one thing that is wrong, and what to do about it.
type fault struct{ text, hint string }

// explain lists all that an error says, and the exit status it stands for.
func explain(err error) (list []fault, status int) {
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			list = append(list, fault{f.Error(), f.Hint})
		}
		return list, statusUsage
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			more, s := explain(one)
			list, status = append(list, more...), max(status, s)
		}
		return list, status
	}
	known := advice.Of(err)
	return []fault{{err.Error(), known.Hint}}, known.Status
}

// report prints an error for a person and returns the exit status it stands for.
func (a *app) report(err error) int {
	list, status := explain(err)
	for _, one := range list {
		advice.Write(a.stderr, "sealcast", one.text, one.hint)
	}
	return status
}

// newFlags returns an empty set of flags that leaves all printing to report.
func newFlags(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parse reads a command's arguments, of which exactly so many are no flags.
// help is true if the usage was asked for and has been printed.
func (a *app) parse(flags *flag.FlagSet, args []string, operands int) (help bool, err error) {
	const hint = "`sealcast help` shows the commands and their flags"
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return true, a.print(usage)
	case err != nil:
		return false, advice.Misuse(flags.Name()+": "+err.Error(), hint)
	case flags.NArg() > operands:
		return false, advice.Misuse(fmt.Sprintf("%s: unexpected argument %q", flags.Name(), flags.Arg(operands)), hint)
	case flags.NArg() < operands:
		return false, advice.Misuse(flags.Name()+": an argument is missing", hint)
	}
	return false, nil
}
