// Command peers measures Sealcast beside what a user could take instead: the
// same work on the same machine in turn, many rounds of it. It changes nothing
// but the tables that it is told to write. docs/performance.md says how it
// measures. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sealcast/sealcast/bench/peers/drive"
	"github.com/sealcast/sealcast/bench/peers/servers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == servers.Command:
		return servers.Main(ctx, args[1:], os.Stdout)
	case len(args) > 0 && args[0] == drive.BareCommand:
		return drive.Bare(os.Stdout)
	}
	return measure(ctx, args)
}

func measure(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	c := drive.Config{Say: func(text string) { fmt.Fprintln(os.Stderr, text) }}
	only, with, from := "", "", ""
	flags.StringVar(&c.Gateway, "gateway", "sealcast", "program of the gateway")
	flags.IntVar(&c.Rounds, "rounds", 7, "how often everything is measured")
	flags.DurationVar(&c.Within, "within", 13*time.Minute, "begin no round that would not end by then")
	flags.DurationVar(&c.Warmup, "warmup", 300*time.Millisecond, "of each measurement")
	flags.DurationVar(&c.For, "for", 700*time.Millisecond, "that each measurement lasts")
	flags.IntVar(&c.ServerCore, "server-core", 0, "core of the servers")
	flags.IntVar(&c.GeneratorCore, "generator-core", 1, "core of the generator and of Redis")
	flags.StringVar(&only, "only", "", "works whose names contain one of these, separated by commas; empty: all")
	flags.StringVar(&with, "with", "", "those whose names contain one of these, separated by commas; empty: all")
	flags.StringVar(&c.Profiles, "profiles", "", "folder for CPU profiles of the gateway; the figures are then worth less")
	flags.StringVar(&from, "from", "", "files of -json of earlier runs, separated by commas, whose tables and history are written; nothing is measured")
	page := flags.String("page", "", "page whose tables are written")
	json := flags.String("json", "", "file for all measurements")
	history := flags.String("history", "", "file for all measurements in the form that benchstat reads")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.Only, c.With = list(only), list(with)
	found, err := results(ctx, c, list(from))
	if found == nil {
		return err
	}
	if err := found.WriteTables(os.Stdout); err != nil {
		return err
	}
	return errors.Join(err, save(*json, found.WriteJSON), save(*history, found.WriteHistory), found.UpdatePage(*page))
}

func results(ctx context.Context, c drive.Config, from []string) (*drive.Results, error) {
	if len(from) == 0 {
		return drive.Run(ctx, c)
	}
	var files []io.Reader
	for _, name := range from {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files = append(files, f)
	}
	return drive.ReadJSON(files...)
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func save(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
