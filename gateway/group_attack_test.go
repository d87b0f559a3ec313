package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// edited is a client's connection on which somebody changes the group records
// that come. change gets the number of a record, from 0, and returns what goes on
// in its place.
type edited struct {
	net.Conn
	in     *bufio.Reader
	out    bytes.Buffer
	opened bool // the answer to the upgrade has passed
	n      int
	change func(n int, msg []byte) [][]byte
}

func (e *edited) Read(p []byte) (int, error) {
	for e.out.Len() == 0 {
		if err := e.pass(); err != nil {
			return 0, err
		}
	}
	return e.out.Read(p)
}

// pass takes on one line of the answer, or one frame.
func (e *edited) pass() error {
	if !e.opened {
		line, err := e.in.ReadBytes('\n')
		e.opened = len(line) == 2
		e.out.Write(line)
		return err
	}
	header, err := ws.ReadHeader(e.in)
	if err != nil {
		return err
	}
	if header.Length > wire.MaxServerPlaintext+64 {
		return errors.New("a frame longer than any of the gateway's")
	}
	f := ws.Frame{Header: header, Payload: make([]byte, header.Length)}
	if _, err := io.ReadFull(e.in, f.Payload); err != nil {
		return err
	}
	msgs := [][]byte{f.Payload}
	if f.Header.OpCode == ws.OpBinary && wire.Kind(f.Payload[0]) == wire.KindGroupRecord {
		msgs = e.change(e.n, f.Payload)
		e.n++
	}
	for _, msg := range msgs {
		f.Payload, f.Header.Length = msg, int64(len(msg))
		if err := ws.WriteFrame(&e.out, f); err != nil {
			return err
		}
	}
	return nil
}

// crowd is a gateway with a group whose first member is not honest.
type crowd struct {
	*server
	insider, other *follower
}

func newCrowd(t *testing.T) *crowd {
	s := startGroups(t, nil)
	return &crowd{s, follow(t, s, suite.AES128GCM, "md:a"), follow(t, s, suite.AES128GCM, "md:a")}
}

// publish sends one tick to the group, as a record of its own.
func (c *crowd) publish(payload string) {
	c.hub.publish("md:a", []byte(payload))
	c.insider.skip("group batch")
	c.other.skip("group batch")
}

// watch is a member through whose connection somebody looks and acts. It returns
// the ticks that came out, and how a ping behind them ended.
func (c *crowd) watch(t *testing.T, change func(n int, msg []byte) [][]byte) (got []string, err error) {
	opts := c.options(suite.AES128GCM)
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &edited{Conn: conn, in: bufio.NewReader(conn), change: change}, err
	}
	victim, err := client.Dial(t.Context(), c.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close(context.Background())
	if _, err := victim.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	for _, payload := range threeTicks {
		c.publish(payload)
	}
	_, err = victim.Ping(t.Context()) // its answer stands behind a mark
	for len(got) < len(threeTicks) {
		e, err := victim.Next(t.Context())
		if err != nil {
			break
		}
		if tick, ok := e.(*client.Tick); ok {
			got = append(got, string(tick.Payload))
		}
	}
	return got, err
}

var threeTicks = []string{"tick number one", "tick number two", "tick number three"}

// at changes one record.
func at(number int, change func(msg []byte) [][]byte) func(int, []byte) [][]byte {
	return func(n int, msg []byte) [][]byte {
		if n == number {
			return change(msg)
		}
		return [][]byte{msg}
	}
}

// TestGroupRecordsOnTheWire: what somebody between gateway and client does to the
// records of a group ends the session, at the latest when the next mark comes.
func TestGroupRecordsOnTheWire(t *testing.T) {
	c := newCrowd(t)
	if got, err := c.watch(t, func(_ int, msg []byte) [][]byte { return [][]byte{msg} }); !slices.Equal(got, threeTicks) || err != nil {
		t.Fatalf("undisturbed: %q, %v", got, err)
	}
	nothing := func([]byte) [][]byte { return nil }
	var kept []byte
	type attack struct {
		name   string
		came   int // genuine ticks that came out
		change func(int, []byte) [][]byte
	}
	attacks := []attack{
		{"dropped", 1, at(1, nothing)},
		{"last dropped", 2, at(2, nothing)},
		{"all dropped", 0, func(int, []byte) [][]byte { return nil }},
		{"repeated", 2, at(1, func(m []byte) [][]byte { return [][]byte{m, bytes.Clone(m)} })},
		{"swapped", 1, func(n int, m []byte) [][]byte {
			switch n {
			case 1:
				kept = bytes.Clone(m)
				return nil
			case 2:
				return [][]byte{m, kept}
			}
			return [][]byte{m}
		}},
		{"older one again", 2, func(n int, m []byte) [][]byte {
			if n == 0 {
				kept = bytes.Clone(m)
			}
			if n == 1 {
				return [][]byte{m, kept}
			}
			return [][]byte{m}
		}},
		{"cut off", 1, at(1, func(m []byte) [][]byte { return [][]byte{m[:len(m)-1]} })},
		{"as a record of the session", 1, at(1, func(m []byte) [][]byte { return [][]byte{append([]byte{0x10}, m[1:]...)} })},
	}
	for i := range record.GroupHeaderSize + 40 {
		attacks = append(attacks, attack{fmt.Sprint("byte ", i), 1, at(1, func(m []byte) [][]byte {
			m[i] ^= 1 << (i % 8)
			return [][]byte{m}
		})})
	}
	for _, a := range attacks {
		got, err := c.watch(t, a.change)
		wantRefused(t, a.name, err)
		if !slices.Equal(got, threeTicks[:a.came]) {
			t.Errorf("%s: %q came out", a.name, got)
		}
	}
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	var end *client.ClosedError
	if !errors.As(err, &end) || end.Code != wire.CloseBadRecord || end.Final {
		t.Errorf("%s: ended by %v", what, err)
	}
}

// TestForgedByAMember: a member has the key, so a record that it makes opens; the
// mark that follows tells.
func TestForgedByAMember(t *testing.T) {
	c := newCrowd(t)
	forge := func(msg []byte) [][]byte { return [][]byte{c.insider.forge(t, msg, "tick of my own")} }
	got, err := c.watch(t, at(1, forge))
	wantRefused(t, "forged", err)
	if len(got) < 2 || got[0] != threeTicks[0] || got[1] != "tick of my own" {
		t.Errorf("%q came out: a forged tick has to, or this test shows nothing", got)
	}
}

// forge makes a record in the place of another, which opens as that does.
func (f *follower) forge(t *testing.T, msg []byte, payload string) []byte {
	number, counter := binary.BigEndian.Uint32(msg[1:]), binary.BigEndian.Uint64(msg[5:])
	i := slices.IndexFunc(f.keys, func(k *wire.GroupKey) bool { return k.Id == number })
	if i < 0 {
		t.Error("the insider does not have the key")
		return msg
	}
	secret, _ := record.ParseSecret(f.keys[i].Secret)
	var sealer record.GroupSealer
	sealer.Init(suite.AES128GCM, number, secret, record.Limits{})
	pool := record.NewPool(1, 0)
	for range counter {
		sealer.Seal(pool, nil, byte(wire.KindGroupRecord), nil)
	}
	batch := wire.AppendBatchFrame(nil, []wire.BatchItem{{Topic: 1, Seq: 2, Payload: []byte(payload)}})
	return sealer.Seal(pool, nil, byte(wire.KindGroupRecord), batch)
}
