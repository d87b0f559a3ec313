package fanout

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// afterFirst does something once, behind the first transaction of a client.
type afterFirst struct {
	redis.Hook
	do func()
}

func (a *afterFirst) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (a *afterFirst) DialHook(next redis.DialHook) redis.DialHook          { return next }

func (a *afterFirst) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if fmt.Sprint(cmds[0].Args()[0]) != "multi" { // the connection's own
			return next(ctx, cmds)
		}
		err := next(ctx, cmds)
		if a.do != nil {
			a.do()
			a.do = nil
		}
		return err
	}
}

// Entries that are trimmed while a recovery reads page after page are not passed over.
func TestRecoveryOfWhatIsTrimmedMeanwhile(t *testing.T) {
	const entries = 2*streamPage + 100
	for name, test := range map[string]struct {
		left int
		want error
	}{
		"nothing more than was read": {entries - 1 - streamPage, nil},
		"one entry too many":         {entries - 2 - streamPage, errTrimmed},
		"all":                        {0, errTrimmed},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			c := s.Connect()
			for n := 1; n <= entries; n++ {
				c.Do("XADD", "ticks", fmt.Sprint(n, "-0"), "topic", "a", "payload", strconv.Itoa(n))
			}
			opt := fromStreams(quick(s.Addr), Standalone, "ticks").withDefaults()
			rr := &recoverReader{opt: &opt, client: NewClient(opt.Redis)}
			defer rr.client.Close()
			rr.client.AddHook(&afterFirst{do: func() { c.Do("XTRIM", "ticks", "MAXLEN", strconv.Itoa(test.left)) }})
			r := &recovery{from: []position{{ms: 1, count: 1}}, to: []position{{ms: entries, count: entries}},
				found: map[string][]item{}, picks: newMatcher([]topic.Filter{filter("a")})}
			err := rr.read(t.Context(), r)
			if !errors.Is(err, test.want) || err == nil && len(r.found["a"]) != entries-1 {
				t.Errorf("%d entries, %v; want %v", len(r.found["a"]), err, test.want)
			}
		})
	}
}

// The position that a lapse brings is not behind the entries that follow it: a turn
// of the hub may end between them.
func TestLapseStandsBeforeItsPage(t *testing.T) {
	opt := Options{}.withDefaults()
	entry := func(id string) redis.XMessage {
		return redis.XMessage{ID: id, Values: map[string]any{"topic": "a", "payload": "x"}}
	}
	for name, test := range map[string]struct {
		page *page
		want position
	}{
		"trimmed":      {&page{length: 2, added: 10, last: position{ms: 10}, entries: []redis.XMessage{entry("9-0"), entry("10-0")}}, position{ms: 3, count: 8}},
		"all trimmed":  {&page{added: 10, last: position{ms: 10}}, position{ms: 3, count: 10}},
		"other stream": {&page{length: 1, added: 1, last: position{ms: 1}}, position{ms: 1, count: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(100, 1<<20, func() {})
			r := &streamReader{source: &streamSource{opt: opt, queue: q}, stream: 1, at: position{ms: 3, count: 3}, sure: true}
			r.take(t.Context(), test.page)
			items, _ := q.take(nil, 100, 1<<20)
			if len(items) != 1+len(test.page.entries) || items[0].kind != itemLapse || items[0].at != test.want {
				t.Fatalf("%+v, want a lapse at %v", items, test.want)
			}
			if items[0].note.cause == wire.Cause_CAUSE_UNSPECIFIED {
				t.Error("no cause")
			}
			for i, it := range items[1:] {
				if !items[i].at.less(it.at) || it.at.count != items[i].at.count+1 {
					t.Errorf("%v follows %v", it.at, items[i].at)
				}
			}
		})
	}
}
