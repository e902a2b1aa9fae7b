package manage_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"atrium/api"
	"atrium/internal/ingest"
	"atrium/internal/manage"
	"atrium/internal/rest"
	"atrium/internal/rest/resttest"
	"atrium/internal/store"
	"atrium/internal/store/engine/sqlite"
)

// routes are the routes on a database that holds nothing, not even the tenant.
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
	writer := ingest.NewWriter(s, ingest.Limits{}, slog.New(slog.DiscardHandler), nil, nil)
	tb.Cleanup(func() { _ = writer.Close(context.Background()) })
	return (&manage.API{Store: s, Logs: writer}).Routes()
}

// fuzz holds that the operation takes a body exactly when the document does. valid
// are bodies to begin with.
func fuzz(f *testing.F, operationID string, taken int, valid ...string) {
	f.Helper()
	fuzzTaken(f, operationID, []int{taken}, valid...)
}

// fuzzTaken is fuzz for a body that may be answered in several ways when it is taken.
func fuzzTaken(f *testing.F, operationID string, taken []int, valid ...string) {
	f.Helper()
	resttest.AddBodies(f, valid...)
	o := resttest.New(f, api.Manage, operationID, routes(f), taken...)
	f.Fuzz(func(t *testing.T, body []byte) { o.Check(t, body) })
}
