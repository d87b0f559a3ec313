package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/config"
	"github.com/sealcast/sealcast/internal/embedded"
	"github.com/sealcast/sealcast/session"
)

// reloadable is a gateway with a settings file.
type reloadable struct {
	*running
	file  string
	ready map[string]any
}

// common begins every settings file here.
const common = "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\nloops: 1\n"

func serveFile(t *testing.T, settings string) *reloadable {
	t.Helper()
	r := &reloadable{file: write(t, filepath.Join(t.TempDir(), "gw.yaml"), common+settings, 0o600)}
	r.running = serveArgs(t, nil, []string{"serve", "--config", r.file})
	r.ready = r.logged("ready")
	t.Cleanup(func() { r.stop() })
	return r
}

// reload writes settings, sends SIGHUP, and returns the log line about the result.
func (r *reloadable) reload(settings, msg string) map[string]any {
	r.t.Helper()
	write(r.t, r.file, common+settings, 0o600)
	before := len(r.stderr.entries(msg))
	r.hangups <- syscall.SIGHUP
	return r.stderr.logged(r.t, msg, before+1)
}

const (
	taken    = "settings reloaded"
	notTaken = "not reloaded: the settings from before stay in force"
)

// Numbered ticks are published while everything that can change changes, again
// and again: each arrives, in order, on the connection from before.
func TestReloadUnderFeed(t *testing.T) {
	source, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	atRest := "redis: {mode: standalone, addrs: '" + source.Addr() + "'}\n"
	other := atRest + "cipher: {suites: [sm4-gcm], prefer: sm4-gcm, post_quantum: 'off', rekey: {records: 1}}\nkey_file: " + keyFile(t) + "\n" +
		"resumption: {enabled: false}\necho: {max_message: 1KiB}\nlimits: {connections: 5, connections_per_ip: 5, handshakes_per_second: 5, deny: 192.0.2.1, subscriptions: 1, message: 2KiB, fragments: 2}\n" +
		"slow: {queue: 1KiB, timeout: 1s}\nbatch: {max_ticks: 1, max_bytes: 256}\nheartbeat: {interval: 20s, timeout: 80s}\ndrain: {window: 1s}\norigins: 'https://a.example'\nlog: {level: debug}\n"
	r := serveFile(t, atRest)
	conn := subscribed(t, r.ready, client.Options{Insecure: true})
	echo, err := client.DialEcho(t.Context(), "ws://"+r.ready["listen"].(string)+"/echo", client.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	const rounds, perRound = 10, 50
	received := make(chan error, 1)
	var arrived atomic.Int64
	go func() { received <- receiveNumbered(t.Context(), conn, 2*rounds*perRound, &arrived) }()
	publisher := redis.NewClient(&redis.Options{Addr: source.Addr()})
	defer publisher.Close()
	published := make(chan error, 1)
	go func() { published <- publishNumbered(t.Context(), publisher, rounds*perRound, time.Millisecond) }()
	for n := range rounds {
		for arrived.Load() < int64(2*n*perRound) && len(received) == 0 {
			time.Sleep(time.Millisecond)
		}
		r.reload([]string{other, atRest}[n%2], taken)
		if err := echo.Send(t.Context(), []byte{byte(n)}); err != nil {
			t.Fatal(err)
		}
		if got, err := echo.Receive(t.Context()); err != nil || len(got) != 1 || got[0] != byte(n) {
			t.Fatalf("echo: %q, %v", got, err)
		}
	}
	if err := errors.Join(<-published, <-received); err != nil {
		t.Errorf("%v, log:\n%s", err, r.stderr.String())
	}
	leave(conn)
	_ = echo.Close(t.Context())
}

// publishNumbered publishes 0, 1, 2, … on two topics.
func publishNumbered(ctx context.Context, to *redis.Client, count int, pause time.Duration) error {
	for n := range count {
		for _, topic := range []string{"md:a", "md:b"} {
			if err := to.Publish(ctx, topic, strconv.Itoa(n)).Err(); err != nil {
				return err
			}
		}
		time.Sleep(pause)
	}
	return nil
}

// receiveNumbered wants the ticks of publishNumbered, and nothing but them. It counts them in arrived.
func receiveNumbered(ctx context.Context, conn *client.Conn, count int, arrived *atomic.Int64) error {
	next := map[string]int{}
	for count > 0 {
		event, err := conn.Next(ctx)
		if err != nil {
			return fmt.Errorf("%d ticks to come: %w", count, err)
		}
		switch e := event.(type) {
		case *client.Tick:
			if got, want := string(e.Payload), strconv.Itoa(next[e.Topic]); got != want {
				return fmt.Errorf("%s: got %s, want %s", e.Topic, got, want)
			}
			next[e.Topic]++
			count--
			arrived.Add(1)
		case *client.Gap, *client.Reset, *client.Refused:
			return fmt.Errorf("%+v", e)
		}
	}
	return nil
}

// keyFile makes a key file and returns its path.
func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gw.key")
	execute(t, nil, "keygen", "-o", path)
	return path
}

