package loadgen

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/wire"
)

// Mixed is a market's day in small: ticks for single clients and for groups,
// clients that come and go, and among them those that break the rules. The
// healthy ones alone are judged.
type Mixed struct {
	Of    report.Case // Connections are the healthy clients; Topics are for groups
	Rate  float64     // ticks a second
	Noise int         // clients of each role of noise
	// Token makes each client a user of its own. nil: all have the token that
	// there is, if any, and a gateway that allows one session for a user would
	// end those of healthy clients.
	Token func(user string) (string, error)
}

// largestMixed bounds the ticks of the mixture: nine in ten are below 1 KiB, the
// others have 2 to 4 KiB.
const largestMixed = 4 << 10

func mixedSize(r *rand.Rand) int {
	if r.IntN(10) > 0 {
		return 64 + r.IntN(960)
	}
	return 2048 + r.IntN(2049)
}

// act is what a client of the mixture does from time to time, at random
// moments that lie apart by every on average.
type act struct {
	name  string
	every time.Duration
	do    func(*actor)
}

// healthyActs keep to the rules.
var healthyActs = []act{
	{"logouts", 20 * time.Second, (*actor).logout},
	{"subscriptions changed", 10 * time.Second, (*actor).change},
	{"pings", 5 * time.Second, (*actor).ping},
}

// noiseActs break them, one for each role. What the gateway answers is
// counted, and is no error. Without tokens nobody is the same user as another,
// and logging in twice means nothing to the gateway.
var noiseActs = []act{
	{"illegal frames", 2 * time.Second, (*actor).illegal},
	{"oversized messages", 2 * time.Second, (*actor).oversized},
	{"disconnects", time.Second, (*actor).disconnect},
	{"slow readers", 3 * time.Second, (*actor).stop},
	{"lost heartbeats", 3 * time.Second, (*actor).silence},
	{"duplicate logins", 2 * time.Second, (*actor).double},
}

// Run implements Case.
func (m *Mixed) Run(ctx context.Context, env *Env) ([]report.Result, error) {
	if env.Publish == nil {
		return nil, ErrNoSource
	}
	gw := env.Gateways[0]
	cfg, err := env.pushConfig(gw, m.Of.Suite)
	if err != nil {
		return nil, err
	}
	noisy := m.Noise * len(noiseActs)
	r, err := begin(env, m.Of, m.Of.Connections+noisy)
	if err != nil {
		return nil, err
	}
	defer r.crew.stop()
	// Half of the topics are one client's each, the others a group's.
	topics := 2 * m.Of.Topics
	ticks := newFeed(env, "mixed"+strconv.FormatInt(time.Now().UnixNano(), 36), topics, m.Rate, largestMixed, mixedSize)
	actors := make([]*actor, m.Of.Connections+noisy)
	configs, err := m.configs(cfg, len(actors))
	if err != nil {
		return nil, err
	}
	r.crew.enlist(len(actors), func(i int) func(*station) (*reactor.Conn, error) {
		return func(s *station) (*reactor.Conn, error) {
			a := newActor(env, gw, configs[i], ticks, i, m.Of.Connections)
			a.rec = func() *measure.Recorder {
				if !a.healthy {
					return nil // slow on purpose
				}
				return s.rec
			}
			actors[i] = a
			return a.connect(s)
		}
	})
	if err := r.connect(ctx, 30*time.Second); err != nil {
		return nil, err
	}
	begun := false
	r.measure(ctx, func(s *station, _, to int64) {
		s.pacers = append(s.pacers, &stage{actors: mine(actors, s), until: to})
		if !begun {
			begun = true
			ticks.begin(ctx, r.crew.stations[0].loop, to)
		}
	}, func(*station) bool { return true })
	if err := ticks.end(); err != nil {
		return nil, err
	}
	found, err := r.result(0)
	if err == nil {
		m.judge(&found[0], r, ticks, actors)
	}
	return found, err
}

// configs are the clients', which differ in their tokens.
func (m *Mixed) configs(common *peer.Config, n int) (all []*peer.Config, err error) {
	for i := range n {
		own := *common
		if m.Token != nil {
			if own.Token, err = m.Token("bench-" + strconv.Itoa(i)); err != nil {
				return nil, err
			}
		}
		all = append(all, &own)
	}
	return all, nil
}

