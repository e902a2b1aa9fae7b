package store_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
)

const canary = "canary9c41"

// leaveTraces stores a person's data in everything that can hold it: payloads, claims, keys, rules of
// moves, prospects, stored results and audit details. Other data stays.
func leaveTraces(t *testing.T, s *store.Store, tenant atrium.TenantID) {
	t.Helper()
	email := canary + "@person.example"
	keyed := func(key string) atrium.Change {
		c := atrium.CommandLine(tenant)
		c.IdempotencyKey, c.Fingerprint = key, []byte("f")
		return c
	}
	for i := range 300 {
		claim, text := atrium.Claim{Domain: fmt.Sprintf("d%d.example", i%7)}, "other@person.example"
		if i%3 == 0 {
			claim, text = atrium.Claim{Name: canary + " Name"}, email
		}
		d, err := canonical.Draft(tenant, atrium.Submission{
			Source: "forms", Type: "sent", Claim: claim, IdempotencyKey: fmt.Sprintf("%s %d", text, i),
			Payload: []byte(fmt.Sprintf(`{"n":%d,"to":[{"address":%q}],"note":%q}`, i, text, strings.Repeat(text+" ", i))),
		})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		if o, err := s.Append(t.Context(), []*atrium.Draft{d}); err != nil || o[0].Err != nil {
			t.Fatal(o, err)
		}
	}
	to, _, err := s.CreateAccount(t.Context(), keyed("account"), "to.example", "")
	if err != nil {
		t.Fatal(err)
	}
	for i, given := range []string{`{"claimedName":"` + canary + ` Name"}`, `{"payload":{"pointer":"/to/0/address","equals":"` + email + `"}}`} {
		rule := atrium.MoveRule{ClaimedName: canary + " Name", Given: []byte(given)}
		if i == 1 {
			rule = atrium.MoveRule{Pointer: "/to/0/address", Equals: []byte(`"` + email + `"`), Given: []byte(given)}
		}
		report, _, err := s.Move(t.Context(), keyed(fmt.Sprint("move", i)), atrium.MoveRequest{To: to.ID, Rule: rule, Limit: 20})
		if err != nil || report.Moved != 20 {
			t.Fatal(report, err)
		}
		if i == 1 {
			if _, _, err := s.UndoMove(t.Context(), keyed("undo"), report.Move.ID, func(atrium.Move) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 3 {
		upper := strings.ToUpper(email)
		p, _, err := s.CreateProspect(t.Context(), keyed(fmt.Sprint("prospect", i)), atrium.Prospect{Name: new(canary), Email: &upper})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.UpdateProspect(t.Context(), atrium.CommandLine(tenant), p.ID, func(p *atrium.Prospect) { p.Name = new(canary + " Changed") },
			func(atrium.LinkedProspect) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := s.LinkProspect(t.Context(), atrium.CommandLine(tenant), to.ID, p.ID, func(atrium.LinkedProspect) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// erasePerson erases the person, and returns when that is complete.
func erasePerson(t *testing.T, s *store.Store, tenant atrium.TenantID) {
	t.Helper()
	email := canary + "@person.example"
	c := atrium.CommandLine(tenant)
	c.IdempotencyKey, c.Fingerprint = "erase", []byte("f")
	made, _, err := s.CreateErasure(t.Context(), c, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: email, ProspectEmail: email}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := s.RunErasures(t.Context()); err != nil {
			t.Fatal(err)
		}
		e, err := s.FindErasure(t.Context(), tenant, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if e.CompletedAt != nil {
			if e.Entries != 100 || e.Prospects != 3 {
				t.Errorf("erased %+v", e)
			}
			return
		}
	}
}

// exported returns an export as JSON.
func exported(t *testing.T, s *store.Store, tenant atrium.TenantID) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Export(t.Context(), tenant, func(r store.Record) error {
		line, err := json.Marshal(r)
		b.Write(line)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// wantTraces fails the test unless the texts have the canary, in any form, exactly if wanted.
func wantTraces(t *testing.T, want bool, texts map[string][]byte) {
	t.Helper()
	for where, text := range texts {
		text = bytes.ToLower(text)
		has := false
		for _, form := range []string{canary, hex.EncodeToString([]byte(canary)), strings.ToLower(base64.StdEncoding.EncodeToString([]byte(canary))[:12])} {
			has = has || bytes.Contains(text, []byte(form))
		}
		if has != want {
			t.Errorf("%s has the canary: %v, want %v", where, has, want)
		}
	}
}

// newFile returns the store of a new database file, and its path.
func newFile(t *testing.T) (string, *store.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return path, s
}

// newTenant creates the schema and a tenant.
func newTenant(t *testing.T, s *store.Store) atrium.TenantID {
	t.Helper()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	return tenant.ID
}

// readFile returns a database file and its WAL.
func readFile(t *testing.T, path string) (all []byte) {
	t.Helper()
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func TestAnErasedPersonIsNotInTheDatabaseFile(t *testing.T) {
	path, s := newFile(t)
	tenant := newTenant(t, s)
	leaveTraces(t, s, tenant)
	texts := func() map[string][]byte {
		var b bytes.Buffer
		if err := s.WriteBackup(t.Context(), &b, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		return map[string][]byte{"the export": exported(t, s, tenant), "the file": readFile(t, path), "a backup": b.Bytes()}
	}
	wantTraces(t, true, texts())
	erasePerson(t, s, tenant)
	wantTraces(t, false, texts())
}

func TestAnErasedPersonIsInNoRowOfTheServer(t *testing.T) {
	db := postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return db }).New(t)()
	s := store.New(db, time.Now)
	tenant := newTenant(t, s)
	leaveTraces(t, s, tenant)
	texts := func() map[string][]byte {
		all := map[string][]byte{"the export": exported(t, s, tenant)}
		names, err := db.Tables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := db.Query(t.Context(), fmt.Sprintf(`SELECT row_to_json(x)::text FROM %q x`, name), nil, func(r engine.Row) error {
				all["a table"] = append(all["a table"], r.Bytes(0)...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	wantTraces(t, true, texts())
	erasePerson(t, s, tenant)
	wantTraces(t, false, texts())
}

func TestAnExportOfAPersonDoesNotStoreItsRule(t *testing.T) {
	path, s := newFile(t)
	tenant := newTenant(t, s)
	c := atrium.CommandLine(tenant)
	request := atrium.ErasureRequest{Rule: atrium.ErasureRule{
		MoveRule: atrium.MoveRule{ClaimedName: canary, ClaimedDomain: canary + ".example", Pointer: "/" + canary, Equals: []byte(`"` + canary + `"`)},
		Text:     canary, ProspectEmail: canary,
	}}
	if err := s.BeginPersonExport(t.Context(), c, request); err != nil {
		t.Fatal(err)
	}
	done, err := s.ExportPerson(t.Context(), tenant, request, func(store.Record) error { return nil }, func() error { return nil })
	if err != nil || done != (atrium.PersonExport{}) {
		t.Fatal(done, err)
	}
	if err := s.CompletePersonExport(t.Context(), c, done); err != nil {
		t.Fatal(err)
	}
	file := readFile(t, path)
	if !bytes.Contains(file, []byte("person.export.complete")) {
		t.Error("the file does not have the audit record")
	}
	wantTraces(t, false, map[string][]byte{"the file": file})
}
