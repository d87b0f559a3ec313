package cryptobench

import "github.com/sealcast/sealcast/crypto/suite"

// recordTasks are seal and open of every suite at every size, as a session
// does them: crypto/record, in place, with the expanded cipher in the pool.
func (l *lab) recordTasks(o Options) ([]*task, error) {
	return bySize(o, o.Suites[0],
		func(id suite.ID, size int) *task {
			return l.sealTask(named{"seal", id.String(), size}, func() channel { return l.product(id) })
		},
		func(id suite.ID, size int) *task {
			return l.openTask(named{"open", id.String(), size}, l.product(id))
		}), nil
}

// bySize makes the tasks of every size, operation and suite. Suites stand side
// by side, also in time, since it is they that are compared: with the one
// called base, if that is measured.
func bySize(o Options, base suite.ID, operations ...func(suite.ID, int) *task) []*task {
	var tasks []*task
	for _, size := range o.Sizes {
		for _, operation := range operations {
			var baseline *task
			row := make([]*task, len(o.Suites))
			for i, id := range o.Suites {
				row[i] = operation(id, size)
				if id == base {
					baseline = row[i]
				}
			}
			for _, t := range row {
				if t != baseline {
					t.baseline = baseline
				}
			}
			tasks = append(tasks, row...)
		}
	}
	return tasks
}

// The mixed load opens mixedOpens of each mixedTurns records and seals the others.
const (
	mixedOpens = 700
	mixedTurns = 1000
)

// mixedTasks open 70 % and seal 30 % of their records, in an order drawn once:
// a session's two directions as a busy server sees them.
func (l *lab) mixedTasks(o Options) ([]*task, error) {
	order := l.mixedOrder()
	return bySize(o, o.Suites[0], func(id suite.ID, size int) *task { return l.mixedTask(id, size, order) }), nil
}

// mixedOrder says of each turn whether it opens a record.
func (l *lab) mixedOrder() []bool {
	order := make([]bool, mixedTurns)
	for i := range mixedOpens {
		order[i] = true
	}
	for i := len(order) - 1; i > 0; i-- {
		j := int(l.random.Uint64() % uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

func (l *lab) mixedTask(id suite.ID, size int, order []bool) *task {
	in, out, text := l.queue(l.product(id), size), l.product(id), l.bytes(size)
	turn := 0
	t := named{"open 70 %, seal 30 %", id.String(), size}.task()
	t.atOnce = in.atOnce()
	t.ready = func(n int) error {
		opens := 0
		for i := range n {
			if order[(turn+i)%mixedTurns] {
				opens++
			}
		}
		return in.fill(opens)
	}
	t.run = func() error {
		opens := order[turn]
		if turn++; turn == mixedTurns {
			turn = 0
		}
		if opens {
			_, err := in.openNext()
			return err
		}
		out.seal(l.buffer[:0], l.buffer[1:1+size])
		return nil
	}
	t.verify = func() error { return roundTrip(in, l.arena, text) }
	return t
}
