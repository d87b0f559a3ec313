package client

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire"
)

func gapFrame(number uint32, epoch, from, to uint64) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Gap{Gap: &wire.Gap{Topic: number, Epoch: epoch, From: from, To: to, Cause: wire.Cause_CAUSE_TOO_SLOW}}}
}

func heartbeatFrame(heads ...*wire.TopicHead) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{TimeUs: 5, Heads: heads}}}
}

func topicHead(number uint32, seq uint64) *wire.TopicHead {
	return &wire.TopicHead{Topic: number, Seq: seq}
}

func noticeFrame(n *wire.Notice) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Notice{Notice: n}}
}

func batchFrame(t testing.TB, items ...wire.BatchItem) *wire.ServerFrame {
	t.Helper()
	f, err := wire.ParseServerFrame(wire.AppendBatchFrame(nil, items))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// interpret is what a Conn makes of messages, without a connection.
func interpret(c *Conn, frames ...*wire.ServerFrame) (events []string, err error) {
	for _, f := range frames {
		if err := c.begin(queued{frame: f}); err != nil {
			return events, err
		}
		for {
			e := c.step()
			if e == nil {
				break
			}
			events = append(events, show(e))
		}
	}
	return events, nil
}

func TestGapsThatAreToldAndFound(t *testing.T) {
	beat := "*client.Heartbeat {" + timeText(5) + "}"
	tests := []struct {
		name   string
		frames []*wire.ServerFrame
		want   []string
	}{
		{"told", []*wire.ServerFrame{gapFrame(1, 7, 5, 9), batchFrame(t, tickItem(1, 10, 0, "x"))},
			[]string{"gap a 7/5-9 CAUSE_TOO_SLOW", `tick a 7/10 -0 m0 "x"`}},
		{"told after a tick in between", []*wire.ServerFrame{batchFrame(t, tickItem(1, 6, 1, "x")), gapFrame(1, 7, 5, 9)},
			[]string{`tick a 7/6 -1 m1 "x"`, "gap a 7/7-9 CAUSE_TOO_SLOW"}},
		{"told, and some lost before", []*wire.ServerFrame{gapFrame(1, 7, 7, 9)}, []string{"gap a 7/5-9 CAUSE_TOO_SLOW"}},
		{"told twice", []*wire.ServerFrame{gapFrame(1, 7, 5, 9), gapFrame(1, 7, 5, 9)}, []string{"gap a 7/5-9 CAUSE_TOO_SLOW"}},
		{"told of what has come", []*wire.ServerFrame{gapFrame(1, 7, 1, 4)}, nil},
		{"told of another epoch", []*wire.ServerFrame{gapFrame(1, 6, 5, 9)}, nil},
		{"told of a topic that was given back", []*wire.ServerFrame{gapFrame(2, 7, 5, 9)}, nil},
		{"a tick from within it", []*wire.ServerFrame{gapFrame(1, 7, 5, 9), batchFrame(t, tickItem(1, 8, 0, "x"))}, []string{"gap a 7/5-9 CAUSE_TOO_SLOW"}},
		{"lost tail", []*wire.ServerFrame{heartbeatFrame(topicHead(1, 8), topicHead(2, 50))}, []string{"gap a 7/5-8", beat}},
		{"nothing lost", []*wire.ServerFrame{heartbeatFrame(topicHead(1, 4)), heartbeatFrame(topicHead(1, 2)), heartbeatFrame()}, []string{beat, beat, beat}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newConn(&link{})
			if _, err := interpret(c, subscribedFrame(1, []string{"a", "b"}, state(1, "a", 7, 5), state(2, "b", 7, 5))); err != nil {
				t.Fatal(err)
			}
			if err := c.view.release([]string{"b"}); err != nil {
				t.Fatal(err)
			}
			if got, err := interpret(c, tt.frames...); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%v\ngot  %q\nwant %q", err, got, tt.want)
			}
		})
	}
}

