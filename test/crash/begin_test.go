package crash

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium/internal/store/engine/postgrestest"
	"atrium/test/cutproxy"
)

// refusalLimit is how long a server may take to detect that it cannot use its database.
const refusalLimit = 5*time.Second + databaseTimeout

// A server that cannot use its database logs the reason and exits.
func TestStartReportsDatabaseErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, server *postgrestest.Server, db *database)
		says  string
		code  int
	}{
		{"away", func(t *testing.T, server *postgrestest.Server, _ *database) { server.Kill(t) },
			`open database: connect to the database: .*connection refused`, 1},
		{"hanging", func(t *testing.T, server *postgrestest.Server, _ *database) { server.Pause(t) },
			`open database: connect to the database: .*(timeout|deadline exceeded)`, 1},
		{"missing", func(_ *testing.T, _ *postgrestest.Server, db *database) {
			db.url = strings.Replace(db.url, "/test", "/nothing", 1)
		},
			`open database: connect to the database: .*database "nothing1" does not exist`, 1},
		{"of another encoding", func(t *testing.T, _ *postgrestest.Server, db *database) {
			execute(t, db.connect(t), `CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C'`)
			db.url = strings.Replace(db.url, "/test1", "/ascii", 1)
		}, `open database: .*the database has the encoding SQL_ASCII: create one with the encoding UTF8`, 1},
		{"of a newer binary", func(t *testing.T, _ *postgrestest.Server, db *database) {
			execute(t, db.connect(t), `UPDATE settings SET value = '\x00000000000003e8' WHERE name = 'finished'`)
		}, `migrate: .*the upgrade of the database to migration 1000 is finished and this binary knows \d+: use a newer binary`, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := postgrestest.Start(t)
			db := newRemote(t, server)
			c.spoil(t, server, db)
			s := launch(t, db.url, "--database-timeout", databaseTimeout.String())
			select {
			case <-s.done:
			case <-time.After(refusalLimit):
				t.Fatalf("the server has not ended within %s", refusalLimit)
			}
			log := s.log.String()
			if code := s.cmd.ProcessState.ExitCode(); code != c.code || !regexp.MustCompile(c.says).MatchString(log) {
				t.Errorf("exit code %d, log: %s", code, log)
			}
			if strings.Contains(log, password) {
				t.Errorf("the log has the password: %s", log)
			}
		})
	}
}

func execute(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// A server that waits to migrate, or for a hanging database, stops when it gets a signal.
func TestStopEndsAHangingMigration(t *testing.T) {
	db := newRemote(t, postgrestest.Shared(t))
	p, through := cutproxy.New(t, db.url)
	p.Rule(func(query, _ string) cutproxy.Fate {
		if strings.Contains(query, "pg_advisory_xact_lock") {
			return cutproxy.Silent
		}
		return cutproxy.Passes
	})
	s := launch(t, through)
	waitUntil(t, "the migration hangs", startLimit, func() bool { return p.Count(cutproxy.Silent) > 0 })
	s.signal(syscall.SIGTERM)
	if code := s.wait().ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}
