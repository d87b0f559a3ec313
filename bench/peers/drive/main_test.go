package drive

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sealcast/sealcast/bench/peers/servers"
)

var gatewayProgram string

// TestMain is also the program that servers are run with, and builds the gateway.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case servers.Command:
			exitOn(servers.Main(context.Background(), os.Args[2:], os.Stdout))
			return
		case BareCommand:
			exitOn(Bare(os.Stdout))
			return
		}
	}
	dir, err := os.MkdirTemp("", "peers")
	exitOn(err)
	gatewayProgram = filepath.Join(dir, "sealcast")
	build := exec.Command("go", "build", "-o", gatewayProgram, "./cmd/sealcast")
	build.Dir, build.Stderr = "../../..", os.Stderr
	exitOn(build.Run())
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
