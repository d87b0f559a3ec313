package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A tail goes on when its gateway restarts, in order or killed, and says so: the
// new process has new epochs, so every topic it knew is reset before it goes on.
func TestTailOutlivesTheGateway(t *testing.T) {
	key := filepath.Join(t.TempDir(), "gateway.key")
	start(t, "sealcast", []string{"keygen", "-o", key}).expect(0)
	sets := []string{everyTick, "key_file=" + key, "drain.window=0s"}
	g := serve(t, sets)
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 1012, syscall.SIGKILL: 0} {
		t.Run(sig.String(), func(t *testing.T) {
			tail := start(t, "sealctl", []string{"tail", g.url(), "--key", g.pin().String(), "--topics", "md:**", "-o", "json"})
			eventually(t, patience, "a tick", func() bool { return tail.stdout.String() != "" })
			g.signal(sig)
			<-g.ended
			g = again(t, g, sets)
			var lines []jsonLine
			at := func(event string) int {
				return slices.IndexFunc(lines, func(l jsonLine) bool { return l.Event == event })
			}
			eventually(t, patience, "ticks of the new gateway", func() bool {
				lines = jsonLines(t, completeLines(tail.stdout.String()))
				i := at("reset")
				return i > 0 && slices.ContainsFunc(lines[i:], func(l jsonLine) bool { return l.Event == "" && l.Topic == lines[i].Topic && l.Epoch == lines[i].Epoch })
			})
			lost, back, reset := at("disconnected"), at("connected"), at("reset")
			if lost < 0 || lines[lost].Code != code || back < lost || reset < back {
				t.Errorf("disconnected %d (code %d), connected %d, reset %d", lost, lines[max(lost, 0)].Code, back, reset)
			}
			tail.signal(syscall.SIGINT)
			tail.expect(0)
		})
	}
}

// again starts a gateway where another one was.
func again(t *testing.T, g *gateway, sets []string) *gateway {
	t.Helper()
	next := launchAt(g.t, g.listen, g.admin, sets)
	next.awaitReady()
	return next
}

// completeLines is output without the line that is being written.
func completeLines(out string) string { return out[:strings.LastIndexByte(out, '\n')+1] }
