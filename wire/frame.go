package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Errors of frames. ErrCodec and ErrFrame are what a peer did wrong; both end
// its session with CloseBadRecord.
var (
	// ErrCodec reports a body under a codec that was not agreed on.
	ErrCodec = errors.New("unexpected codec")
	// ErrFrame reports a body that is not exactly one message of its direction.
	ErrFrame = errors.New("malformed frame")
)

// AppendServerFrame appends the plaintext of a record to a client: the header
// without compression and padding, then f. It keeps nothing of f. Batches go
// through AppendBatchFrame instead.
func AppendServerFrame(dst []byte, f *ServerFrame) ([]byte, error) {
	if f.GetMessage() == nil {
		return dst, fmt.Errorf("%w: no message to send", ErrFrame)
	}
	return appendMessage(AppendPlainHeader(dst, CodecNone, 0), f)
}

// AppendClientFrame appends the plaintext of a record to the gateway: the header,
// f, and zeros up to padTo bytes in all, so that the length of a token does not
// show. A plaintext that is longer stays unpadded. It keeps nothing of f.
func AppendClientFrame(dst []byte, f *ClientFrame, padTo int) ([]byte, error) {
	if f.GetMessage() == nil {
		return dst, fmt.Errorf("%w: no message to send", ErrFrame)
	}
	start := len(dst)
	out, err := appendMessage(AppendPlainHeader(dst, CodecNone, 0), f)
	if err != nil {
		return dst, err
	}
	padding := max(padTo-(len(out)-start), 0)
	if padding > math.MaxUint16 {
		return dst, fmt.Errorf("%w: padding of %d bytes, at most %d fit", ErrPlaintext, padding, math.MaxUint16)
	}
	binary.BigEndian.PutUint16(out[start+1:], uint16(padding))
	return append(out, make([]byte, padding)...), nil
}

// appendMessage returns dst unchanged with an error, for instance when a string is not UTF-8.
func appendMessage(dst []byte, m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return out, nil
}

// ParseServerFrame reads the plaintext of a record from the gateway. It is
// strict: no compression (see ParsePacked), exactly one message, one that this version knows.
// Unknown fields inside it are ignored. The frame owns its memory.
func ParseServerFrame(plaintext []byte) (*ServerFrame, error) {
	f := new(ServerFrame)
	if err := parseFrame(plaintext, f); err != nil {
		return nil, err
	}
	return f, nil
}

// ParseClientFrame reads the plaintext of a record from a client, as strictly
// as ParseServerFrame. The frame owns its memory.
func ParseClientFrame(plaintext []byte) (*ClientFrame, error) {
	f := new(ClientFrame)
	if err := parseFrame(plaintext, f); err != nil {
		return nil, err
	}
	return f, nil
}

func parseFrame(plaintext []byte, f proto.Message) error {
	codec, body, err := ParsePlain(plaintext)
	if err != nil {
		return err
	}
	if codec != CodecNone {
		return fmt.Errorf("%w: %d", ErrCodec, codec)
	}
	return parseBody(body, f)
}

// ParsePacked reads the plaintext of a record from the gateway whose payloads stand
// under a codec. It is as strict as ParseServerFrame and takes nothing but a Batch,
// whose payloads the caller decompresses. The Batch owns its memory.
func ParsePacked(plaintext []byte) (Codec, *ServerFrame, error) {
	id, body, err := ParsePlain(plaintext)
	if err != nil {
		return id, nil, err
	}
	f := new(ServerFrame)
	if err := parseBody(body, f); err != nil {
		return id, nil, err
	}
	if f.GetBatch() == nil {
		return id, nil, fmt.Errorf("%w: a compressed message that is no Batch", ErrFrame)
	}
	return id, f, nil
}

func parseBody(body []byte, f proto.Message) error {
	if err := checkOneMessage(body, f); err != nil {
		return err
	}
	if err := unmarshal.Unmarshal(body, f); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// unmarshal drops unknown fields, which nobody reads and which would be kept otherwise.
var unmarshal = proto.UnmarshalOptions{DiscardUnknown: true}

// checkOneMessage looks at the outermost field of a frame before anything is
// decoded. Protobuf itself would merge a second message, or let it win, and
// keep an unknown one silently.
func checkOneMessage(body []byte, f proto.Message) error {
	field, kind, n := protowire.ConsumeTag(body)
	if n < 0 {
		return fmt.Errorf("%w: no message", ErrFrame)
	}
	known := f.ProtoReflect().Descriptor().Fields().ByNumber(field)
	if known == nil || kind != protowire.BytesType {
		return fmt.Errorf("%w: unknown message %d", ErrFrame, field)
	}
	_, m := protowire.ConsumeBytes(body[n:])
	if m < 0 {
		return fmt.Errorf("%w: %s is cut off", ErrFrame, known.Name())
	}
	if rest := len(body) - n - m; rest != 0 {
		return fmt.Errorf("%w: %d bytes after %s", ErrFrame, rest, known.Name())
	}
	return nil
}

// AppendGoodbye appends the plaintext of a Goodbye, which has no header: it is
// the same for both roles. It keeps nothing of g.
func AppendGoodbye(dst []byte, g *Goodbye) ([]byte, error) {
	return appendMessage(dst, g)
}

// ParseGoodbye reads the plaintext of a Goodbye. It refuses a code that cannot
// stand in a WebSocket close. The Goodbye owns its memory.
func ParseGoodbye(plaintext []byte) (*Goodbye, error) {
	g := new(Goodbye)
	if err := unmarshal.Unmarshal(plaintext, g); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if g.GetCode() > math.MaxUint16 || !CloseCode(g.GetCode()).OnWire() {
		return nil, fmt.Errorf("%w: goodbye with code %d", ErrFrame, g.GetCode())
	}
	return g, nil
}
