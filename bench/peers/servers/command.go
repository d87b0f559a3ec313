package servers

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // memory is collected, and profiles taken, through it
)

// Command is the word in front of the arguments of Main.
const Command = "serve"

// ReadyLine is what Main prints once the server's address is taken. admin is
// that of /debug/pprof.
func ReadyLine(address, admin string) string { return "ready " + address + " " + admin }

// Main runs one server in a process of its own: the arguments are its name and flags.
func Main(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	var o Options
	flags.StringVar(&o.Redis, "redis", "", "host:port of the Redis that ticks come from")
	flags.StringVar(&o.Topic, "topic", "", "of the ticks")
	flags.BoolVar(&o.Batched, "batched", false, "ticks may wait for company")
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	admin, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer admin.Close()
	go func() { _ = http.Serve(admin, nil) }() // it ends with the process
	return Run(ctx, name, o, func(address string) {
		fmt.Fprintln(out, ReadyLine(address, admin.Addr().String()))
	})
}
