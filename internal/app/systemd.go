package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifySystemd tells systemd a state of this process, if systemd has started it and waits for that:
// sd_notify(3). Without systemd it does nothing.
func notifySystemd(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told a state of this process", "state", state, "error", err)
	}
}

// watchdog tells systemd that this process runs, twice in the time after which systemd would restart
// it: sd_watchdog_enabled(3). It returns when ctx ends, or at once without a watchdog.
func watchdog(ctx context.Context, log *slog.Logger) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of systemd is not used", "error", err)
	}
	if limit == 0 {
		return
	}
	ticks := time.NewTicker(limit / 2)
	defer ticks.Stop()
	for {
		notifySystemd(log, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
