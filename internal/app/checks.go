package app

import (
	"context"
	"time"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/console"
	"atrium/internal/doctor"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/store"
)

// Limits of the checks of a server, which may wait for an identity provider.
const (
	maxServerChecks     = 2 // of which all operators together get half
	serverChecksWaiting = 8
)

// NewDoctor returns a doctor for the settings, which may be invalid. Open is missing.
func NewDoctor(settings config.Config, origins []config.Setting, loading []doctor.Finding) *doctor.Doctor {
	d := &doctor.Doctor{
		Settings: settings, Origins: origins, Loading: loading, Now: time.Now,
		RedirectURI: settings.PublicURL + console.CallbackPath, SignedOutURI: settings.PublicURL + console.SignedOutPath,
	}
	d.CheckProvider = func(ctx context.Context) error { return newProvider(d.Settings, d.Now).Check(ctx) }
	return d
}

// newChecks returns the checks of a running server, which use its connections to the database.
func newChecks(c Config) func(context.Context) ([]manage.Check, error) {
	d := NewDoctor(c.Settings, c.Origins, c.Loading)
	d.Now = c.Store.Now
	d.Open = func(context.Context) (*store.Store, func(), error) { return c.Store, func() {}, nil }
	slots := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
		Slots: maxServerChecks, Waiting: serverChecksWaiting, Timeout: c.Settings.RequestWait,
	})
	return func(ctx context.Context) ([]manage.Check, error) {
		if err := slots.Acquire(ctx, atrium.OperatorChain); err != nil {
			return nil, atrium.Unavailable(err)
		}
		defer slots.Release(atrium.OperatorChain)
		findings := d.Run(ctx)
		if err := context.Cause(ctx); err != nil { // the findings are unreliable
			return nil, atrium.Unavailable(err)
		}
		checks := make([]manage.Check, len(findings))
		for i, f := range findings {
			checks[i] = manage.Check{Name: f.Check, Status: string(f.Status), Found: publicLine(f.Found), Fix: f.Fix}
		}
		return checks, nil
	}
}
