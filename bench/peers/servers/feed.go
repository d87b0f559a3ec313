package servers

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// follow hands over every payload that is published to the topic, until ctx
// ends. The payload is valid during the call. A server that would rather have
// them in a channel pays for that itself.
func follow(ctx context.Context, o Options, tick func(payload []byte)) error {
	client := redis.NewClient(&redis.Options{Addr: o.Redis, Protocol: 3})
	defer client.Close()
	sub := client.Subscribe(ctx, o.Topic)
	defer sub.Close()
	context.AfterFunc(ctx, func() { sub.Close() })
	for {
		m, err := sub.ReceiveMessage(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("following %s: %w", o.Topic, err)
		}
		tick([]byte(m.Payload))
	}
}
