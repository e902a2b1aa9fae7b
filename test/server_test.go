// Package test holds black-box tests of the whole service: every test starts it as main
// does, on a new database, and talks to it over a network.
//
// The scripts in http/ and manage/ state the rules of the two APIs one by one;
// script_test.go describes their format. Tests with many concurrent requests, or with
// large bodies, are in Go.
package test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/recording"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/storetest"
	"atrium/internal/transfer"
	"atrium/test/nodes"
)

// engines are the engines that every test runs on. open returns a database without data for one
// test; form describes the statements of its batches.
var engines = []struct {
	name string
	form string
	open func(t *testing.T) engine.DB
}{
	{"sqlite", recording.Embedded, func(t *testing.T) engine.DB {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "atrium.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}},
	{"postgres", recording.Server, func(t *testing.T) engine.DB {
		db, err := postgres.Open(t.Context(), storetest.NewMigrated(t), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}},
}

func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }

// onEveryEngine runs a test against a running service on each engine.
func onEveryEngine(t *testing.T, test func(t *testing.T, s *service)) {
	t.Helper()
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, e.open(t)))
		})
	}
}

// A service is a running Atrium with two tenants, north and south, each with the fixtures
// of testdata.
type service struct {
	addr  string
	nodes []string     // addresses of the nodes behind the proxy at addr; nil without a proxy
	http2 *http.Client // sends every request, if not nil

	store *store.Store
	db    engine.DB

	withSecrets func(*app.Config) // lets another server use the same database; nil with several nodes

	north tenant
	south tenant
	// vars are the variables of scripts: keys, tenants, and every identifier of the
	// fixtures, named by its end without leading zeros.
	vars map[string]string
}

// siteOrigin is the only origin at which the keys for sites work in browsers.
const siteOrigin = "https://site.example"

type tenant struct {
	id     atrium.TenantID
	key    string // with all scopes of the external API
	manage string // with the scope manage
	site   string // with the scope content:read, for the origin of siteOrigin
}

// keyFor returns the key with all scopes for the API of a target.
func (tn tenant) keyFor(target string) string {
	switch {
	case isManaged(target):
		return tn.manage
	case isContent(target):
		return tn.site
	}
	return tn.key
}

// start serves an empty database in this process.
func start(t *testing.T, db engine.DB) *service {
	t.Helper()
	s := &service{db: db, store: store.New(db, time.Now), vars: map[string]string{}}
	t.Cleanup(func() { _ = s.store.Close() })
	s.withSecrets = withSecrets(t)
	s.addr = apptest.Start(t, s.store, s.withSecrets)
	s.fill(t)
	return s
}

// startTLS serves an empty database in this process, with TLS, and uses HTTP/2.
func startTLS(t *testing.T, db engine.DB) *service {
	t.Helper()
	pair := apptest.NewPair(t, time.Now().Add(time.Hour))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pair.Trust}, ForceAttemptHTTP2: true, DisableCompression: true}
	s := &service{db: db, store: store.New(db, time.Now), vars: map[string]string{}, http2: &http.Client{Transport: transport, Timeout: exchangeTimeout}}
	t.Cleanup(func() { _ = s.store.Close() })
	s.addr = apptest.Start(t, s.store, withSecrets(t), func(c *app.Config) { c.Settings.TLSCert, c.Settings.TLSKey = pair.Write(t, t.TempDir()) })
	t.Cleanup(transport.CloseIdleConnections)
	s.fill(t)
	return s
}

// secretKeys returns a file with a key that encrypts secrets.
func secretKeys(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if _, _, err := secrets.AddKey(file, false); err != nil {
		t.Fatal(err)
	}
	return file
}

// withSecrets lets a service store secrets.
func withSecrets(t *testing.T) func(*app.Config) {
	t.Helper()
	file := secretKeys(t)
	return func(c *app.Config) { c.Settings.SecretsKeyFile = file }
}

// fill creates the tenants and their keys.
func (s *service) fill(t *testing.T) {
	t.Helper()
	s.north, s.south = s.tenant(t, "north"), s.tenant(t, "south")
	s.badKeys(t)
	s.vars["operator"] = s.key(t, atrium.APIKey{Scopes: atrium.Scopes{atrium.ScopeManage}})
}

