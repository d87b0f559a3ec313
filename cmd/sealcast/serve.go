package main

import (
	"context"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/internal/config"
)

// errInsisted ends the program when a second signal comes during the drain.
var errInsisted = errors.New("stopped at once by a second signal")

// serve runs the gateway until a signal: the first drains, a second ends at once.
func (a *app) serve(args []string) error {
	flags := newFlags("serve")
	sources := a.sourceFlags(flags)
	if help, err := a.parse(flags, args, 0); help || err != nil {
		return err
	}
	loaded, err := config.Load(*sources)
	if err != nil {
		return err
	}
	log := newLogger(a.stderr, loaded.Config.Log)
	for _, w := range loaded.Warnings {
		log.Warn(w)
	}
	signals := a.signals()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.runServices(ctx, &loaded.Config, log) }()
	select {
	case err := <-ended:
		return err
	case s := <-signals:
		log.Info("stopping", zap.Stringer("signal", s), zap.Duration("at_most", loaded.Config.Drain.Timeout))
	}
	stop()
	return awaitEnd(ended, signals, loaded.Config.Drain.Timeout, log)
}

// awaitEnd waits for the drain, but never past its timeout nor a second signal.
func awaitEnd(ended <-chan error, signals <-chan os.Signal, timeout time.Duration, log *zap.Logger) error {
	select {
	case err := <-ended:
		if err == nil {
			log.Info("stopped")
		}
		return err
	case <-signals:
		return errInsisted
	case <-time.After(timeout):
		log.Warn("drain timeout: ending with work left")
		return nil
	}
}

// runServices starts everything, serves until ctx ends or a part fails, and stops everything.
func (a *app) runServices(ctx context.Context, cfg *config.Config, log *zap.Logger) error {
	s := newServices(cfg, log)
	err := s.start()
	if err == nil {
		if cfg.Redis.Mode == config.RedisEmbedded {
			_ = a.print(s.welcome(a.program)) // nobody may be looking
		}
		go s.watchReady(ctx)
		select {
		case <-ctx.Done():
		case err = <-s.failed:
		}
	}
	s.stop()
	return err
}