func mine(actors []*actor, s *station) (all []*actor) {
	for _, a := range actors {
		if a != nil && a.st == s {
			all = append(all, a)
		}
	}
	return all
}

// judge adds what was done and how the noise fared.
func (m *Mixed) judge(out *report.Result, r *run, ticks *feed, actors []*actor) {
	out.Counts = map[string]uint64{"ticks published": ticks.published.Load(), "healthy clients": uint64(m.Of.Connections), "noisy clients": uint64(len(actors) - m.Of.Connections)}
	r.crew.each(func(s *station) {
		for _, a := range mine(actors, s) {
			for name, n := range a.did {
				out.Counts[name] += n
			}
			for kind, n := range a.noise {
				out.Counts["noise: "+kind] += n
			}
			if a.healthy {
				out.Counts["ticks conflated"] += a.stream.Seen.Merged
				out.Counts["ticks skipped"] += a.stream.Seen.Gaps
			}
		}
	})
}

// actor is one client of the mixture.
type actor struct {
	subscriber
	env     *Env
	gw      *Gateway
	cfg     *peer.Config
	index   int
	healthy bool
	acts    []act
	times   []int64 // when each of acts comes next
	random  *rand.Rand
	did     map[string]uint64
	noise   map[string]uint64
	back    int64 // when to connect again; 0: not
	wake    int64 // when to read again; 0: reads
	deaf    bool  // answers nothing any more
	first   bool  // has not been there yet
	request uint32
	twin    *subscriber // another connection of the same user; nil: none
}

func newActor(env *Env, gw *Gateway, cfg *peer.Config, ticks *feed, i, healthy int) *actor {
	a := &actor{
		env: env, gw: gw, cfg: cfg, index: i, healthy: i < healthy, acts: healthyActs, first: true,
		random: rand.New(rand.NewPCG(env.Seed, uint64(i)+1)), did: map[string]uint64{}, noise: map[string]uint64{},
	}
	single, group := ticks.topics[:len(ticks.topics)/2], ticks.topics[len(ticks.topics)/2:]
	a.feed = ticks
	a.filters = []string{single[i%len(single)], group[a.random.IntN(len(group))]}
	if !a.healthy {
		role := (i - healthy) % len(noiseActs)
		a.acts = noiseActs[role : role+1]
		a.filters = group[:1]
	}
	a.times = make([]int64, len(a.acts))
	return a
}

// connect begins a connection, the first or one more.
func (a *actor) connect(s *station) (*reactor.Conn, error) {
	first := a.first
	a.member = member{handler: a}
	a.back, a.wake, a.deaf = 0, 0, false
	conn, err := a.start(s, a.cfg, a.gw, a.env, a.index, a)
	if !first && err != nil {
		a.back = s.loop.Now() + int64(time.Second)
	}
	return conn, err
}

// Subscribed implements peer.Listener: only the first time counts as arrival.
func (a *actor) Subscribed(*wire.Subscribed) error {
	if a.first {
		a.first = false
		a.arrive()
	}
	a.ready = true
	return nil
}

// Message implements peer.Handler.
func (a *actor) Message(kind wire.Kind, plaintext []byte) error {
	return a.stream.Take(kind, plaintext, a)
}

// Data implements reactor.Handler: an end is followed by another connection.
func (a *actor) Data(c *reactor.Conn, b []byte) int {
	if a.deaf {
		return len(b)
	}
	n, err := a.peer.Receive(&c.Out, b, a)
	if err != nil {
		c.Close(false)
		a.ended(err)
	}
	return n
}

// Closed implements reactor.Handler.
func (a *actor) Closed(_ *reactor.Conn, err error) {
	if err != nil {
		a.ended(&peer.Error{Kind: peer.KindLost, Err: err})
	}
}

// ended counts an end that was not wanted: with healthy clients it is an error.
func (a *actor) ended(err error) {
	a.peer.Close()
	switch {
	case a.first:
		a.st.refused(err)
		a.first = false
	case a.healthy && !a.leaving:
		a.st.count(err)
	case !a.healthy:
		a.noise[kindOf(err)]++
	}
	a.again()
}

func kindOf(err error) string {
	if e, ok := err.(*peer.Error); ok {
		return string(e.Kind)
	}
	return string(peer.KindLost)
}

// again has the actor come back in a moment.
func (a *actor) again() {
	a.back = a.st.loop.Now() + int64(200+a.random.IntN(300))*int64(time.Millisecond)
}