func pinOf(t *testing.T, path string) session.PublicKey {
	t.Helper()
	key, err := readKey("key_file", path)
	if err != nil {
		t.Fatal(err)
	}
	return key.Public()
}

// Clients hold the old pin and the new one; then the key changes.
func TestKeyRotation(t *testing.T) {
	oldFile, newFile := keyFile(t), keyFile(t)
	oldPin, newPin := pinOf(t, oldFile), pinOf(t, newFile)
	both := client.Options{Pins: []session.PublicKey{oldPin, newPin}}
	r := serveFile(t, "key_file: "+oldFile+"\n")
	conn := subscribed(t, r.ready, both)
	ticks := demoTicks{t: t, conn: conn}
	ticks.expect(5)

	line := r.reload("key_file: "+newFile+"\n", taken)
	if line["public_key"] != newPin.String() || words(line["changed"]) != "key_file" {
		t.Errorf("log: %v", line)
	}
	if got := infoOf(t, r.ready).PublicKey; got != newPin.String() {
		t.Errorf("info: %s", got)
	}
	ticks.expect(20)
	_, err := client.Dial(t.Context(), "ws://"+r.ready["listen"].(string), client.Options{Pins: []session.PublicKey{oldPin}})
	if !errors.Is(err, session.ErrWrongPin) {
		t.Errorf("a client that knows the old pin alone: %v", err)
	}
	withTicket := both
	withTicket.Ticket = conn.Ticket() // made under the old key
	again := dial(t, r.ready, withTicket)
	if info := again.Info(); info.Key != newPin || info.Resumed {
		t.Errorf("got %+v", info)
	}

	execute(t, nil, "keygen", "--force", "-o", newFile) // the same name, another key
	line = r.reload("key_file: "+newFile+"\n", taken)
	if line["public_key"] != pinOf(t, newFile).String() || words(line["changed"]) != "content of key_file" {
		t.Errorf("log: %v", line)
	}
	ticks.expect(5)
	leave(again)
	leave(conn)
}

// A temporary key lasts through a reload, and gives way to a key file and back.
func TestTemporaryKeyAndReload(t *testing.T) {
	r := serveFile(t, "")
	temporary := infoOf(t, r.ready).PublicKey
	if line := r.reload("", taken); line["public_key"] != temporary || words(line["changed"]) != "" {
		t.Errorf("log: %v", line)
	}
	r.reload("key_file: "+keyFile(t)+"\n", taken)
	if infoOf(t, r.ready).TemporaryKey {
		t.Error("the key file counts as temporary")
	}
	if line := r.reload("", taken); line["public_key"] == temporary {
		t.Error("the first temporary key has come back")
	}
	const warning = "temporary key: it is gone when the gateway stops, and pins of it with it; set key_file to keep one"
	if got := len(r.stderr.entries(warning)); got != 2 {
		t.Errorf("%d warnings", got)
	}
}

