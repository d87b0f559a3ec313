package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/internal/config"
)

// errInsisted ends the program when a second signal comes during the drain.
var errInsisted = errors.New("stopped at once by a second signal")

// serve runs the gateway until a signal: the first drains, a second ends at
// once. A hang-up reloads the settings.
func (a *app) serve(args []string) error {
	flags := newFlags("serve")
	sources := a.sourceFlags(flags)
	if help, err := a.parse(flags, args, 0); help || err != nil {
		return err
	}
	load := func() (*config.Loaded, error) { return config.Load(*sources) }
	loaded, err := load()
	if err != nil {
		return err
	}
	log := newLogger(a.stderr, loaded.Config.Log)
	for _, w := range loaded.Warnings {
		log.Warn(w)
	}
	stops, hangups := a.signals()
	s := newServices(&loaded.Config, log, load)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.runServices(ctx, s) }()
	reason, err := a.untilStop(s, ended, stops, hangups)
	if reason == nil {
		return err
	}
	timeout := s.settings().Drain.Timeout
	log.Info("stopping", zap.Stringer("signal", reason), zap.Duration("at_most", timeout))
	stop()
	return awaitEnd(ended, stops, timeout, log.Logger)
}

// untilStop returns the signal to stop, or what the services ended with. A
// hang-up because the terminal has gone is a signal to stop.
func (a *app) untilStop(s *services, ended <-chan error, stops, hangups <-chan os.Signal) (os.Signal, error) {
	attended := a.terminal()
	for {
		select {
		case err := <-ended:
			return nil, err
		case reason := <-stops:
			return reason, nil
		case reason := <-hangups:
			if attended && !a.terminal() {
				return reason, nil
			}
			s.requestReload()
		}
	}
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
func (a *app) runServices(ctx context.Context, s *services) error {
	err := s.start()
	if err == nil {
		if s.redis != nil {
			_ = a.print(s.welcome(a.program)) // nobody may be looking
		}
		s.tellManager(daemon.SdNotifyReady) // it takes connections; whether Redis is there is for /readyz
		go s.watchReady(ctx)
		err = s.run(ctx)
		s.tellManager(daemon.SdNotifyStopping)
	}
	s.stop()
	return err
}