func TestMessagesOfTopicsThatWereNeverAnnounced(t *testing.T) {
	for name, f := range map[string]*wire.ServerFrame{
		"gap":               gapFrame(9, 7, 1, 2),
		"gap backwards":     gapFrame(1, 7, 3, 2),
		"gap up to 2^53":    gapFrame(1, 7, 3, wire.MaxNumber+1),
		"gap up to 2^64-1":  gapFrame(1, 7, 3, math.MaxUint64),
		"gap of epoch 2^53": gapFrame(1, wire.MaxNumber+1, 3, 4),
		"head":              heartbeatFrame(topicHead(9, 1)),
		"head of 2^53":      heartbeatFrame(topicHead(1, wire.MaxNumber+1)),
		"head of 2^64-1":    heartbeatFrame(topicHead(1, math.MaxUint64)),
		"state of 2^53":     subscribedFrame(1, []string{"b"}, state(2, "b", 7, wire.MaxNumber+1)),
		"state, epoch 2^53": subscribedFrame(1, []string{"b"}, state(2, "b", wire.MaxNumber+1, 1)),
		"value of 2^53":     snapshotFrame(&wire.Value{Topic: 1, Epoch: 7, Seq: wire.MaxNumber + 1}),
		"value, epoch 2^53": snapshotFrame(&wire.Value{Topic: 1, Epoch: wire.MaxNumber + 1, Seq: 1}),
		"notice":            noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_SOURCE_LOST, Topics: []uint32{9}}),
	} {
		c := newConn(&link{})
		if _, err := interpret(c, subscribedFrame(1, []string{"a"}, state(1, "a", 7, 1)), f); !errors.Is(err, errSequence) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestABatchIsCheckedBeforeItIsUsed: of a batch that must not be, no event, no
// position and no cursor comes, wherever in it the fault is.
func TestABatchIsCheckedBeforeItIsUsed(t *testing.T) {
	good := tickItem(1, 1, 0, "one")
	reset := func(topic uint32, epoch, next uint64) wire.BatchItem {
		return wire.BatchItem{Topic: topic, Reset: &wire.BatchReset{Epoch: epoch, NextSeq: next}}
	}
	noTick := batchFrame(t, good, tickItem(1, 2, 0, "two"))
	b := noTick.GetBatch()
	b.Topics, b.Firsts, b.Order = append(b.Topics, 99), append(b.Firsts, 1), []uint32{0, 0}
	for name, f := range map[string]*wire.ServerFrame{
		"a tick of a topic that was never announced": batchFrame(t, good, tickItem(99, 1, 0, "never")),
		"a reset of one":                                 batchFrame(t, good, reset(99, 8, 1)),
		"one without a tick":                             noTick,
		"more skipped than there is":                     batchFrame(t, good, tickItem(1, 5, 6, "x")),
		"a sequence number of 2^53":                      batchFrame(t, good, tickItem(1, wire.MaxNumber+1, 0, "x")),
		"a sequence number of 2^64-1":                    batchFrame(t, good, tickItem(1, math.MaxUint64, 0, "x")),
		"one of a topic that is not held":                batchFrame(t, good, tickItem(2, wire.MaxNumber+1, 0, "x")),
		"a reset to a sequence number of 2^53":           batchFrame(t, good, reset(1, 8, wire.MaxNumber+1)),
		"a reset to an epoch of 2^53":                    batchFrame(t, good, reset(1, wire.MaxNumber+1, 1)),
		"a sequence number of 2^53, after the last good": batchFrame(t, tickItem(1, wire.MaxNumber, 0, "x"), tickItem(1, wire.MaxNumber+1, 0, "x")),
	} {
		t.Run(name, func(t *testing.T) {
			c := newConn(&link{})
			if _, err := interpret(c, subscribedFrame(1, []string{"a", "b"}, state(1, "a", 7, 1), state(2, "b", 7, 1))); err != nil {
				t.Fatal(err)
			}
			if err := c.view.release([]string{"b"}); err != nil {
				t.Fatal(err)
			}
			f.GetBatch().Cursor = []byte("behind")
			events, err := interpret(c, f)
			if !errors.Is(err, errSequence) && !errors.Is(err, wire.ErrBatch) || len(events) > 0 {
				t.Errorf("events %q, %v", events, err)
			}
			if c.step() != nil || c.Ready() || c.Cursor() != nil || c.view.topics[1].next != 1 || c.Stats().Ticks != 0 {
				t.Errorf("something of it was used: cursor %q, %+v", c.Cursor(), c.view.topics[1])
			}
		})
	}
}

// TestTheGreatestNumbers: what docs/protocol.md allows is taken.
func TestTheGreatestNumbers(t *testing.T) {
	c := newConn(&link{})
	const most = wire.MaxNumber
	got, err := interpret(c, subscribedFrame(1, []string{"a"}, state(1, "a", most, most)), batchFrame(t, tickItem(1, most, most, "x")),
		gapFrame(1, most, most, most), heartbeatFrame(topicHead(1, most)))
	if err != nil || len(got) != 3 || !strings.Contains(got[1], `/9007199254740991 -9007199254740991 m0 "x"`) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNotices(t *testing.T) {
	c := newConn(&link{})
	if _, err := interpret(c, subscribedFrame(1, []string{"*"}, state(1, "a", 7, 1), state(2, "b", 7, 1))); err != nil {
		t.Fatal(err)
	}
	got, err := interpret(c,
		noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_SLOW, Text: "slow\x1b down"}),
		noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_CAUGHT_UP, Merged: 3, Dropped: 4}),
		noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_SOURCE_LOST}),
		noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_SOURCE_BACK, Topics: []uint32{2, 1}}),
		noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_TOKEN_EXPIRES, ExpiresAtS: 77}),
		noticeFrame(&wire.Notice{Kind: 99, Text: "of a later version"}),
		noticeFrame(&wire.Notice{}))
	none := time.Time{}.String()
	want := []string{
		"*client.Notice {KIND_SLOW slow down 0 0 " + none + " []}",
		"*client.Notice {KIND_CAUGHT_UP  3 4 " + none + " []}",
		"*client.Notice {KIND_SOURCE_LOST  0 0 " + none + " []}",
		"*client.Notice {KIND_SOURCE_BACK  0 0 " + none + " [b a]}",
		"*client.Notice {KIND_TOKEN_EXPIRES  0 0 " + time.Unix(77, 0).String() + " []}",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\ngot  %q\nwant %q", err, got, want)
	}
	if n := c.Stats().Notices; n != uint64(len(want)) {
		t.Errorf("%d notices counted", n)
	}
	if err := c.view.release([]string{"*"}); err != nil {
		t.Fatal(err)
	}
	if got, err := interpret(c, noticeFrame(&wire.Notice{Kind: wire.Notice_KIND_SOURCE_LOST, Topics: []uint32{1}})); err != nil || got != nil {
		t.Errorf("of a topic that was given back: %q, %v", got, err)
	}
}

