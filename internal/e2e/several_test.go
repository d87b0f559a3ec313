package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Three gateways on a Redis Cluster with sharded channels behind HAProxy, with the
// files of deploy: clients spread over them, one is killed, one drained, one added,
// the static key and the ticket keys are changed. Every client comes back by its
// ticket to whichever gateway is there, and accounts for every tick of every topic:
// it came, once and in order, or the client was told that it did not.
func TestSeveralGateways(t *testing.T) {
	t.Run("sharded", func(t *testing.T) { goThrough(t, "sharded") })
	if testenv.Long() { // with streams nothing is lost at all
		t.Run("streams", func(t *testing.T) { goThrough(t, "streams") })
	}
}

func goThrough(t *testing.T, source string) {
	const clients = 18
	s := startSeveral(t, source)
	for i := range 3 {
		s.startGateway(i)
	}
	s.startProxy()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.running.Go(func() { s.publish(ctx) })

	s.join(clients, s.pins...)
	for i := range 3 {
		if n := s.sessionsOf(i); n < clients/3-1 || n > clients/3+1 {
			t.Errorf("gateway %d has %d of %d clients", i, n, clients)
		}
	}

	s.gateways[0].signal(syscall.SIGKILL)
	s.gateways[0].end()
	s.together("one was killed", 1, 2)

	s.rotateTickets(1, 2)
	s.drain(1) // tickets under the key of before are good at the other one
	s.together("one was drained", 2)

	s.startGateway(3)
	eventually(t, patience, "HAProxy sees the gateway that was added", func() bool {
		return strings.Contains(s.proxy.out.String(), "Server gateways/gateway4 is UP")
	})
	s.join(6, s.pins...)
	if n := s.sessionsOf(3); n < 5 {
		t.Errorf("the gateway that was added has %d of 6 newcomers, although it had nobody", n)
	}

	ended := s.ends()
	s.changeKey(2, 3)
	s.join(1, s.pins[1])
	if _, err := client.Dial(t.Context(), s.url(), s.options(s.pins[0])); !errors.Is(err, session.ErrWrongPin) {
		t.Errorf("a client that knows the key of before alone: %v", err)
	}
	if n := s.ends(); n != ended {
		t.Errorf("%d sessions ended when the key was changed", n-ended)
	}
	s.drain(2)
	s.together("the key was changed", 3)

	stop()
	s.verdict()
}

// several is a number of gateways that share a cluster and keys, one HAProxy, and
// clients behind it that keep accounts.
type several struct {
	t        *testing.T
	source   string // of ticks: sharded or streams
	cluster  *redistest.Cluster
	cert     certificate
	at       string              // where HAProxy listens
	keys     string              // the folder of the keys that all gateways share
	pins     []session.PublicKey // of the key that is in force at first, and of the next
	places   [4][2]string        // in HAProxy's file: addresses for clients and for admins
	proxy    *tool
	gateways [4]*gateway
	clients  []*follower
	running  sync.WaitGroup // publisher and clients
}

// severalTopics are spread over all nodes, and are of both policies.
var severalTopics = func() (names []string) {
	for i := range 12 {
		names = append(names, fmt.Sprintf("md:several:S%d:%s", i, []string{"ticker", "trade"}[i%2]))
	}
	return names
}()

// lastWord follows the counter in the last payload of each topic.
const lastWord = " last"

func startSeveral(t *testing.T, source string) *several {
	t.Helper()
	s := &several{t: t, source: source, cluster: redistest.StartCluster(t), cert: newCertificate(t), at: freeAddress(t), keys: t.TempDir()}
	for i := range s.places {
		s.places[i] = [2]string{freeAddress(t), freeAddress(t)}
	}
	for _, name := range []string{"gateway.key", "next.key"} {
		made := start(t, "sealcast", []string{"keygen", "-o", filepath.Join(s.keys, name)})
		made.expect(0)
		pin, err := session.ParsePin(strings.TrimSpace(made.stdout.String()))
		if err != nil {
			t.Fatal(err)
		}
		s.pins = append(s.pins, pin)
	}
	start(t, "sealcast", []string{"keygen", "--ticket", "-o", filepath.Join(s.keys, "tickets.key")}).expect(0)
	return s
}

