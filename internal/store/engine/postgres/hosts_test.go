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

// Failovers are tested in test/crash. Here, a host in the URL is gone for good.
func TestAnUnresponsiveHostIsSkippedAfterTheConnectTimeoutOfTheURL(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are accepted but never read
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
	// Without connect_timeout, the whole timeout would be spent on the first host.
	db, err := postgres.Open(t.Context(), u.String(), postgres.Options{Timeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// If the timeline is unknown, the server may have been replaced.
func TestAServerWithAnUnknownTimelineIsRefused(t *testing.T) {
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
	const createRole = `CREATE ROLE guest LOGIN PASSWORD 'guest'; GRANT ALL ON SCHEMA public TO guest`
	if _, err := admin.Exec(t.Context(), createRole); err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("guest", "guest")
	u.Host += ",127.0.0.1:1" // no server listens there
	open := func() error {
		db, err := postgres.Open(t.Context(), u.String(), postgres.Options{})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Errorf("a server with a known timeline: %v", err)
	}
	if _, err := admin.Exec(t.Context(), `REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC`); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "timeline") {
		t.Errorf("a server with an unknown timeline: %v", err)
	}
}
