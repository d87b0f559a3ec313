package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/sealcast/sealcast/internal/advice"
)

// flags is a command's flags with what its usage says.
type flags struct {
	*flag.FlagSet
	operands, text string
}

func newFlags(command, operands, text string) *flags {
	f := &flags{flag.NewFlagSet(command, flag.ContinueOnError), operands, text}
	f.SetOutput(io.Discard)
	return f
}

// list declares a flag that may be given several times; each value may hold
// several, separated by commas, if split is set.
func (f *flags) list(p *[]string, name string, split bool, usage string) {
	f.Func(name, usage, func(s string) error {
		if !split {
			*p = append(*p, s)
			return nil
		}
		for _, part := range strings.Split(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*p = append(*p, part)
			}
		}
		return nil
	})
}

// given tells whether a flag stood on the command line.
func (f *flags) given(name string) bool {
	found := false
	f.Visit(func(g *flag.Flag) { found = found || g.Name == name })
	return found
}

// parse reads a command's arguments; flags may stand before, between and after
// the operands, and "--" ends them. There must be between least and most
// operands. help is true if the usage was asked for and has been printed.
func (a *app) parse(f *flags, args []string, least, most int) (help bool, err error) {
	hint := fmt.Sprintf("\"sealctl %s -h\" shows how it is used", f.Name())
	operands, err := f.interleaved(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return true, a.print(f.usage())
	case err != nil:
		text := strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag --", 1)
		return false, advice.Misuse(f.Name()+": "+text, hint)
	case len(operands) < least:
		return false, advice.Misuse(fmt.Sprintf("%s: %s is missing", f.Name(), strings.Fields(f.operands)[len(operands)]), hint)
	case len(operands) > most:
		return false, advice.Misuse(fmt.Sprintf("%s: unexpected argument %q", f.Name(), operands[most]), hint)
	}
	return false, f.Parse(append([]string{"--"}, operands...))
}

// interleaved parses flags and returns what stood between them. Package flag
// alone stops at the first operand.
func (f *flags) interleaved(args []string) ([]string, error) {
	var operands []string
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		rest := f.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			return append(operands, rest...), nil
		}
		if len(rest) == 0 {
			break
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
	return operands, nil
}

func (f *flags) usage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n\n%s\n", strings.TrimSpace("sealctl "+f.Name()+" "+f.operands)+" [flags]", f.text)
	f.VisitAll(func(g *flag.Flag) {
		value, text := flag.UnquoteUsage(g)
		if value == "value" || value == "string" {
			value = "TEXT"
		}
		dashes := "--"
		if len(g.Name) == 1 {
			dashes = "-"
		}
		fmt.Fprintf(&b, "\n  %s%s\n        %s", dashes, strings.TrimSpace(g.Name+" "+value), text)
		if d := g.DefValue; d != "" && d != "0" && d != "0s" && d != "false" {
			fmt.Fprintf(&b, " (default %s)", d)
		}
	})
	return strings.TrimRight(b.String(), "\n") + "\n"
}