// startGateway starts the gateway of a place, with the file that ships.
func (s *several) startGateway(place int) {
	s.t.Helper()
	sets := []string{"key_file=" + filepath.Join(s.keys, "gateway.key"), "resumption.ticket_key_file=" + filepath.Join(s.keys, "tickets.key"),
		"redis.addrs=[" + strings.Join(s.cluster.Addrs(), ",") + "]", "redis.source=" + s.source, "proxy.trusted=127.0.0.1", "drain.window=500ms"}
	s.gateways[place] = launchAt(s.t, s.places[place][0], s.places[place][1], sets, settingsFile(s.t, "deploy/several/gateway.yaml"))
	s.gateways[place].awaitReady()
}

// settingsFile has a gateway read a file of the repository.
func settingsFile(t *testing.T, path string) setup {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--config", path) }
}

// startProxy starts HAProxy with the file that ships and a line more for each
// gateway more, one of which is not there yet.
func (s *several) startProxy() {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "deploy/haproxy/haproxy.cfg"))
	if err != nil {
		s.t.Fatal(err)
	}
	file := bytes.NewBuffer(content)
	environ := []string{"SEALCAST_TLS_BIND=" + s.at, "SEALCAST_CERT=" + s.cert.both}
	for i, place := range s.places {
		_, adminPort, _ := net.SplitHostPort(place[1])
		if i < 2 {
			environ = append(environ, fmt.Sprintf("SEALCAST_GATEWAY%d=%s", i+1, place[0]), fmt.Sprintf("SEALCAST_ADMIN_PORT%d=%s", i+1, adminPort))
		} else {
			fmt.Fprintf(file, "    server gateway%d %s port %s\n", i+1, place[0], adminPort)
		}
	}
	path := filepath.Join(s.t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.proxy = startTool(s.t, environ, "haproxy", "-f", path)
	awaitTLS(s.t, s.at, s.cert)
}

func (s *several) url() string { return "wss://" + s.at + "/ws" }

func (s *several) options(pins ...session.PublicKey) client.Options {
	return client.Options{Pins: pins, TLSConfig: s.cert.roots(s.t), DialTimeout: patience,
		Backoff: client.Backoff{Min: 100 * time.Millisecond, Max: time.Second}}
}

// publish counts up in every topic until ctx ends; then it says the last word in
// each, to clients that are all there.
func (s *several) publish(ctx context.Context) {
	commands, sources := map[string][]string{}, map[string]*redistest.Conn{}
	for _, topic := range severalTopics {
		if s.source == "streams" {
			commands[topic] = []string{"XADD", "ticks", "*", "topic", topic, "payload"}
		} else {
			commands[topic] = []string{"SPUBLISH", topic}
		}
		sources[topic] = s.cluster.Owner(commands[topic][1]).Connect()
	}
	send := func(topic string, counter int, word string) {
		if _, err := sources[topic].Try(append(commands[topic], strconv.Itoa(counter)+word)...); err != nil {
			s.t.Errorf("publishing: %v", err)
		}
	}
	counter := 1
	for ; ctx.Err() == nil; counter++ {
		for _, topic := range severalTopics {
			send(topic, counter, "")
			time.Sleep(5 * time.Millisecond)
		}
	}
	for _, topic := range severalTopics {
		send(topic, counter, lastWord)
	}
}

// join has more clients come, one after the other as HAProxy spreads them, and
// waits until each has had a tick.
func (s *several) join(n int, pins ...session.PublicKey) {
	s.t.Helper()
	for range n {
		c, err := client.Open(s.t.Context(), s.url(), s.options(pins...))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = c.Close(context.Background()) })
		if err := c.Subscribe(severalTopics...); err != nil {
			s.t.Fatal(err)
		}
		f := &follower{Client: c, account: newAccount(new(tally))}
		s.clients = append(s.clients, f)
		s.running.Go(func() {
			if err := f.follow(s.t.Context()); err != nil && s.t.Context().Err() == nil {
				s.t.Error(err)
			}
		})
	}
	s.supplied("newcomers")
}

func (s *several) sessionsOf(place int) int {
	return int(s.gateways[place].metric("sealcast_connections"))
}

// drain stops a gateway in order.
func (s *several) drain(place int) {
	s.t.Helper()
	s.gateways[place].signal(syscall.SIGTERM)
	s.gateways[place].expect(0, `"stopped"`)
}

