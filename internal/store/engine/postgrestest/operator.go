package postgrestest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An Operator runs the commands of the documentation on a server, with a shell.
type Operator struct {
	server *Server
	sudo   string // the directory of a program sudo, which runs commands as the superuser of the server
}

// NewOperator returns the operator of a server.
func (s *Server) NewOperator(tb testing.TB) *Operator {
	tb.Helper()
	o := &Operator{s, tb.TempDir()}
	script := fmt.Sprintf(`#!/bin/sh
[ "$1 $2" = '-u postgres' ] || { echo "sudo: not as postgres: $*" >&2; exit 1; }
shift 2
export PGHOST=127.0.0.1 PGPORT=%d PGUSER=%s
exec "$@"
`, s.port, superuser)
	if err := os.WriteFile(filepath.Join(o.sudo, "sudo"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		tb.Fatal(err)
	}
	return o
}

// NewDatabase creates a role and a database, both named atrium, with the statements of an operator, and
// returns the URL of the database for the role.
func (o *Operator) NewDatabase(tb testing.TB, statements string) string {
	tb.Helper()
	cmd := o.Command("sudo -u postgres psql --quiet --set=ON_ERROR_STOP=1")
	cmd.Stdin = strings.NewReader(statements)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", statements, err, out)
	}
	return o.URL("atrium")
}

// URL returns the URL of a database for the role atrium.
func (o *Operator) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("atrium"), Host: fmt.Sprintf("127.0.0.1:%d", o.server.port), Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Command returns a command that runs a script. In its environment, the programs of the server and sudo
// come first.
func (o *Operator) Command(script string) *exec.Cmd {
	script = strings.ReplaceAll(script, "postgres://atrium@db.internal/restored", o.URL("restored"))
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+o.sudo+":"+o.server.bin+":"+os.Getenv("PATH"))
	return cmd
}
