package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/config"
)

// maxTokenKeyFile bounds a file of auth.keys: a set of a hundred keys fits.
const maxTokenKeyFile = 256 << 10

// loadTokenKeys makes the judge of tokens from auth.*. The key set of a URL that
// did not change is taken from before, so that a reload does not lose it.
func (f *inForce) loadTokenKeys(before *inForce) error {
	c := &f.cfg.Auth
	if c.Mode == config.AuthNone {
		return nil
	}
	options := auth.Options{
		Audience: f.cfg.Realm, Issuer: c.Issuer, Leeway: c.Leeway, Now: time.Now,
		Claims: auth.Claims{Topics: c.TopicsClaim, Limits: c.LimitsClaim},
		Remote: f.remoteKeys(before),
	}
	var faults []error
	for i := range c.Keys {
		keys, err := c.Keys[i].Parse(readTokenKey)
		if err != nil {
			faults = append(faults, advice.Failed(fmt.Errorf("auth.keys[%d] %s: %w", i, c.Keys[i].File, err),
				"name a file with a public key in PEM, a JSON Web Key or a set of them; or, with alg: HS256, a secret"))
		}
		options.Keys = append(options.Keys, keys...)
	}
	patterns := make([]string, len(c.DefaultTopics))
	for i, t := range c.DefaultTopics {
		patterns[i] = t.String()
	}
	var err error
	if options.DefaultTopics, err = auth.ParseRights(patterns); err != nil {
		faults = append(faults, fmt.Errorf("auth.default_topics: %w", err))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	f.verifier = auth.NewVerifier(options)
	return nil
}

func (f *inForce) remoteKeys(before *inForce) *auth.RemoteKeys {
	c, old := &f.cfg.Auth, &before.cfg.Auth
	switch {
	case c.JWKS == "":
		return nil
	case before.verifier != nil && c.JWKS == old.JWKS && c.JWKSRefresh == old.JWKSRefresh:
		return before.verifier.Remote()
	}
	return auth.NewRemoteKeys(c.JWKS, c.JWKSRefresh)
}

// readTokenKey reads a file of auth.keys. One with a secret must be its owner's
// alone.
func readTokenKey(path string, private bool) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold up the start
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxTokenKeyFile:
		return nil, fmt.Errorf("is not a file of at most %d bytes", maxTokenKeyFile)
	case private && info.Mode().Perm()&^0o600 != 0:
		return nil, fmt.Errorf("has mode %04o: others than its owner may use it (chmod 600)", info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(file, maxTokenKeyFile))
}

func authOptions(f *inForce) gateway.AuthOptions {
	c := &f.cfg.Auth
	return gateway.AuthOptions{Verifier: f.verifier, OnDuplicate: c.OnDuplicate, Notice: c.ExpiryNotice,
		KeepRevoked: c.KeepRevoked, ControlSecret: []byte(c.ControlSecret.Reveal())}
}

// keyFollower is the key set that is kept fresh.
type keyFollower struct {
	remote *auth.RemoteKeys
	stop   context.CancelFunc // nil: none is
}

// followKeys keeps the key set of the URL that is in force fresh. It belongs to
// the goroutine of start and run.
func (s *services) followKeys() {
	var remote *auth.RemoteKeys
	if v := s.live.Load().verifier; v != nil {
		remote = v.Remote()
	}
	if remote == s.follower.remote {
		return
	}
	if s.follower.stop != nil {
		s.follower.stop()
	}
	s.follower = keyFollower{remote: remote}
	if remote != nil {
		var ctx context.Context
		ctx, s.follower.stop = context.WithCancel(s.background)
		s.running.Go(func() { remote.Run(ctx, s.log.Logger) })
	}
}

// warnNoTokens says what auth.mode none means where others can reach the port.
func (s *services) warnNoTokens(f *inForce) {
	if f.verifier == nil && s.redis == nil {
		s.log.Warn("auth.mode is none: whoever reaches the port can subscribe to every topic", zap.Stringer("listen", s.listener.Addr()))
	}
}