func TestCursorFollowsMessages(t *testing.T) {
	c := newConn(&link{})
	step := func(want string, f *wire.ServerFrame) {
		t.Helper()
		if _, err := interpret(c, f); err != nil || string(c.Cursor()) != want {
			t.Errorf("%q, %v; want %q", c.Cursor(), err, want)
		}
	}
	step("", subscribedFrame(1, []string{"a"}, state(1, "a", 7, 1)))
	batch := batchFrame(t, tickItem(1, 1, 0, "x"))
	batch.GetBatch().Cursor = []byte("one")
	step("one", batch)
	step("one", batchFrame(t, tickItem(1, 2, 0, "x")))
	beat := heartbeatFrame()
	beat.GetHeartbeat().Cursor = []byte("two")
	step("two", beat)
}

// fate is what became of one tick.
type fate uint8

const (
	unknown fate = iota
	delivered
	merged
	lost
)

// upstream is a gateway and one topic, told what to do by a script. It knows
// what became of every tick of the current epoch.
type upstream struct {
	t      testing.TB
	conn   *Conn
	epoch  uint64
	seq    uint64 // newest tick
	sent   uint64 // up to here everything was sent, told or lost
	hidden uint64 // the newest tick that was lost without a word; 0: all is told
	want   map[uint64]fate
	got    map[uint64]fate
}

func (u *upstream) frame(f *wire.ServerFrame) {
	if err := u.conn.begin(queued{frame: f}); err != nil {
		u.t.Fatal(err)
	}
	for {
		e := u.conn.step()
		if e == nil {
			return
		}
		u.note(e)
	}
}

