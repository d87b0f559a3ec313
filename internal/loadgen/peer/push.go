package peer

import (
	"fmt"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// connectSize is what the plaintext of Connect is padded to (docs/protocol.md section 5).
const connectSize = 1 << 10

// Listener hears what a stream brings. Its methods may send.
type Listener interface {
	// Connected says that the gateway has accepted Connect.
	Connected(*wire.Connected) error
	// Subscribed answers a request; Refused does so with an error, and the session goes on.
	Subscribed(*wire.Subscribed) error
	Refused(*wire.Error) error
	// Tick hands over one new tick; the payload is valid during the call.
	Tick(topic uint32, payload []byte) error
}

// Seen counts what a stream has brought.
type Seen struct {
	Ticks      uint64 // new ones
	Snapshots  uint64 // last values
	Merged     uint64 // ticks that came as part of a newer one
	Gaps       uint64 // ticks that the gateway has told as lost
	Resets     uint64
	Heartbeats uint64
	Pongs      uint64
	Grouped    uint64 // records that were sealed once for a group
	Packed     uint64 // bytes of compressed batches
	Unpacked   uint64 // what they became
}

// Stream reads the plaintexts of one push session and holds every tick against
// the rule of sequences (docs/protocol.md section 6).
type Stream struct {
	Seen   Seen
	peer   *Peer
	shared *Shared
	topics map[uint32]*position
	codec  *codec.Decoder // nil: nothing may be compressed
}

// position is where a stream stands in one topic.
type position struct{ epoch, next uint64 }

// NewStream makes the stream of a peer whose session begins.
func NewStream(p *Peer) *Stream {
	return &Stream{peer: p, shared: p.shared, topics: map[uint32]*position{}}
}

// anyBatch stands for a batch where only the sort of message matters: see Take.
var anyBatch = &wire.ServerFrame{Message: &wire.ServerFrame_Batch{Batch: &wire.Batch{}}}

// AppendConnect appends the introduction of a push session.
func (p *Peer) AppendConnect(dst []byte, version string) ([]byte, error) {
	var codecs []uint32
	for _, id := range p.cfg.Codecs {
		codecs = append(codecs, uint32(id))
	}
	return p.appendClient(dst, connectSize, &wire.ClientFrame{Message: &wire.ClientFrame_Connect{Connect: &wire.Connect{
		Token: p.cfg.Token, Codecs: codecs, ClientName: "sealctl bench", ClientVersion: version, Groups: true,
	}}})
}

// AppendSubscribe appends a request for topics.
func (p *Peer) AppendSubscribe(dst []byte, id uint32, filters ...string) ([]byte, error) {
	s := &wire.Subscribe{Id: id}
	for _, f := range filters {
		s.Subscriptions = append(s.Subscriptions, &wire.Subscription{Filter: f})
	}
	return p.appendClient(dst, 0, &wire.ClientFrame{Message: &wire.ClientFrame_Subscribe{Subscribe: s}})
}

// AppendUnsubscribe appends the wish to give topics back.
func (p *Peer) AppendUnsubscribe(dst []byte, id uint32, filters ...string) ([]byte, error) {
	return p.appendClient(dst, 0, &wire.ClientFrame{Message: &wire.ClientFrame_Unsubscribe{Unsubscribe: &wire.Unsubscribe{Id: id, Filters: filters}}})
}

// AppendPing appends a ping that the gateway answers within the session.
func (p *Peer) AppendPing(dst []byte, id uint64) ([]byte, error) {
	return p.appendClient(dst, 0, &wire.ClientFrame{Message: &wire.ClientFrame_Ping{Ping: &wire.Ping{Id: id}}})
}

func (p *Peer) appendClient(dst []byte, padTo int, f *wire.ClientFrame) ([]byte, error) {
	plaintext, err := wire.AppendClientFrame(p.shared.room[:0], f, padTo)
	if err != nil {
		return dst, err
	}
	p.shared.room = plaintext
	return p.AppendMessage(dst, plaintext), nil
}

// KeepTicket makes of what Connected brought a ticket to resume with; nil if it brought none.
func (p *Peer) KeepTicket(c *wire.Connected) (*session.ClientTicket, error) {
	if len(c.GetTicket()) == 0 || len(c.GetTicketNonce()) != record.PSKNonceSize {
		return nil, nil
	}
	return p.sess.Keep(c.GetTicket(), [record.PSKNonceSize]byte(c.GetTicketNonce()))
}

// Take reads one plaintext, which came in a record of that kind. An error is an
// *Error, or the listener's.
func (s *Stream) Take(kind wire.Kind, plaintext []byte, l Listener) error {
	id, body, err := wire.ParsePlain(plaintext)
	if err != nil {
		return &Error{KindRecord, err}
	}
	batch, isBatch := batchOf(body)
	f := anyBatch // decoded by the walk below
	if !isBatch {
		if f, err = wire.ParseServerFrame(plaintext); err != nil {
			return &Error{KindRecord, err}
		}
	}
	done, err := s.peer.sess.Admit(kind, f)
	switch {
	case err != nil:
		return &Error{KindRecord, err}
	case kind == wire.KindGroupRecord:
		s.Seen.Grouped++
	}
	switch {
	case done:
		return nil
	case isBatch:
		return s.batch(id, batch, l)
	}
	return s.control(f, l)
}

// unpack decompresses the payloads of a batch.
func (s *Stream) unpack(id wire.Codec, packed []byte) ([]byte, error) {
	if s.codec == nil || s.codec.Codec() != id {
		return nil, failf(KindRecord, "a codec that was not agreed on: %v", id)
	}
	out, err := s.codec.Decode(s.shared.room, packed)
	if err != nil {
		return nil, &Error{KindRecord, err}
	}
	s.shared.room = out
	s.Seen.Packed += uint64(len(packed))
	s.Seen.Unpacked += uint64(len(out))
	return out, nil
}

func (s *Stream) control(f *wire.ServerFrame, l Listener) error {
	switch m := f.GetMessage().(type) {
	case *wire.ServerFrame_Connected:
		if err := s.agree(m.Connected); err != nil {
			return err
		}
		return l.Connected(m.Connected)
	case *wire.ServerFrame_Subscribed:
		s.announce(m.Subscribed.GetTopics())
		return l.Subscribed(m.Subscribed)
	case *wire.ServerFrame_Topics:
		s.announce(m.Topics.GetTopics())
	case *wire.ServerFrame_Snapshot:
		s.Seen.Snapshots += uint64(len(m.Snapshot.GetValues()))
	case *wire.ServerFrame_Gap:
		return s.gap(m.Gap)
	case *wire.ServerFrame_Heartbeat:
		s.Seen.Heartbeats++
		return s.heads(m.Heartbeat.GetHeads())
	case *wire.ServerFrame_Pong:
		s.Seen.Pongs++
	case *wire.ServerFrame_Error:
		return l.Refused(m.Error)
	}
	return nil // what else there is tells nothing about ticks
}

// agree gets ready for the codec of batches. Decoders keep nothing between two
// bodies, but Zstandard's is large: who measures compression by thousands of
// clients needs room for it.
func (s *Stream) agree(c *wire.Connected) (err error) {
	id := wire.Codec(c.GetCodec())
	if id == wire.CodecNone {
		return nil
	}
	var dictionary *codec.Dictionary
	if id == wire.CodecZstdDict {
		if dictionary, err = codec.ParseDictionary(c.GetDictionary()); err != nil {
			return &Error{KindRecord, err}
		}
	}
	if s.codec, err = codec.NewDecoder(id, dictionary, codec.DefaultLimit); err != nil {
		return &Error{KindRecord, err}
	}
	return nil
}

// announce notes where delivery of topics begins. A topic that is delivered
// already keeps its position.
func (s *Stream) announce(topics []*wire.TopicState) {
	for _, t := range topics {
		if p := s.topics[t.GetNumber()]; p == nil || p.epoch != t.GetEpoch() {
			s.topics[t.GetNumber()] = &position{t.GetEpoch(), t.GetNextSeq()}
		}
	}
}

// Forget forgets all positions: after Unsubscribe, delivery begins anew.
func (s *Stream) Forget() { clear(s.topics) }

// gap moves behind ticks that will not come.
func (s *Stream) gap(g *wire.Gap) error {
	p := s.topics[g.GetTopic()]
	switch {
	case p == nil:
		return failf(KindOrder, "a gap of topic %d, which was never announced", g.GetTopic())
	case p.epoch != g.GetEpoch() || g.GetTo() < p.next:
		return nil
	}
	s.Seen.Gaps += g.GetTo() - max(g.GetFrom(), p.next) + 1
	p.next = g.GetTo() + 1
	return nil
}

// heads finds ticks that were sent, the gateway says, and did not come.
func (s *Stream) heads(heads []*wire.TopicHead) error {
	for _, h := range heads {
		if p := s.topics[h.GetTopic()]; p != nil && h.GetSeq() >= p.next {
			return failf(KindGap, "topic %d is at %d, the gateway says, and %d has not come", h.GetTopic(), h.GetSeq(), p.next)
		}
	}
	return nil
}

// tick applies the rule of sequences. It reports whether the tick is new.
func (s *Stream) tick(e *wire.Entry) (fresh bool, err error) {
	p := s.topics[e.Topic]
	switch {
	case e.Seq < p.next:
		return false, nil
	case e.Seq-e.Skipped > p.next:
		err := fmt.Errorf("topic %d went from %d to %d", e.Topic, p.next, e.Seq-e.Skipped)
		p.next = e.Seq + 1
		return true, &Error{KindGap, err}
	}
	s.Seen.Merged += e.Seq - p.next
	p.next = e.Seq + 1
	return true, nil
}

// Add adds what another stream has seen.
func (s *Seen) Add(o *Seen) {
	s.Ticks += o.Ticks
	s.Snapshots += o.Snapshots
	s.Merged += o.Merged
	s.Gaps += o.Gaps
	s.Resets += o.Resets
	s.Heartbeats += o.Heartbeats
	s.Pongs += o.Pongs
	s.Grouped += o.Grouped
	s.Packed += o.Packed
	s.Unpacked += o.Unpacked
}
