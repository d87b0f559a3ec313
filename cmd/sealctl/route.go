package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/internal/advice"
)

// The ways that ticks take through Redis, named as the gateway's redis.source.
const (
	modePubSub  = "pubsub"
	modeSharded = "sharded"
	modeStreams = "streams"
)

// route is the way that ticks take through Redis.
type route struct {
	mode   string
	stream string // the key, for modeStreams
}

func (r *route) declare(f *flags) {
	f.StringVar(&r.mode, "mode", modePubSub, "`MODE` of publishing, as redis.source of the gateway: pubsub, sharded (on a cluster) or streams")
	f.StringVar(&r.stream, "stream", "ticks", "`KEY` of the stream that --mode streams adds to")
}

func (r *route) check(f *flags) error {
	switch {
	case r.mode != modePubSub && r.mode != modeSharded && r.mode != modeStreams:
		return advice.Misuse(fmt.Sprintf("--mode: there is no mode %q", r.mode), "the modes are: pubsub, sharded, streams")
	case f.given("stream") && (r.mode != modeStreams || r.stream == ""):
		return advice.Misuse("--stream names the stream of --mode streams", "")
	}
	return nil
}

// publisher returns what publishes on this way.
func (r *route) publisher(db *database) (*publisher, error) {
	if r.mode == modeSharded && db.cluster() == nil {
		return nil, advice.Misuse("--mode sharded: redis "+db.address+" is no cluster", "only gateways with redis.mode cluster read sharded channels; leave out --mode for the others")
	}
	return &publisher{db, *r}, nil
}

// publisher sends batches to Redis. All ticks of a topic go through one server,
// which carries out one command after the other: their order is kept.
type publisher struct {
	db *database
	route
}

// counts tells whether Redis says how many subscribers a tick has reached. In a
// cluster, PUBLISH counts those of one node only.
func (p *publisher) counts() bool {
	return p.mode == modeSharded || p.mode == modePubSub && p.db.cluster() == nil
}

func (p *publisher) publish(ctx context.Context, ticks []outgoing) (reached int64, err error) {
	cluster := p.db.cluster()
	if cluster == nil {
		return p.send(ctx, p.db, ticks)
	}
	var nodes []*redis.Client
	parts := make(map[*redis.Client][]outgoing)
	for _, t := range ticks {
		key := t.topic
		if p.mode == modeStreams {
			key = p.stream
		}
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return 0, explainRedis(err, p.db.address)
		}
		if parts[node] == nil {
			nodes = append(nodes, node)
		}
		parts[node] = append(parts[node], t)
	}
	for _, node := range nodes {
		n, err := p.send(ctx, node, parts[node])
		if reached += n; err != nil {
			return reached, err
		}
	}
	return reached, nil
}

// send publishes through one server.
func (p *publisher) send(ctx context.Context, to redis.Cmdable, ticks []outgoing) (reached int64, err error) {
	answers, err := to.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, t := range ticks {
			switch p.mode {
			case modeStreams:
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: p.stream, Values: []any{"topic", t.topic, "payload", t.payload}})
			case modeSharded:
				pipe.SPublish(ctx, t.topic, t.payload)
			default:
				pipe.Publish(ctx, t.topic, t.payload)
			}
		}
		return nil
	})
	for _, answer := range answers {
		if n, ok := answer.(*redis.IntCmd); ok && n.Err() == nil {
			reached += n.Val()
		}
	}
	if err != nil {
		return reached, explainRedis(err, p.db.address)
	}
	return reached, nil
}
