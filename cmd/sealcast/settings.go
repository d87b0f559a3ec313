package main

import (
	"flag"
	"fmt"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/config"
)

// config is `sealcast config check` and `sealcast config show`.
func (a *app) config(args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "check":
		return a.configCheck(args)
	case "show":
		return a.configShow(args)
	}
	return advice.Misuse(fmt.Sprintf("config: unknown command %q", name), "`sealcast config check FILE` or `sealcast config show`")
}

// configCheck judges a file together with the environment, as serve would.
func (a *app) configCheck(args []string) error {
	flags := newFlags("config check")
	if help, err := a.parse(flags, args, 1); help || err != nil {
		return err
	}
	file := flags.Arg(0)
	loaded, err := config.Load(config.Sources{File: file, Environ: a.environ})
	if err != nil {
		return err
	}
	a.warn(loaded)
	return a.print(file + ": no faults\n")
}

func (a *app) configShow(args []string) error {
	flags := newFlags("config show")
	sources := a.sourceFlags(flags)
	if help, err := a.parse(flags, args, 0); help || err != nil {
		return err
	}
	loaded, err := config.Load(*sources)
	if err != nil {
		return err
	}
	a.warn(loaded)
	return a.print(loaded.Show())
}

// sourceFlags declares --config and --set; the result is complete once flags are parsed.
func (a *app) sourceFlags(flags *flag.FlagSet) *config.Sources {
	sources := &config.Sources{Environ: a.environ}
	flags.StringVar(&sources.File, "config", "", "settings file")
	flags.Func("set", "KEY=VALUE", func(pair string) error {
		sources.Set = append(sources.Set, pair)
		return nil
	})
	return sources
}

func (a *app) warn(loaded *config.Loaded) {
	for _, w := range loaded.Warnings {
		fmt.Fprintf(a.stderr, "sealcast: warning: %s\n", w)
	}
}
