package manage_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"atrium"
	"atrium/api"
	"atrium/internal/ingest"
	"atrium/internal/manage"
	"atrium/internal/rest"
	"atrium/internal/rest/resttest"
	"atrium/internal/store"
	"atrium/internal/store/engine/sqlite"
)

// routes returns the routes on an empty database, with the tenant that requests name.
func routes(tb testing.TB) []rest.Route {
	tb.Helper()
	db, err := sqlite.Open(filepath.Join(tb.TempDir(), "atrium.db"), sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	s := store.New(db, time.Now)
	tb.Cleanup(func() { _ = s.Close() })
	if _, err := s.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if _, _, err := s.AdoptTenant(tb.Context(), atrium.CommandLine(atrium.OperatorChain), resttest.Tenant, "Tenant"); err != nil {
		tb.Fatal(err)
	}
	writer := ingest.NewWriter(s, ingest.Limits{}, slog.New(slog.DiscardHandler), nil, nil)
	tb.Cleanup(func() { _ = writer.Close(context.Background()) })
	return (&manage.API{Store: s, Logs: writer}).Routes()
}

// fuzz checks that the operation accepts a body exactly when the document does. accepted
// is the status of an accepted body; valid is the seed corpus.
func fuzz(f *testing.F, operationID string, accepted int, valid ...string) {
	f.Helper()
	fuzzAny(f, operationID, []int{accepted}, valid...)
}

// fuzzAny is fuzz for an operation that has several statuses for an accepted body.
func fuzzAny(f *testing.F, operationID string, accepted []int, valid ...string) {
	f.Helper()
	resttest.AddBodies(f, valid...)
	o := resttest.New(f, api.Manage, operationID, routes(f), accepted...)
	f.Fuzz(func(t *testing.T, body []byte) { o.Check(t, body) })
}
