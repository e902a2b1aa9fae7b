package nodes_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/test/nodes"
)

func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }

// A service is three nodes on one database, with a tenant.
type service struct {
	database string // its URL
	nodes    []*nodes.Node
	tenant   atrium.TenantID
	key      string
	keyID    atrium.KeyID
}

func newService(t *testing.T, flags ...string) *service {
	t.Helper()
	return serviceAt(t, postgrestest.Shared(t).NewDatabase(t), flags...)
}

// serviceAt starts three nodes on an empty database.
func serviceAt(t *testing.T, database string, flags ...string) *service {
	t.Helper()
	s := &service{database: database, nodes: nodes.Start(t, 3, database, flags...)}
	st := openStore(t, database)
	made, _, err := st.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "nodes")
	if err != nil {
		t.Fatal(err)
	}
	s.tenant = made.ID
	s.key, s.keyID = apptest.Key(t, st, made.ID)
	return s
}

// openStore opens the store directly, until the test ends.
func openStore(t *testing.T, database string) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), database, store.Options{Unprepared: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// A line is a line of an export.
type line struct {
	Kind           string
	AccountLogID   string
	AccountID      string
	Domain         string
	IdempotencyKey string
	Payload        json.RawMessage
}

// export returns the output of atrium export for the tenant.
func (s *service) export(t *testing.T) (accounts, entries []line) {
	t.Helper()
	in := bufio.NewScanner(strings.NewReader(nodes.Must(t, "export", "--database", s.database, "--database-statements", "unprepared", "--tenant", string(s.tenant))))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", in.Text(), err)
		}
		switch l.Kind {
		case "account":
			accounts = append(accounts, l)
		case "accountLog":
			entries = append(entries, l)
		}
	}
	return accounts, entries
}

// An response is a response, or the error instead of one.
type response struct {
	status int
	header http.Header
	body   string
	err    error
}

func (a response) String() string { return fmt.Sprintf("%d %s%v", a.status, a.body, a.err) }

// send sends a request once.
func send(client *http.Client, method, url, key, body string, header ...string) (a response) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return response{err: err}
	}
	r.GetBody = nil // keeps net/http from retrying
	if key != "" {
		r.Header.Set("x-api-key", key)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return response{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return response{err: err}
	}
	return response{res.StatusCode, res.Header, string(b), nil}
}
