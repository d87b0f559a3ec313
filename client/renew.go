package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealcast/sealcast/wire"
)

// nextToken is the token of the next connection.
func (c *Client) nextToken(ctx context.Context) (string, error) {
	if c.opts.TokenSource == nil {
		c.shared.Lock()
		defer c.shared.Unlock()
		return c.shared.token, nil
	}
	token, err := c.opts.TokenSource(ctx)
	if err != nil {
		return "", err
	}
	c.shared.Lock()
	defer c.shared.Unlock()
	if token == c.shared.refused {
		return "", errors.New("the token source gives the token again that the gateway has refused")
	}
	c.shared.token = token
	return token, nil
}

// refuseToken notes that the gateway wants another token than the one used last.
func (c *Client) refuseToken() {
	c.shared.Lock()
	defer c.shared.Unlock()
	c.shared.refused = c.shared.token
}

// Refresh exchanges the token for a newer one of the same subject, as
// Conn.Refresh does, and keeps it for later connections. While there is no
// connection that is all. With Options.TokenSource there is no need to call it.
func (c *Client) Refresh(ctx context.Context, token string) (expires time.Time, err error) {
	conn, err := c.now()
	if err != nil {
		return expires, err
	}
	if conn != nil {
		expires, err = conn.Refresh(ctx, token)
	}
	if err != nil && conn.over() == nil {
		return expires, err
	}
	c.shared.Lock()
	defer c.shared.Unlock()
	c.shared.token = token
	return expires, nil
}

// attend does what an event asks of the Client before the program gets it.
func (c *Client) attend(conn *Conn, event Event) {
	notice, ok := event.(*Notice)
	if !ok || notice.Kind != wire.Notice_KIND_TOKEN_EXPIRES || c.opts.TokenSource == nil {
		return
	}
	if c.renewing.CompareAndSwap(false, true) {
		c.run(func() {
			defer c.renewing.Store(false)
			c.renew(conn)
		})
	}
}

// renew renews the token of a connection, trying again for as long as the
// connection lives.
func (c *Client) renew(conn *Conn) {
	for delay := c.backoff.Min; ; delay = min(2*delay, c.backoff.Max) {
		err := c.renewOnce(conn)
		if err == nil || conn.over() != nil {
			return
		}
		conn.tell(wire.CloseUnauthenticated, fmt.Sprintf("the token was not renewed: %v", err))
		if sleep(c.life, delay) != nil {
			return
		}
	}
}

func (c *Client) renewOnce(conn *Conn) error {
	ctx, cancel := context.WithTimeout(c.life, c.opts.dialTimeout())
	defer cancel()
	token, err := c.nextToken(ctx)
	if err == nil {
		_, err = conn.Refresh(ctx, token)
	}
	return err
}
