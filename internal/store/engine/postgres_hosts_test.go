package engine_test

import (
	"net"
	"net/url"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgrestest"
)

// What a failover needs is in test/crash. This is a host that is gone for good, and
// still in the URL.
func TestAHostThatDoesNotAnswerIsGivenUpAfterTheTimeThatTheURLHas(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts for it, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	u, err := url.Parse(postgrestest.Shared(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = silent.Addr().String() + "," + u.Host
	u.RawQuery += "&connect_timeout=1"
	// Without it, all of the time that there is would be spent on the first host.
	db, err := engine.OpenPostgres(t.Context(), u.String(), engine.PostgresOptions{Timeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