// rotateTickets puts a new ticket key in front of the one in use, as README says.
func (s *several) rotateTickets(places ...int) {
	s.t.Helper()
	start(s.t, "sealcast", []string{"keygen", "--ticket", "--rotate", "-o", filepath.Join(s.keys, "tickets.key")}).expect(0)
	for _, place := range places {
		g := s.gateways[place]
		g.signal(syscall.SIGHUP)
		eventually(s.t, patience, "the new ticket key", func() bool { return strings.Contains(g.stderr.String(), `"settings reloaded"`) })
	}
}

// changeKey puts the next static key into force, of which clients have been told.
func (s *several) changeKey(places ...int) {
	s.t.Helper()
	if err := os.Rename(filepath.Join(s.keys, "next.key"), filepath.Join(s.keys, "gateway.key")); err != nil {
		s.t.Fatal(err)
	}
	for _, place := range places {
		g := s.gateways[place]
		g.signal(syscall.SIGHUP)
		eventually(s.t, patience, "the new key", func() bool { return g.pin() == s.pins[1] })
	}
}

// together waits until all clients are at the gateways of these places, and get
// ticks there.
func (s *several) together(after string, places ...int) {
	s.t.Helper()
	eventually(s.t, patience, "all clients are back after "+after, func() bool {
		n := 0
		for _, place := range places {
			n += s.sessionsOf(place)
		}
		return n == len(s.clients)
	})
	s.supplied(after)
}

// supplied waits until every client has had a tick from now on.
func (s *several) supplied(after string) {
	s.t.Helper()
	for i, f := range s.clients {
		had := f.received.Load()
		eventually(s.t, patience, fmt.Sprintf("client %d gets ticks after %s", i, after), func() bool { return f.received.Load() > had })
	}
}

// ends counts connections of clients that have ended.
func (s *several) ends() (n int64) {
	for _, f := range s.clients {
		n += f.ends.Load()
	}
	return n
}

// verdict waits until every client has had the last word in every topic.
func (s *several) verdict() {
	s.t.Helper()
	s.running.Wait()
	var all tally
	for i, f := range s.clients {
		all.received.Add(f.received.Load())
		all.merged.Add(f.merged.Load())
		all.lost.Add(f.lost.Load())
		all.resets.Add(f.resets.Load())
		if f.refused != 0 || f.keys > 2 {
			s.t.Errorf("client %d: at %d of %d returns its ticket was not taken; it met %d keys", i, f.refused, f.ends.Load(), f.keys)
		}
	}
	s.t.Logf("%d clients: %d ticks received and accounted for, %d merged, %d told as lost, %d beginnings anew, %d connections ended",
		len(s.clients), all.received.Load(), all.merged.Load(), all.lost.Load(), all.resets.Load(), s.ends())
	if s.ends() < int64(len(s.clients)) {
		s.t.Error("nobody had to go to another gateway")
	}
	if told := all.resets.Load() + all.lost.Load(); (told == 0) != (s.source == "streams") {
		s.t.Errorf("%d losses were told", told)
	}
}

// follower is a client that keeps an account, and comes back.
type follower struct {
	*client.Client
	*account
	ends    atomic.Int64      // connections that ended
	key     session.PublicKey // of the gateways, as seen last
	keys    int               // times that it was another one
	refused int               // returns to a gateway with the same key that did not take the ticket
	said    int               // topics in which the last word came
}

// follow reads until the last word has come in every topic.
func (f *follower) follow(ctx context.Context) error {
	f.meet(f.Info())
	for f.said < len(severalTopics) {
		event, err := f.Next(ctx)
		if err != nil {
			return err
		}
		if err := f.take(event); err != nil {
			return err
		}
		switch e := event.(type) {
		case *client.Disconnected:
			f.ends.Add(1)
			if closed, ok := errors.AsType[*client.ClosedError](e.Err); ok && closed.Final && closed.Code != wire.CloseRestart {
				return e.Err
			}
		case *client.Connected:
			f.meet(e.Info)
		case *client.Tick:
			if strings.HasSuffix(string(e.Payload), lastWord) {
				f.said++
			}
		}
	}
	return nil
}

// meet notes the gateway of a new connection. Tickets belong to a static key: a
// gateway with another one asks for a full handshake.
func (f *follower) meet(g client.Info) {
	switch {
	case g.Key != f.key:
		f.key = g.Key
		f.keys++
	case !g.Resumed:
		f.refused++
	}
}
