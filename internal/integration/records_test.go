package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

var spoken = []string{"attack at dawn", "", "retreat at noon", "a third message, somewhat longer", "the last"}

// converse sends spoken over the sealed echo through a middle and returns what
// came back, and the error that ended it.
func (s *system) converse(t *testing.T, m *middle, opts client.Options) (heard []string, err error) {
	t.Helper()
	opts.NetDial = m.dial
	ctx := limited(t)
	e, err := client.DialEcho(ctx, "ws://"+s.addr+"/echo", opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range spoken {
		if err := e.Send(ctx, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for range spoken {
		plaintext, err := e.Receive(ctx)
		if err != nil {
			return heard, err
		}
		heard = append(heard, string(plaintext))
	}
	return heard, e.Close(ctx)
}

// expectBroken runs a conversation that must end after some messages, because
// of what the middle does to the messages of one direction.
func (s *system) expectBroken(t *testing.T, what string, direction, after int, change edit, opts client.Options) {
	t.Helper()
	m := &middle{}
	*[2]*edit{&m.toGateway, &m.toClient}[direction] = change
	opened := s.Stats().RecordsOpened
	heard, err := s.converse(t, m, opts)
	if !slices.Equal(heard, spoken[:after]) {
		t.Errorf("%s: heard %q, want the first %d", what, heard, after)
	}
	var closed *client.ClosedError
	if !errors.As(err, &closed) || closed.Final || closed.Code != wire.CloseBadRecord {
		t.Errorf("%s: ended with %v", what, err)
	}
	// Who found the fault has said 4400, no more.
	if code, reason := m.end(1 - direction); code != wire.CloseBadRecord || reason != "" {
		t.Errorf("%s: closed with %v %q", what, code, reason)
	}
	if direction == down {
		var failed *session.Error
		if !errors.As(err, &failed) {
			t.Errorf("%s: the client found no fault: %v", what, err)
		}
		return
	}
	// Key updates count as records, so there may be twice as many.
	if n := s.Stats().RecordsOpened - opened; n > uint64(2*after) || opts.Rekey.Records == 0 && n != uint64(after) {
		t.Errorf("%s: the gateway has opened %d records", what, n)
	}
}

var directions = []string{up: "to the gateway", down: "to the client"}

// TestEveryRecordByteOnTheWire flips each byte of the second record, in either
// direction and with every suite that protects. The first message arrives, the
// second never does, and nothing after it.
func TestEveryRecordByteOnTheWire(t *testing.T) {
	s := startCounted(t)
	for _, id := range sealing {
		for direction, name := range directions {
			t.Run(id.String()+"/"+name, func(t *testing.T) {
				for at := range 1 + len(spoken[0]) + suite.TagSize {
					s.expectBroken(t, fmt.Sprint("byte ", at), direction, 0, flip(1, at, at%8), s.options(id))
				}
			})
		}
	}
	s.expectBase(t)
}

// replace puts messages in the place of one.
func replace(number int, with func(msg []byte) [][]byte) edit {
	return func(n int, msg []byte) [][]byte {
		if n == number {
			return with(msg)
		}
		return [][]byte{msg}
	}
}

// delay keeps a message back until after the one that follows it.
func delay(number int) edit {
	var kept []byte
	return func(n int, msg []byte) [][]byte {
		switch n {
		case number:
			kept = bytes.Clone(msg)
			return nil
		case number + 1:
			return [][]byte{msg, kept}
		}
		return [][]byte{msg}
	}
}

// again repeats a message later.
func again(number, later int) edit {
	var kept []byte
	return func(n int, msg []byte) [][]byte {
		switch n {
		case number:
			kept = bytes.Clone(msg)
		case later:
			return [][]byte{msg, kept}
		}
		return [][]byte{msg}
	}
}

// as changes the kind of a message.
func as(kind wire.Kind) func([]byte) [][]byte {
	return func(msg []byte) [][]byte { return [][]byte{append([]byte{byte(kind)}, msg[1:]...)} }
}

// TestRecordsOnTheWire removes, repeats, reorders and replaces records. Message
// 0 of a direction is its handshake message, message n its record n-1.
func TestRecordsOnTheWire(t *testing.T) {
	s := startCounted(t)
	for _, test := range []struct {
		name   string
		after  int // messages that arrive
		change func() edit
	}{
		{"first dropped", 0, func() edit { return replace(1, func([]byte) [][]byte { return nil }) }},
		{"third dropped", 2, func() edit { return replace(3, func([]byte) [][]byte { return nil }) }},
		{"first repeated", 1, func() edit { return replace(1, func(msg []byte) [][]byte { return [][]byte{msg, bytes.Clone(msg)} }) }},
		{"second repeated", 2, func() edit { return replace(2, func(msg []byte) [][]byte { return [][]byte{msg, bytes.Clone(msg)} }) }},
		{"first repeated later", 4, func() edit { return again(1, 4) }},
		{"handshake message repeated", 2, func() edit { return again(0, 2) }},
		{"first two swapped", 0, func() edit { return delay(1) }},
		{"third and fourth swapped", 2, func() edit { return delay(3) }},
		{"last byte cut off", 1, func() edit { return replace(2, func(msg []byte) [][]byte { return [][]byte{msg[:len(msg)-1]} }) }},
		{"half cut off", 2, func() edit { return replace(3, func(msg []byte) [][]byte { return [][]byte{msg[:len(msg)/2]} }) }},
		{"all but the kind cut off", 1, func() edit { return replace(2, func(msg []byte) [][]byte { return [][]byte{msg[:1]} }) }},
		{"all cut off", 1, func() edit { return replace(2, func([]byte) [][]byte { return [][]byte{nil} }) }},
		{"a byte added", 1, func() edit { return replace(2, func(msg []byte) [][]byte { return [][]byte{append(msg, 0)} }) }},
		{"cut in two", 1, func() edit { return replace(2, func(msg []byte) [][]byte { return [][]byte{msg[:9:9], msg[9:]} }) }},
		{"an empty message in between", 1, func() edit { return replace(2, func(msg []byte) [][]byte { return [][]byte{nil, msg} }) }},
		{"as Goodbye", 1, func() edit { return replace(2, as(wire.KindGoodbye)) }},
		{"as KeyUpdate", 1, func() edit { return replace(2, as(wire.KindKeyUpdate)) }},
		{"as a handshake message", 1, func() edit { return replace(2, as(wire.KindHandshakeInit)) }},
		{"as a group record", 1, func() edit { return replace(2, as(0x11)) }},
		{"zeros", 1, func() edit { return replace(2, func(msg []byte) [][]byte { clear(msg[1:]); return [][]byte{msg} }) }},
	} {
		for direction, name := range directions {
			for _, id := range sealing {
				s.expectBroken(t, fmt.Sprint(test.name, " ", name, ", ", id), direction, test.after, test.change(), s.options(id))
			}
		}
	}
	s.expectBase(t)
}

// TestKeyUpdatesOnTheWire does the same to key updates. The client changes its
// key before every record but the first: message 2n is the update before record n.
func TestKeyUpdatesOnTheWire(t *testing.T) {
	s := startCounted(t)
	opts := s.options(suite.AES128GCM)
	opts.Rekey = record.Limits{Records: 1}
	if heard, err := s.converse(t, &middle{}, opts); !slices.Equal(heard, spoken) || err != nil {
		t.Fatalf("undisturbed: %q, %v", heard, err)
	}
	for _, test := range []struct {
		name   string
		after  int
		change edit
	}{
		{"dropped", 1, replace(2, func([]byte) [][]byte { return nil })},
		{"repeated", 1, replace(2, func(msg []byte) [][]byte { return [][]byte{msg, bytes.Clone(msg)} })},
		{"behind its record", 1, delay(2)},
		{"before the record of the old key", 0, delay(1)},
		{"that of the key before", 2, again(2, 4)},
		{"as a record", 1, replace(2, as(wire.KindRecord))},
	} {
		s.expectBroken(t, test.name, up, test.after, test.change, opts)
	}
	for at := range 1 + suite.TagSize {
		s.expectBroken(t, fmt.Sprint("byte ", at), up, 1, flip(2, at, at%8), opts)
	}
	s.expectBase(t)
}

// TestForeignRecordsOnTheWire puts records where they do not belong: back to
// their sender, and into another session of the same client.
func TestForeignRecordsOnTheWire(t *testing.T) {
	s := startCounted(t)
	for _, id := range sealing {
		earlier := &middle{}
		if _, err := s.converse(t, earlier, s.options(id)); err != nil {
			t.Fatal(err)
		}
		for direction, name := range directions {
			other := earlier.messages(direction)[1]
			s.expectBroken(t, fmt.Sprint(id, ", of another session ", name), direction, 0,
				replace(1, func([]byte) [][]byte { return [][]byte{bytes.Clone(other)} }), s.options(id))
		}
		m := &middle{}
		m.toClient = replace(2, func([]byte) [][]byte { return [][]byte{m.messages(up)[2]} })
		heard, err := s.converse(t, m, s.options(id))
		if !slices.Equal(heard, spoken[:1]) || !errors.Is(err, session.ErrRecord) || codeOf(err) != wire.CloseBadRecord {
			t.Errorf("%v, reflected: %q, %v", id, heard, err)
		}
		m.running.Wait()
	}
	s.expectBase(t)
}

// TestGoodbyeOnTheWire: only a Goodbye that arrives sealed is final. Without
// it, or with a forged close, the session counts as cut.
func TestGoodbyeOnTheWire(t *testing.T) {
	for name, test := range map[string]struct {
		change edit
		final  bool
		code   wire.CloseCode
	}{
		"arrives":  {nil, true, wire.CloseRestart},
		"dropped":  {func(n int, msg []byte) [][]byte { return keepUnless(wire.KindGoodbye, msg) }, false, wire.CloseRestart},
		"altered":  {func(n int, msg []byte) [][]byte { return flip(1, len(msg)-1, 0)(n, msg) }, false, wire.CloseBadRecord},
		"repeated": {func(n int, msg []byte) [][]byte { return [][]byte{msg, bytes.Clone(msg)}[:min(n+1, 2)] }, true, wire.CloseRestart},
	} {
		t.Run(name, func(t *testing.T) {
			s := startCounted(t)
			m := &middle{toClient: test.change}
			opts := s.options(suite.AES128GCM)
			opts.NetDial = m.dial
			e, err := client.DialEcho(t.Context(), "ws://"+s.addr+"/echo", opts)
			if err != nil {
				t.Fatal(err)
			}
			go s.Shutdown(context.Background()) // what it returns, the end of the test sees too
			_, err = e.Receive(limited(t))
			var closed *client.ClosedError
			if !errors.As(err, &closed) || closed.Final != test.final || errors.Is(err, client.ErrCut) == test.final || closed.Code != test.code {
				t.Errorf("%v (final %v)", err, closed)
			}
		})
	}
}

func keepUnless(kind wire.Kind, msg []byte) [][]byte {
	if wire.Kind(msg[0]) == kind {
		return nil
	}
	return [][]byte{msg}
}

// TestWithoutACipherTheMiddleWins: under plain the same change goes through, so
// it is the cipher that stops it elsewhere.
func TestWithoutACipherTheMiddleWins(t *testing.T) {
	s := startCounted(t)
	for direction, name := range directions {
		m := &middle{}
		*[2]*edit{&m.toGateway, &m.toClient}[direction] = flip(1, 1, 5)
		heard, err := s.converse(t, m, s.options(suite.Plain))
		if want := "A" + spoken[0][1:]; err != nil || heard[0] != want || !slices.Equal(heard[1:], spoken[1:]) {
			t.Errorf("%s: %q, %v", name, heard, err)
		}
	}
}
