package storetest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var matched = []guarantee{
	{concurrent + "imports of a tenant match prospects with the same secret", matchBySameSecret},
	{"the identifier of a matched prospect is an HMAC under a secret of its tenant", matchBySecret},
	{"a prospect is matched by its address in any case, or by all its values except links", matchByValues},
	{"a trial matches prospects as an import does, and stores no secret", matchInTrial},
	{"an import by a tenant that does not exist stores no secret", noMatchWithoutTenant},
}

// deriveID returns the identifier that an import derives for a prospect.
func (e *env) deriveID(t tb, by store.MatchBy, p atrium.Prospect) atrium.ProspectID {
	t.Helper()
	r, err := e.Matcher(t.Context(), atrium.CommandLine(e.tenant))
	if err != nil {
		t.Fatalf("match prospects: %v", err)
	}
	return deriveWith(r, by, p)
}

func deriveWith(r *store.Matcher, by store.MatchBy, p atrium.Prospect) atrium.ProspectID {
	record := &atrium.LinkedProspect{Prospect: p}
	r.SetID(store.Import{Record: record, MatchBy: by})
	return record.ID
}

// prospectSecrets returns the stored secrets of the tenant.
func (e *env) prospectSecrets(t tb) (all []string) {
	t.Helper()
	if err := e.db.Query(t.Context(), "SELECT secret FROM prospect_secrets WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
		all = append(all, string(r.Bytes(0)))
		return nil
	}); err != nil {
		t.Fatalf("read secrets: %v", err)
	}
	return all
}

func matchBySameSecret(t *testing.T, e *env) {
	p := atrium.Prospect{Email: pointer("a@b.example")}
	ids := make([]atrium.ProspectID, 8)
	other := e.node()
	parallel(t, len(ids), func(i int) {
		r, err := []*env{e, other}[i%2].Matcher(t.Context(), atrium.CommandLine(e.tenant))
		if err != nil {
			t.Error(err)
			return
		}
		ids[i] = deriveWith(r, store.ByEmail, p)
	})
	if ids = append(ids, e.deriveID(t, store.ByEmail, p)); len(slices.Compact(ids)) != 1 {
		t.Errorf("one prospect has the identifiers %v", ids)
	}
	if n := len(e.prospectSecrets(t)); n != 1 {
		t.Errorf("there are %d secrets", n)
	}
}

func matchBySecret(t *testing.T, e *env) {
	p := atrium.Prospect{Email: pointer("A@b.example")}
	id, theirs := e.deriveID(t, store.ByEmail, p), e.as(e.newTenant(t)).deriveID(t, store.ByEmail, p)
	secret := e.prospectSecrets(t)[0]
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte("email a@b.example"))
	if want := atrium.DerivedID[atrium.ProspectID](h.Sum(nil)); id != want || id == theirs || len(secret) != 32 {
		t.Errorf("the identifier is %s, want %s; that of another tenant is %s", id, want, theirs)
	}
	// Neither an export nor the audit log has the secret.
	record := &atrium.LinkedProspect{Prospect: p}
	record.ID = id
	e.put(t, record)
	if _, err := e.DeleteProspect(t.Context(), e.change(), id, accept); err != nil {
		t.Fatal(err)
	}
	rows := e.auditRows(t, atrium.AuditFilter{}, 10)
	if len(rows) != 2 { // the import and the deletion: storing the secret has none
		t.Errorf("the audit records are %+v", rows)
	}
	for _, row := range rows {
		if strings.Contains(string(row.Detail), hex.EncodeToString([]byte(secret))) {
			t.Errorf("an audit record has the secret: %s", row.Detail)
		}
	}
}

func matchByValues(t *testing.T, e *env) {
	text := pointer[string]
	same := func(by, otherBy store.MatchBy, p, other atrium.Prospect) bool {
		return e.deriveID(t, by, p) == e.deriveID(t, otherBy, other)
	}
	all := atrium.Prospect{Name: text("A"), Email: text("a@b.example"), Domain: text("d.example"), Slug: text("s"), PhoneNumber: text("1"), LinkedinProfileURL: text("l")}
	if !same(store.ByEmail, store.ByEmail, all, atrium.Prospect{Email: text("A@B.example")}) {
		t.Error("the same address is not matched")
	}
	if !same(store.ByValues, store.ByValues, all, all) || !same(store.ByValues, store.ByValues, atrium.Prospect{Slug: text("s")}, atrium.Prospect{Name: text(""), Slug: text("s")}) {
		t.Error("the same values are not matched")
	}
	if same(store.ByEmail, store.ByValues, atrium.Prospect{Email: text("a@b.example")}, atrium.Prospect{Email: text("a@b.example")}) {
		t.Error("an address is matched as a value")
	}
	for i, change := range []func(*atrium.Prospect){
		func(p *atrium.Prospect) { p.Name = text("x") }, func(p *atrium.Prospect) { p.Email = nil }, func(p *atrium.Prospect) { p.Domain = nil },
		func(p *atrium.Prospect) { p.Slug = text("s1") }, func(p *atrium.Prospect) { p.PhoneNumber = text("2") }, func(p *atrium.Prospect) { p.LinkedinProfileURL = text("") },
		func(p *atrium.Prospect) { p.Name, p.Email = p.Email, p.Name }, func(p *atrium.Prospect) { p.Slug, p.PhoneNumber = text("s1"), nil },
	} {
		other := all
		if change(&other); same(store.ByValues, store.ByValues, all, other) {
			t.Errorf("other values are matched as the same: change %d", i)
		}
	}
}

func matchInTrial(t *testing.T, e *env) {
	p := atrium.Prospect{Email: pointer("a@b.example")}
	trial, err := e.NewTrial(t.Context(), e.tenant, always)
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Close()
	inTrial := func() atrium.ProspectID {
		t.Helper()
		r, err := trial.Matcher(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return deriveWith(r, store.ByEmail, p)
	}
	inTrial()
	if n := len(e.prospectSecrets(t)); n != 0 {
		t.Errorf("a trial has stored %d secrets", n)
	}
	if id := e.deriveID(t, store.ByEmail, p); inTrial() != id {
		t.Error("a trial derives another identifier")
	}
}

func noMatchWithoutTenant(t *testing.T, e *env) {
	nobody := e.as(atrium.NewID[atrium.TenantID]())
	_, err := nobody.Matcher(t.Context(), atrium.CommandLine(nobody.tenant))
	wantCode(t, err, atrium.CodeNotFound)
	if n := len(nobody.prospectSecrets(t)); n != 0 {
		t.Errorf("there are %d secrets", n)
	}
}
