package cryptobench

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/wire"
)

// arenaSize bounds the records that are ready at once, in bytes: they should
// stay in a core's own cache, as they do when they come fresh from a socket.
const arenaSize = 256 << 10

// framing is room for what comes to a plaintext: kind, head, nonce, tags.
const framing = 256

// lab is what the tasks of one run share. Only one task uses the arena and
// the buffer at a time, so that hundreds of tasks need little memory.
type lab struct {
	random *rand.ChaCha8
	pool   *record.Pool
	arena  []byte // records that wait to be opened
	buffer []byte // the record that is being sealed, reused for every one
	joiner wire.Joiner
}

func newLab(o Options) *lab {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], o.Seed)
	largest := max(slices.Max(o.Sizes), maxResponse) + framing
	l := &lab{
		random: rand.NewChaCha8(seed),
		pool:   record.NewPool(0, 0),
		arena:  make([]byte, max(arenaSize, largest)),
		buffer: make([]byte, largest),
	}
	l.fill(l.arena)
	l.fill(l.buffer)
	return l
}

// tasks makes the tasks of the chosen groups, in the order of a report.
func (l *lab) tasks(o Options) ([]*task, error) {
	makers := map[Group]func(Options) ([]*task, error){
		GroupRecords:   l.recordTasks,
		GroupMixed:     l.mixedTasks,
		GroupMessages:  l.messageTasks,
		GroupPublicKey: l.publicKeyTasks,
		GroupResponses: l.responseTasks,
		GroupMisuse:    l.misuseTasks,
		GroupOthers:    l.otherTasks,
	}
	var all []*task
	for _, group := range Groups() {
		if !slices.Contains(o.Groups, group) {
			continue
		}
		tasks, err := makers[group](o)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			t.group = group
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// fill writes reproducible bytes.
func (l *lab) fill(b []byte) { _, _ = l.random.Read(b) } // ChaCha8 never fails

// bytes returns n reproducible bytes.
func (l *lab) bytes(n int) []byte {
	b := make([]byte, n)
	l.fill(b)
	return b
}
