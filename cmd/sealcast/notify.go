package main

import (
	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// tellManager tells a service manager that follows sd_notify(3), such as
// systemd, how far the gateway is. Without one it does nothing.
func (s *services) tellManager(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("service manager not told", zap.String("state", state), zap.Error(err))
	}
}