// stage has actors do what they do, when it is time.
type stage struct {
	actors []*actor
	until  int64
	next   int64
}

// stageStep is how exactly the actors keep their times.
const stageStep = int64(10 * time.Millisecond)

// Due implements reactor.Pacer.
func (s *stage) Due(now int64) int64 {
	switch {
	case now >= s.until:
		return reactor.Never
	case now < s.next:
		return s.next
	}
	s.next = now + stageStep
	for _, a := range s.actors {
		a.turn(now)
	}
	return s.next
}

func (a *actor) turn(now int64) {
	switch {
	case a.back > 0 && now >= a.back:
		if _, err := a.connect(a.st); err != nil && a.healthy {
			a.st.count(&peer.Error{Kind: peer.KindConnect, Err: err})
		}
		return
	case a.back > 0 || !a.ready || !a.conn.Open():
		return
	case a.wake > 0 && now >= a.wake:
		a.wake = 0
		a.conn.Pause(false)
	}
	for i, act := range a.acts {
		if a.times[i] == 0 { // somewhere within the first period
			a.times[i] = now + int64(a.random.Float64()*float64(act.every))
		}
		if now >= a.times[i] && a.ready && a.back == 0 {
			a.times[i] = now + int64((0.5+a.random.Float64())*float64(act.every))
			a.did[act.name]++
			act.do(a)
		}
	}
}

// logout leaves in order and comes back.
func (a *actor) logout() {
	a.leave()
	a.peer.Close()
	a.ready = false
	a.again()
}

// change gives topics back and takes others.
func (a *actor) change() {
	a.append(func(dst []byte) ([]byte, error) {
		a.request++
		dst, err := a.peer.AppendUnsubscribe(dst, a.request, a.filters[1])
		if err != nil {
			return dst, err
		}
		group := a.feed.topics[len(a.feed.topics)/2:]
		a.filters[1] = group[a.random.IntN(len(group))]
		a.request++
		return a.peer.AppendSubscribe(dst, a.request, a.filters[1])
	})
}

func (a *actor) ping() {
	a.append(func(dst []byte) ([]byte, error) { return a.peer.AppendPing(dst, uint64(a.index)) })
}

// append sends what f makes.
func (a *actor) append(f func([]byte) ([]byte, error)) {
	a.conn.Room()
	var err error
	if a.conn.Out, err = f(a.conn.Out); err != nil {
		a.conn.Close(true)
		a.ended(&peer.Error{Kind: peer.KindRecord, Err: err})
		return
	}
	a.conn.Flush()
}

// illegal sends one of several things that no client may.
func (a *actor) illegal() {
	junk := []byte("this is no record of anybody's session")
	a.append(func(dst []byte) ([]byte, error) {
		switch a.random.IntN(4) {
		case 0:
			return a.peer.AppendRaw(dst, ws.OpText, junk), nil
		case 1:
			return a.peer.AppendRaw(dst, ws.OpBinary, junk), nil
		case 2:
			return append(dst, 0xff, 0xff, 0xff, 0xff, 0xff), nil
		}
		return a.peer.AppendMessage(dst, junk), nil
	})
}

// oversized sends a record that is larger than any gateway takes by default.
func (a *actor) oversized() {
	a.append(func(dst []byte) ([]byte, error) { return a.peer.AppendMessage(dst, make([]byte, 200<<10)), nil })
}

// disconnect vanishes without a word.
func (a *actor) disconnect() {
	a.conn.Close(true)
	a.peer.Close()
	a.ready = false
	a.again()
}

// double logs in once more while this connection is still there, and ends the
// other one the next time at the latest.
func (a *actor) double() {
	if a.twin != nil && a.twin.conn != nil {
		a.twin.leave()
	}
	twin := &subscriber{rec: func() *measure.Recorder { return nil }}
	twin.beside = true
	twin.gone = func(err error) { a.noise[kindOf(err)]++ }
	if _, err := twin.start(a.st, a.cfg, a.gw, a.env, a.index, twin); err == nil {
		a.twin = twin
	}
}

// stop reads nothing for a while.
func (a *actor) stop() {
	a.conn.Pause(true)
	a.wake = a.st.loop.Now() + int64(2*time.Second)
}

// silence answers nothing any more, as a machine that sleeps.
func (a *actor) silence() { a.deaf = true }
