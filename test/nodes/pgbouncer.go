package nodes

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"testing"

	"atrium/internal/store/engine/postgrestest"
)

// secret is the password of the pool.
const secret = "secret of the pool"

// Pool starts PgBouncer with deploy/pgbouncer.ini in front of a server, and returns the
// URL of a database through it. It changes only the addresses and users in the file, and
// reduces the number of connections below what a single node would use.
func Pool(tb testing.TB, server *postgrestest.Server, database string) (pooled string) {
	tb.Helper()
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatal(err)
	}
	addr := freeAddr(tb)
	_, port, _ := net.SplitHostPort(addr)
	config := Deployed(tb, "pgbouncer.ini")
	for key, value := range map[string]string{
		"atrium":            fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s", server.Port(), u.Path[1:]),
		"listen_addr":       "127.0.0.1",
		"listen_port":       port,
		"auth_file":         "userlist.txt",
		"default_pool_size": "4",
	} {
		line := regexp.MustCompile(`(?m)^` + key + ` = .*$`)
		if n := len(line.FindAll(config, -1)); n != 1 {
			tb.Fatalf("deploy/pgbouncer.ini has %d lines for %s", n, key)
		}
		config = line.ReplaceAllLiteral(config, []byte(key+" = "+value))
	}
	p := run(tb, "pgbouncer", command(tb, "pgbouncer", map[string][]byte{
		"pgbouncer.ini": config,
		"userlist.txt":  fmt.Appendf(nil, "%q %q\n", u.User.Username(), secret),
	}, "pgbouncer.ini"))
	Until(tb, "pgbouncer to listen", waitLimit, func() bool {
		if p.ended() {
			tb.Fatalf("pgbouncer ended: %s\n%s", p.cmd.ProcessState, p.log)
		}
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	u.Host, u.Path, u.User = addr, "/atrium", url.UserPassword(u.User.Username(), secret)
	return u.String()
}