// Whatever is wrong, everything stays as it was, and the log says all that is wrong.
func TestFaultyReload(t *testing.T) {
	dir := t.TempDir()
	key, wide := keyFile(t), write(t, filepath.Join(dir, "wide"), "", 0o644)
	r := serveFile(t, "key_file: "+key+"\ncipher: {suites: [aes-128-gcm]}\n")
	before := infoOf(t, r.ready)
	conn := subscribed(t, r.ready, client.Options{Pins: []session.PublicKey{pinOf(t, key)}})
	ticks := demoTicks{t: t, conn: conn}
	seen := 0
	for _, c := range []struct {
		settings string
		faults   []string
	}{
		{"lops: 1\nslow: {queue: x}\ncipher: {suites: [sm4-gcm]}\n", []string{
			r.file + ":4: lops: unknown setting | did you mean loops?",
			r.file + `:5: slow.queue: "x" is not a size: write a whole number with B, KiB, MiB or GiB | allowed: 1KiB to 1GiB`}},
		{"key_file: " + dir + "/none\nresumption: {ticket_key_file: " + wide + "}\n", []string{
			"key_file: open " + dir + "/none: no such file or directory | make one with `sealcast keygen -o " + dir + "/none`",
			"resumption.ticket_key_file " + wide + " has mode 0644: others than its owner may use it | chmod 600 " + wide}},
		{"key_file: " + key + "\nresumption: {ticket_key_file: " + dir + "/none}\n", []string{
			"resumption.ticket_key_file: open " + dir + "/none: no such file or directory | make one with `sealcast keygen --ticket -o " + dir + "/none`"}},
	} {
		line := r.reload(c.settings, notTaken)
		var faults []string
		for _, e := range r.stderr.entries("fault in the settings")[seen:] {
			faults = append(faults, e["fault"].(string)+" | "+e["hint"].(string))
		}
		seen += len(faults)
		if !slices.Equal(faults, c.faults) || line["faults"] != float64(len(c.faults)) {
			t.Errorf("got %q, %v", faults, line)
		}
		if got := infoOf(t, r.ready); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("info: %+v", got)
		}
		ticks.expect(5)
	}
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	r.hangups <- syscall.SIGHUP
	r.stderr.logged(t, notTaken, 4)
	leave(dial(t, r.ready, client.Options{Pins: []session.PublicKey{pinOf(t, key)}, Suites: []suite.ID{suite.AES128GCM}}))
	leave(conn)
}

func TestSettingsThatNeedARestart(t *testing.T) {
	const warning = "these settings wait for a restart, the values from before stay in force"
	r := serveFile(t, "realm: here\n")
	conn := subscribed(t, r.ready, client.Options{Insecure: true, Realm: "here"})
	changed := "realm: there\nredis: {mode: standalone, addrs: 'a:1', password: p}\nlimits: {tick: 1KiB}\nlog: {format: text}\nbatch: {max_ticks: 7}\n"
	want := "realm redis.mode limits.tick log.format"
	for n := 1; n <= 2; n++ { // they wait until the restart comes
		line := r.reload(changed, taken)
		if got, want := words(line["changed"]), []string{"redis.addrs redis.password batch.max_ticks", ""}[n-1]; got != want {
			t.Errorf("changed: %s", got)
		}
		if got := words(r.stderr.logged(t, warning, n)["settings"]); got != want {
			t.Errorf("waiting: %s", got)
		}
	}
	if got := infoOf(t, r.ready).Realm; got != "here" {
		t.Errorf("realm %s", got)
	}
	(&demoTicks{t: t, conn: conn}).expect(5)
	r.reload("realm: here\n", taken)
	if got := len(r.stderr.entries(warning)); got != 2 {
		t.Errorf("%d warnings", got)
	}
	leave(conn)
}

// Who may connect changes for newcomers; who is there stays.
func TestReloadOfAdmission(t *testing.T) {
	r := serveFile(t, "")
	conn := subscribed(t, r.ready, client.Options{Insecure: true})
	url := "ws://" + r.ready["listen"].(string)
	page := client.Options{Insecure: true, Header: http.Header{"Origin": {"https://b.example"}}}
	leave(dial(t, r.ready, page))
	r.reload("origins: https://a.example\n", taken)
	if _, err := client.Dial(t.Context(), url, page); !errors.Is(err, client.ErrRefused) {
		t.Errorf("another page: %v", err)
	}
	for _, limits := range []string{"deny: 127.0.0.0/8", "connections_per_ip: 1", "connections: 1"} {
		r.reload("limits: {"+limits+"}\n", taken)
		if second, err := client.Dial(t.Context(), url, client.Options{Insecure: true}); err == nil {
			t.Errorf("%s: a second client is let in", limits)
			leave(second)
		}
	}
	r.reload("", taken)
	leave(dial(t, r.ready, page))
	(&demoTicks{t: t, conn: conn}).expect(5)
	leave(conn)
}

func TestReloadOfLogLevel(t *testing.T) {
	r := serveFile(t, "log: {level: info}\n")
	write(t, r.file, common+"log: {level: error}\ncipher: {suites: [sm4-gcm]}\n", 0o600)
	r.hangups <- syscall.SIGHUP
	for deadline := time.Now().Add(20 * time.Second); infoOf(t, r.ready).Suites[0] != "sm4-gcm"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reloaded; log:\n%s", r.stderr.String())
		}
	}
	if line := r.reload("log: {level: info}\n", taken); words(line["changed"]) != "cipher.suites log.level" {
		t.Errorf("log: %v", line)
	}
	if got := len(r.stderr.entries(taken)); got != 1 {
		t.Errorf("%d lines at level error", got)
	}
}

