package cryptobench

import (
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// messageTasks count serialisation too: a batch of one tick, whose payload has
// the given size, is encoded as protobuf, alone and together with sealing, and
// opened and decoded again. Suites are compared with plain, if it is measured.
func (l *lab) messageTasks(o Options) ([]*task, error) {
	var tasks []*task
	for _, size := range o.Sizes {
		encode := l.encodeTask(size)
		tasks = append(tasks, encode, l.encodeGenericTask(size, encode))
	}
	return append(tasks, bySize(o, suite.Plain, l.encodeSealTask, l.openDecodeTask)...), nil
}

// The numbers of the tick: such as have the usual length on the wire.
const (
	tickTopic      = 300
	tickSeq        = 100_000
	tickReceivedUS = 1_700_000_000_000_000
)

// tick is one tick, as it waits for a batch.
type tick struct {
	payload []byte
	items   []wire.BatchItem
}

func (l *lab) tick(size int) *tick {
	payload := l.bytes(size)
	return &tick{payload, []wire.BatchItem{{Topic: tickTopic, Seq: tickSeq, Payload: payload, ReceivedUS: tickReceivedUS}}}
}

// message is the batch of the tick as the generated code has it.
func (k *tick) message() *wire.ServerFrame {
	batch := &wire.Batch{BaseUs: tickReceivedUS, Topics: []uint32{tickTopic}, Firsts: []uint64{tickSeq}, Payloads: k.payload}
	return &wire.ServerFrame{Message: &wire.ServerFrame_Batch{Batch: batch}}
}

// decode reads the frame of a batch, looks at every tick and returns the last payload.
func decode(plaintext []byte) (payload []byte, err error) {
	frame, err := wire.ParseServerFrame(plaintext)
	if err != nil {
		return nil, err
	}
	entries, err := new(wire.Splitter).Split(frame.GetBatch())
	for i := range entries {
		payload = entries[i].Payload
	}
	return payload, err
}

// check reports whether plaintext is a frame of the tick.
func (k *tick) check(plaintext []byte, err error) error {
	if err != nil {
		return err
	}
	got, err := decode(plaintext)
	return equal(got, k.payload, err)
}

// checkSealed encodes, seals, opens and decodes the tick.
func (k *tick) checkSealed(buffer []byte, c channel) error {
	return k.check(c.open(c.seal(buffer[:0], wire.AppendBatchFrame(buffer[1:1], k.items))))
}

func (l *lab) encodeTask(size int) *task {
	k := l.tick(size)
	t := named{"encode", "", size}.task()
	t.run = func() error {
		l.joiner.AppendFrame(l.buffer[:0], k.items)
		return nil
	}
	t.verify = func() error { return k.check(wire.AppendBatchFrame(l.buffer[:0], k.items), nil) }
	return t
}

// encodeGenericTask does the same through the generated code.
func (l *lab) encodeGenericTask(size int, baseline *task) *task {
	k := l.tick(size)
	t := named{"encode, generated code", "", size}.task()
	t.baseline = baseline
	t.run = func() error {
		_, err := wire.AppendServerFrame(l.buffer[:0], k.message())
		return err
	}
	t.verify = func() error { return k.check(wire.AppendServerFrame(l.buffer[:0], k.message())) }
	return t
}

func (l *lab) encodeSealTask(id suite.ID, size int) *task {
	k, c := l.tick(size), l.product(id)
	t := named{"encode and seal", id.String(), size}.task()
	t.run = func() error {
		frame, _ := l.joiner.AppendFrame(l.buffer[1:1], k.items)
		c.seal(l.buffer[:0], frame)
		return nil
	}
	t.verify = func() error { return k.checkSealed(l.buffer, l.product(id)) }
	return t
}

func (l *lab) openDecodeTask(id suite.ID, size int) *task {
	k := l.tick(size)
	frame := wire.AppendBatchFrame(nil, k.items)
	q := l.queue(l.product(id), len(frame))
	t := named{"open and decode", id.String(), size}.task()
	t.atOnce = q.atOnce()
	t.ready = func(n int) error {
		for i := range n {
			copy(q.slot(i)[1:], frame)
		}
		return q.fill(n)
	}
	t.run = func() error { return discard(openDecode(q)) }
	t.verify = func() error { return k.checkSealed(l.buffer, q) }
	return t
}

func openDecode(q *queue) ([]byte, error) {
	plaintext, err := q.openNext()
	if err != nil {
		return nil, err
	}
	return decode(plaintext)
}

// discard drops a result that nobody needs, but not the error.
func discard(_ []byte, err error) error { return err }