func (u *upstream) note(e Event) {
	mark := func(seq uint64, f fate) {
		if u.got[seq] != unknown {
			u.t.Fatalf("tick %d is told twice: %d, then %d", seq, u.got[seq], f)
		}
		u.got[seq] = f
	}
	switch e := e.(type) {
	case *Tick:
		for seq := e.Seq - e.Merged; seq < e.Seq; seq++ {
			mark(seq, merged)
		}
		mark(e.Seq, delivered)
	case *Gap:
		for seq := e.From; seq <= e.To; seq++ {
			mark(seq, lost)
		}
	case *Reset:
		clear(u.got)
	}
}

// fates of the ticks that were not accounted for yet.
func (u *upstream) account(f fate) {
	for seq := u.sent + 1; seq <= u.seq; seq++ {
		u.want[seq] = f
	}
	u.sent = u.seq
}

// act does one thing of the script; more is a number to vary it.
func (u *upstream) act(op byte, more uint64) {
	switch op % 8 {
	case 0, 1, 2:
		u.seq += 1 + more%4
	case 3: // deliver the newest, the others merged; it may cover more than that
		if u.seq == u.sent {
			return
		}
		free := u.sent - min(u.hidden, u.sent) // a tick never covers what was lost
		skipped := u.seq - u.sent - 1 + min(more%3, free)
		u.account(merged)
		u.want[u.seq] = delivered
		u.hidden = 0
		u.frame(batchFrame(u.t, tickItem(1, u.seq, skipped, "x")))
	case 4: // lose all that waits, without a word
		if u.seq > u.sent {
			u.account(lost)
			u.hidden = u.seq
		}
	case 5: // lose it, and say so
		if u.seq > u.sent {
			from := u.sent + 1
			u.account(lost)
			u.hidden = 0
			u.frame(gapFrame(1, u.epoch, from, u.seq))
		}
	case 6: // what was sent is sent again, or a heartbeat shows how far it went
		if more%2 == 0 && u.hidden == 0 && u.sent > 0 {
			u.frame(batchFrame(u.t, tickItem(1, u.sent, 0, "x")))
			return
		}
		u.frame(heartbeatFrame(topicHead(1, u.sent)))
		u.hidden = 0
	case 7:
		if more%8 == 0 {
			u.epoch++
			u.seq, u.sent, u.hidden = more%3, more%3, 0
			clear(u.want)
			u.frame(batchFrame(u.t, resetItem(1, u.epoch, u.seq+1, wire.Cause_CAUSE_SOURCE_LOST)))
		}
	}
}

// explain runs a script and holds what the client was told against what happened.
func explain(t testing.TB, script []byte) {
	u := &upstream{t: t, conn: newConn(&link{}), epoch: 1, want: map[uint64]fate{}, got: map[uint64]fate{}}
	u.frame(subscribedFrame(1, []string{"a"}, state(1, "a", 1, 1)))
	for i := 0; i+1 < len(script); i += 2 {
		u.act(script[i], uint64(script[i+1]))
	}
	u.frame(heartbeatFrame(topicHead(1, u.sent)))
	if fmt.Sprint(u.got) != fmt.Sprint(u.want) {
		t.Fatalf("script %x\nhappened %v\ntold     %v", script, u.want, u.got)
	}
}

// Whatever a gateway merges, loses silently, tells as lost or sends twice: the
// client is told of every tick exactly once, and of nothing else.
func TestEveryTickIsExplained(t *testing.T) {
	random := rand.NewChaCha8([32]byte{4})
	for range 2000 {
		script := make([]byte, 120)
		_, _ = random.Read(script) // never fails
		explain(t, script)
	}
}

func FuzzEveryTickIsExplained(f *testing.F) {
	f.Add([]byte{0, 1, 3, 0, 0, 3, 4, 0, 0, 0, 3, 2, 6, 1, 7, 8})
	f.Add([]byte{0, 1, 4, 0, 0, 3, 5, 0, 6, 1, 6, 0, 0, 0, 3, 1})
	f.Fuzz(func(t *testing.T, script []byte) { explain(t, script[:min(len(script), 4096)]) })
}
