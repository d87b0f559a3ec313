package main

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// oldKeyGrace is how long after a change of key_file the old private key is
// kept. A handshake that began with it ends within five seconds.
const oldKeyGrace = time.Minute

// run follows the settings until ctx ends or a part of the services fails.
func (s *services) run(ctx context.Context) error {
	lifetime := s.settings().Resumption.Lifetime
	rotation := time.NewTimer(lifetime)
	defer rotation.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.failed:
			return err
		case <-rotation.C:
			s.rotateTicketKeys()
		case <-s.reloads:
			s.reload()
			if s.settings().Resumption.Lifetime == lifetime {
				continue // reloading often must not put off the rotation
			}
			lifetime = s.settings().Resumption.Lifetime
		}
		rotation.Reset(lifetime)
	}
}

// requestReload makes run reload once more. Any goroutine may call it.
func (s *services) requestReload() {
	select {
	case s.reloads <- struct{}{}:
	default: // one is waiting already, and will see the same
	}
}

// reload reads settings and keys again, and puts into force what can change
// while sessions go on. If anything is faulty, everything stays as it was.
func (s *services) reload() {
	before := s.live.Load()
	next, waiting, err := s.loadAgain(before)
	if err != nil {
		list, _ := explain(err)
		for _, fault := range list {
			s.log.Error("fault in the settings", zap.String("fault", fault.text), zap.String("hint", fault.hint))
		}
		s.log.Error("not reloaded: the settings from before stay in force", zap.Int("faults", len(list)))
		return
	}
	s.log.level.SetLevel(logLevel(next.cfg.Log.Level))
	s.gateway.Reload(s.gatewaySettings(next))
	s.hub.SetRules(hubRules(next.cfg.Topics))
	s.live.Store(next)
	s.followKeys()
	s.audit.reopen()
	if len(waiting) > 0 {
		s.log.Warn("these settings wait for a restart, the values from before stay in force", zap.Strings("settings", waiting))
	}
	s.log.Info("settings reloaded", zap.Strings("changed", before.changes(next)),
		zap.Stringer("public_key", next.key.Public()), zap.Strings("suites", next.suiteNames()))
	if next.key != before.key {
		s.warnTemporaryKey(next)
		time.AfterFunc(oldKeyGrace, before.key.Clear)
	}
}

// loadAgain returns what would hold now, and the settings that wait for a restart.
func (s *services) loadAgain(before *inForce) (next *inForce, waiting []string, err error) {
	loaded, err := s.load()
	if err != nil {
		return nil, nil, err
	}
	cfg, waiting := before.cfg.Reload(loaded.Config)
	next, err = newInForce(&cfg, before)
	return next, waiting, err
}

// rotateTicketKeys replaces the ticket key of the process's own, once in a
// ticket's lifetime: the key before then opens tickets for as long as there are any.
func (s *services) rotateTicketKeys() {
	next := *s.live.Load()
	if next.tickets == nil || next.ticketFile != nil {
		return
	}
	key := newTicketKey()
	defer clear(key)
	rotated, err := next.tickets.Rotated(key)
	if err != nil { // a key of the wrong size, which this is not
		s.log.Error("the ticket key stays", zap.Error(err))
		return
	}
	next.tickets = rotated
	s.gateway.Reload(s.gatewaySettings(&next))
	s.live.Store(&next)
}
