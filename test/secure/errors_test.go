package secure

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"atrium/test/nodes"
)

// An error about an invalid, unreachable or refusing database URL must not contain its
// password, for any command and any source of the URL.
func TestDatabaseErrorsOmitThePassword(t *testing.T) {
	password := canaries["password"]
	var urls []string
	for _, form := range []string{
		"postgres://me:%s@127.0.0.1:1/x", "postgres://me:%s@nowhere.invalid/x", "postgres://me:%s%%@127.0.0.1:1/x", "postgres://me:%s@127.0.0.1:port/x",
		"postgres://me:%s/@127.0.0.1:1/x", "postgres://me:a@%s@127.0.0.1:1/x", "postgres://127.0.0.1:1/x?user=me&password=%s", "postgres://me:%s@127.0.0.1:1/x?sslmode=bogus",
		"postgres://me:%s@127.0.0.1:1,127.0.0.1:2/x", "postgres://me:%s@127.0.0.1:1/x?sslcert=none.pem&sslkey=none.pem", "postgres://me:%s@127.0.0.1:1/x\x7f",
		"mysql://me:%s@127.0.0.1:1/x", "host=127.0.0.1 port=1 user=me password=%s", "postgres://me:%s@" + refusing(t) + "/x?sslmode=disable",
	} {
		urls = append(urls, fmt.Sprintf(form, password))
	}
	file := filepath.Join(t.TempDir(), "atrium.db")
	if err := os.WriteFile(file, bytes.Repeat([]byte(canaries["payload"]), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	urls = append(urls, "sqlite:"+file)
	for i, u := range urls {
		for n, args := range [][]string{
			{"serve", "--addr", "127.0.0.1:0", "--database-timeout", "1s"}, {"doctor", "--database-timeout", "1s"}, {"config"},
			{"migrate"}, {"backup", file + ".backup"}, {"restore", file, "--no-manifest"},
		} {
			if n > 2 && i%3 > 0 && i != len(urls)-1 { // takes the same path
				continue
			}
			t.Setenv("ATRIUM_DATABASE", u)
			stdout, stderr, code := nodes.Command(t, args...)
			search(t, fmt.Sprintf("atrium %s on %q", args[0], strings.ReplaceAll(u, password, "…")), stdout+stderr)
			if args[0] != "config" && code == 0 {
				t.Errorf("atrium %s ended well on %q", args[0], u)
			}
		}
	}
}

// The OpenTelemetry SDK, which gets the credentials, has its own log.
func TestCollectorErrorsOmitCredentials(t *testing.T) {
	const of, secret = "OTEL_EXPORTER_OTLP_", "PASSWORD"
	for _, c := range []struct {
		variable, value string
		code            int // exit code
	}{
		{"HEADERS", "authorization: Bearer PASSWORD", 2},
		{"HEADERS", "a=b,PASSWORD", 2},
		{"HEADERS", "authorization=Bearer PASSWORD%zz", 2},
		{"TRACES_HEADERS", "authorization PASSWORD=x", 2},
		{"METRICS_HEADERS", "authorization: Bearer PASSWORD", 2},
		{"ENDPOINT", "http://me:PASSWORD%zz@127.0.0.1:1", 2},
		{"ENDPOINT", "me:PASSWORD@127.0.0.1:1", 2},
		{"ENDPOINT", "ftp://me:PASSWORD@127.0.0.1:1", 2},
		{"TRACES_ENDPOINT", "http://me:PASSWORD@127.0.0.1:port", 2},
		{"METRICS_ENDPOINT", "PASSWORD", 2},
		{"CERTIFICATE", "/PASSWORD", 1}, // the SDK logs it and continues
		{"TIMEOUT", "PASSWORD", 1},
		{"HEADERS", "authorization=Bearer%20PASSWORD,a = b", 1}, // valid
		{"ENDPOINT", "http://me:PASSWORD@127.0.0.1:1", 1},
	} {
		t.Run(c.variable, func(t *testing.T) {
			t.Setenv(of+"ENDPOINT", "http://127.0.0.1:1")
			value := strings.ReplaceAll(c.value, secret, canaries["password"])
			t.Setenv(of+c.variable, value)
			_, stderr, code := nodes.Command(t, "serve", "--addr", "127.0.0.1:0", "--database", "sqlite:"+t.TempDir()) // a directory is not a database
			search(t, "with "+c.value+", the log", stderr)
			if code != c.code || code == 2 && !strings.Contains(stderr, of+c.variable+" must be ") {
				t.Errorf("with %s: exit code %d: %s", c.value, code, stderr)
			}
			for line := range strings.Lines(stderr) {
				if code == 1 && !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "time=") && !strings.HasPrefix(line, "atrium") {
					t.Errorf("with %s, not a log line: %s", c.value, line)
				}
			}
		})
	}
}

// refusing returns the address of a PostgreSQL server that requests a password and rejects
// any.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	refusal := "SFATAL\x00C28P01\x00Mpassword authentication failed for user \"me\"\x00\x00"
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				b := make([]byte, 1024)
				_, _ = conn.Read(b)
				_, _ = conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x03")) // AuthenticationCleartextPassword
				n, _ := conn.Read(b)
				if !slices.Contains(strings.Split(string(b[:n]), "\x00"), canaries["password"]) && !bytes.Contains(b[:n], []byte(canaries["password"])) {
					t.Error("the password was not sent")
				}
				_, _ = conn.Write(append([]byte{'E', 0, 0, 0, byte(4 + len(refusal))}, refusal...))
			}()
		}
	}()
	return l.Addr().String()
}
