package client

import "context"

// turn is a lock for one holder that waits no longer than a context lives.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn. It fails only when ctx ends first.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// try takes the turn if it is free.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// give hands the turn on.
func (t turn) give() { <-t }
