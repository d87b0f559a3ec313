package e2e

import (
	"context"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
)

// A gateway that has just started gives what the publisher keeps in Redis, until a tick comes.
func TestFirstValueOfPublisher(t *testing.T) {
	r := redistest.Start(t)
	r.Do("SET", "last:md:eu:a", "kept")
	g := serve(t, fromRedis(r, `topics=[{match: "md:**", snapshot: true, seed: "last:{topic}"}]`))
	early := &past{t: t, g: g}
	early.connect("md:eu:a")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		event, err := early.conn.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := event.(*client.Snapshot); ok {
			if string(s.Payload) != "kept" || !s.Stale || s.Epoch != 0 || s.Seq != 0 || !s.Time.IsZero() {
				t.Errorf("got %+v", s)
			}
			break
		}
	}
	late := &past{t: t, g: g}
	late.connect("md:eu:b", "md:**")
	late.expect("snapshot md:eu:a kept stale=true")
	r.Do("PUBLISH", "md:eu:a", "1")
	early.expect("tick md:eu:a 1")
	late.expect("tick md:eu:a 1")
	early.leave()
	r.Do("PUBLISH", "md:eu:a", "2")
	late.expect("tick md:eu:a 2")
	early.connect("md:eu:a")
	early.expect("recovered md:eu:a", "tick md:eu:a 2") // only the last value is kept, and no more was missed
	late.leave()
	early.leave()
}
