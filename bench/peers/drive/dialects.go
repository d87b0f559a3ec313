package drive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// reader is a dialect that puts its own protocol into WebSocket messages.
type reader interface {
	// hello is what a subscriber says first, for one message.
	hello() []byte
	// read takes one message.
	read(b []byte) error
}

var errDialect = errors.New("the server says something unexpected")

// natsReader is the text protocol of nats-server: what its frames hold is a
// stream, so a message may be cut.
type natsReader struct {
	s    *subscriber
	held []byte
}

func (r *natsReader) hello() []byte {
	return []byte("CONNECT {\"verbose\":false,\"pedantic\":false}\r\nSUB " + topic + " 1\r\nPING\r\n")
}

func (r *natsReader) read(b []byte) error {
	if len(r.held) > 0 {
		r.held = append(r.held, b...)
		b = r.held
	}
	for {
		n, err := r.one(b)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	r.held = append(r.held[:0], b...)
	return nil
}

// one takes one line, with its payload if it is MSG. It returns 0 when it is not complete.
func (r *natsReader) one(b []byte) (int, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, nil
	}
	line := bytes.TrimSuffix(b[:end], []byte("\r"))
	switch {
	case bytes.HasPrefix(line, []byte("MSG ")):
		size, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
		if err != nil {
			return 0, fmt.Errorf("%w: %q", errDialect, line)
		}
		if len(b) < end+1+size+2 {
			return 0, nil
		}
		return end + 1 + size + 2, r.s.payload(b[end+1 : end+1+size])
	case bytes.Equal(line, []byte("PING")):
		r.s.send([]byte("PONG\r\n"))
	case bytes.Equal(line, []byte("PONG")):
		r.s.m.ready++
	case bytes.HasPrefix(line, []byte("INFO ")), bytes.Equal(line, []byte("+OK")):
	default:
		return 0, fmt.Errorf("%w: %q", errDialect, line)
	}
	return end + 1, nil
}

// Fields of centrifuge's protobuf protocol (client.proto) that a subscriber needs.
const (
	fieldID        = 1 // of Command and Reply
	fieldError     = 2 // of Reply
	fieldConnect   = 4 // of Command
	fieldSubscribe = 5
	fieldPush      = 4 // of Reply
	fieldSubbed    = 6
	fieldChannel   = 1 // of SubscribeRequest
	fieldPub       = 4 // of Push
	fieldData      = 4 // of Publication
)

// centrifugeReader is the protobuf protocol of centrifuge: each message holds
// replies, each behind its length.
type centrifugeReader struct{ s *subscriber }

func (r *centrifugeReader) hello() []byte {
	command := func(id uint64, field protowire.Number, body []byte) []byte {
		b := protowire.AppendVarint(protowire.AppendTag(nil, fieldID, protowire.VarintType), id)
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body)
		return append(binary.AppendUvarint(nil, uint64(len(b))), b...)
	}
	subscribe := protowire.AppendString(protowire.AppendTag(nil, fieldChannel, protowire.BytesType), topic)
	return append(command(1, fieldConnect, nil), command(2, fieldSubscribe, subscribe)...)
}

func (r *centrifugeReader) read(b []byte) error {
	for len(b) > 0 {
		reply, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errDialect, protowire.ParseError(n))
		}
		b = b[n:]
		if err := r.reply(reply); err != nil {
			return err
		}
	}
	return nil
}

func (r *centrifugeReader) reply(b []byte) error {
	switch {
	case len(b) == 0: // a ping
		r.s.send([]byte{0})
	case field(b, fieldError) != nil:
		return fmt.Errorf("%w: an error, %q", errDialect, b)
	case has(b, fieldSubbed):
		r.s.m.ready++
	default:
		if push := field(b, fieldPush); push != nil {
			if pub := field(push, fieldPub); pub != nil {
				return r.s.payload(field(pub, fieldData))
			}
		}
	}
	return nil
}

// has tells whether a message has a field of bytes, which may be empty.
func has(b []byte, wanted protowire.Number) bool { return field(b, wanted) != nil }

// field is the first field of bytes with that number; nil: there is none.
func field(b []byte, wanted protowire.Number) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if number == wanted && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil
			}
			return value[:len(value):len(value)]
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}