// tenant creates a tenant with fixtures, keys and variables.
func (s *service) tenant(t *testing.T, name string) tenant {
	t.Helper()
	made, _, err := s.store.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), t.Name()+" "+name)
	if err != nil {
		t.Fatal(err)
	}
	prefix := ""
	if name != "north" {
		prefix = name + "."
	}
	for _, scope := range atrium.ExternalScopes() {
		s.vars[prefix+"key."+string(scope)] = s.key(t, atrium.APIKey{TenantID: made.ID, Scopes: atrium.Scopes{scope}})
	}
	for _, scope := range atrium.ManageScopes() {
		name := strings.ReplaceAll(string(scope), ":", ".")
		s.vars[prefix+name] = s.key(t, atrium.APIKey{TenantID: made.ID, Scopes: atrium.Scopes{scope}})
	}
	tn := tenant{
		id: made.ID, manage: s.vars[prefix+string(atrium.ScopeManage)],
		key:  s.key(t, atrium.APIKey{TenantID: made.ID, Scopes: atrium.ExternalScopes()}),
		site: s.key(t, atrium.APIKey{TenantID: made.ID, Scopes: atrium.Scopes{atrium.ScopeContentRead}, Origins: []string{siteOrigin}}),
	}
	s.vars[prefix+"site"] = tn.site
	s.vars[prefix+"key"], s.vars[prefix+"tenant"] = tn.key, string(tn.id)
	s.vars[prefix+"key id"], s.vars[prefix+"manage id"] = keyID(tn.key), keyID(tn.manage)

	lines, err := os.ReadFile(filepath.Join("testdata", name+".ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	s.load(t, tn, string(lines))
	return tn
}

// load imports lines and sets a variable for every identifier in them.
func (s *service) load(t *testing.T, tn tenant, lines string) {
	t.Helper()
	if _, err := transfer.Import(t.Context(), s.store, tn.id, strings.NewReader(lines), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range fixtureID.FindAllString(lines, -1) {
		s.vars[strings.TrimLeft(id[strings.IndexByte(id, '_')+1:], "0")] = id
	}
}

// keyID returns the identifier of a key.
func keyID(key string) string {
	return atrium.KeyID("").Prefix() + key[len("atr_"):][:atrium.SuffixLen]
}

func (s *service) key(t *testing.T, k atrium.APIKey) string {
	t.Helper()
	id, text, hash := auth.NewKey()
	k.ID, k.Name = id, "test"
	if _, _, err := s.store.CreateKey(t.Context(), atrium.CommandLine(cmp.Or(k.TenantID, atrium.OperatorChain)), k, hash); err != nil {
		t.Fatal(err)
	}
	return text
}

// badKeys sets a variable for each kind of invalid key.
func (s *service) badKeys(t *testing.T) {
	t.Helper()
	past := atrium.At(time.Now().Add(-time.Hour))
	own := atrium.APIKey{TenantID: s.north.id, Scopes: atrium.ExternalScopes()}
	expired := own
	expired.ExpiresAt = &past
	s.vars["key.expired"] = s.key(t, expired)

	revoked := s.key(t, own)
	id, _, _ := auth.ParseKey(revoked)
	if _, err := s.store.RevokeKey(t.Context(), atrium.CommandLine(s.north.id), id, func(atrium.APIKey) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.vars["key.revoked"] = revoked

	_, unknown, _ := auth.NewKey()
	s.vars["key.unknown"] = unknown
	last := byte('0')
	if strings.HasSuffix(s.north.key, "0") {
		last = '1'
	}
	s.vars["key.mistyped"] = s.north.key[:len(s.north.key)-1] + string(last)
	s.vars["key.cut"] = s.north.key[:len(s.north.key)-1]
	s.vars["key.upper"] = strings.ToUpper(s.north.key)
	s.vars["nobody"] = strings.Repeat("0", 22) + "nope"
	s.vars["key.no-scope"] = s.key(t, atrium.APIKey{TenantID: s.north.id})
}

// export returns the lines of a tenant's export.
func (s *service) export(t *testing.T, tn tenant) []string {
	t.Helper()
	var b bytes.Buffer
	if _, err := transfer.Export(context.WithoutCancel(t.Context()), s.store, tn.id, &b); err != nil {
		t.Fatalf("export: %v", err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// count returns how many lines of the export contain all texts.
func (s *service) count(t *testing.T, tn tenant, texts ...string) (n int) {
	t.Helper()
lines:
	for _, line := range s.export(t, tn) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		n++
	}
	return n
}

// deletePage sets deletedAt of north's only page with the name.
func (s *service) deletePage(t *testing.T, name string) {
	t.Helper()
	err := s.db.Write(t.Context(), func(tx engine.Tx) error {
		n, err := tx.Exec("UPDATE pages SET deleted_at = $1 WHERE name = $2 AND tenant_id IN (SELECT tenant_id FROM tenants WHERE name = $3)",
			int64(atrium.At(time.Now())), name, t.Name()+" north")
		if err == nil && n != 1 {
			return fmt.Errorf("%d pages have the name %q", n, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
