package crash

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A disk page is zeroed under a running server. Requests that read it get 500, and the log
// has the reason. Other reads succeed, writes are rejected, and the server is not ready.
// The next server does not start, and logs how to fix it.
func TestCorruptionUnderARunningServer(t *testing.T) {
	t.Parallel()
	db := newFile(t)
	path := strings.TrimPrefix(db.url, "sqlite:")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	root, err := sqlitex.ResultInt64(conn.Prep("SELECT rootpage FROM sqlite_schema WHERE name = 'pages_by_time'"))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s := start(t, db.url)
	clients, _ := newClients(t, random(t), 1, db.tenants)
	c := clients[0]
	c.base = s.base
	before := c.newPosting(db.tenants[0], false)
	if !c.post(before) || before.response == nil {
		t.Fatal("the server does not work before the damage")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(make([]byte, 4096), (root-1)*4096)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, "/v0/pages", "", http.StatusInternalServerError},
		{http.MethodGet, "/v0/accounts/" + string(before.receipt.AccountID), "", http.StatusOK},
		{http.MethodPost, "/v0/account_logs", string(before.body), http.StatusServiceUnavailable},
		{http.MethodGet, "/v0/pages", "", http.StatusInternalServerError},
		{http.MethodGet, "/healthz", "", http.StatusOK},
		{http.MethodGet, "/readyz", "", http.StatusInternalServerError},
	} {
		if a, ok := c.send(request.method, request.path, db.tenants[0].key, "", []byte(request.body)); !ok || a.status != request.status {
			t.Errorf("%s %s: %d %s, want %d", request.method, request.path, a.status, a.body, request.status)
		}
	}
	if !strings.Contains(s.log.String(), "malformed") {
		t.Error("the log does not say what is wrong")
	}
	s.signalAndWait()
	refuses(t, launch(t, db.url), path, "index pages_by_time", "restore a backup", ".recover")
}
