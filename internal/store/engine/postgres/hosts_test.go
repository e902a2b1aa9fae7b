package postgres_test

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium/internal/store/engine/postgres"
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
	db, err := postgres.Open(t.Context(), u.String(), postgres.Options{Timeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// Who cannot find out whether a server was replaced does not write to it.
func TestAServerThatDoesNotTellItsTimelineIsRefused(t *testing.T) {
	server, err := postgrestest.Run()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	database, err := server.Create("silent")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	if _, err := admin.Exec(t.Context(), `CREATE ROLE guest LOGIN PASSWORD 'guest'; GRANT ALL ON SCHEMA public TO guest`); err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("guest", "guest")
	u.Host += ",127.0.0.1:1" // where nobody is
	open := func() error {
		db, err := postgres.Open(t.Context(), u.String(), postgres.Options{})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Errorf("a server that tells: %v", err)
	}
	if _, err := admin.Exec(t.Context(), `REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC`); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "timeline") {
		t.Errorf("a server that does not: %v", err)
	}
}