// When the terminal closes, the gateway in it stops.
func TestHangupOfTheTerminal(t *testing.T) {
	r := serveWith(t, nil, "loops=1")
	r.logged("ready")
	r.hangups <- syscall.SIGHUP
	r.logged(taken)
	r.gone.Store(true)
	r.hangups <- syscall.SIGHUP
	if status := <-r.ended; status != 0 || r.logged("stopping")["signal"] != "hangup" {
		t.Errorf("status %d, log:\n%s", status, r.stderr.String())
	}
}

// Gateways that share their keys take each other's tickets, also while a new
// ticket key has reached one of them alone.
func TestSharedTicketKeys(t *testing.T) {
	key, ticketKeys := keyFile(t), filepath.Join(t.TempDir(), "tickets")
	execute(t, nil, "keygen", "--ticket", "-o", ticketKeys)
	settings := "key_file: " + key + "\nresumption: {ticket_key_file: " + ticketKeys + "}\n"
	a, b := serveFile(t, settings), serveFile(t, settings)
	rotate := func() {
		execute(t, nil, "keygen", "--ticket", "--rotate", "-o", ticketKeys)
		if line := b.reload(settings, taken); words(line["changed"]) != "content of resumption.ticket_key_file" {
			t.Errorf("log: %v", line)
		}
	}
	pins := []session.PublicKey{pinOf(t, key)}
	try := func(name string, from, to *reloadable, between func(), want bool) {
		t.Helper()
		first := dial(t, from.ready, client.Options{Pins: pins})
		leave(first)
		between()
		second := dial(t, to.ready, client.Options{Pins: pins, Ticket: first.Ticket()})
		if got := second.Info().Resumed; got != want {
			t.Errorf("%s: resumed %v", name, got)
		}
		leave(second)
	}
	nothing := func() {}
	try("the same keys", a, b, nothing, true)
	try("the key before", a, b, rotate, true)
	try("a key that is not known yet", b, a, nothing, false)
	try("a key that has gone", a, b, rotate, false)
	b.reload("key_file: "+key+"\nresumption: {enabled: false}\n", taken)
	without := dial(t, b.ready, client.Options{Pins: pins})
	if without.Ticket() != nil {
		t.Error("a ticket although resumption is off")
	}
	leave(without)
}

// startServices brings services up that the test itself drives.
func startServices(t *testing.T, sets ...string) (s *services, ready map[string]any) {
	t.Helper()
	loaded, err := config.Load(config.Sources{Set: append([]string{"listen=127.0.0.1:0", "admin.listen=127.0.0.1:0", "loops=1"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	s = newServices(&loaded.Config, newLogger(io.Discard, loaded.Config.Log), nil)
	t.Cleanup(s.stop)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s, map[string]any{"listen": s.listener.Addr().String()}
}

// Without a file, the process changes its ticket key by itself; a ticket
// outlives one change, not two.
func TestOwnTicketKeys(t *testing.T) {
	s, ready := startServices(t)
	for changes, want := range []bool{true, true, false} {
		first := dial(t, ready, client.Options{Insecure: true})
		leave(first)
		for range changes {
			s.rotateTicketKeys()
		}
		second := dial(t, ready, client.Options{Insecure: true, Ticket: first.Ticket()})
		if got := second.Info().Resumed; got != want {
			t.Errorf("after %d changes: resumed %v", changes, got)
		}
		leave(second)
	}
}

func TestOwnTicketKeysChangeInTime(t *testing.T) {
	s, _ := startServices(t, "resumption.lifetime=1s")
	first := s.live.Load().tickets
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	for deadline := time.Now().Add(20 * time.Second); s.live.Load().tickets == first; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the ticket key stays")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Keys from a file change with the file, and only then.
func TestTicketKeysOfAFileStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tickets")
	execute(t, nil, "keygen", "--ticket", "-o", path)
	s, _ := startServices(t, "resumption.ticket_key_file="+path)
	before := s.live.Load()
	s.rotateTicketKeys()
	if s.live.Load() != before {
		t.Error("changed")
	}
}
