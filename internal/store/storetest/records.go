package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// Helpers that make, import and compare records.

// item returns an import of a record with all its members given.
func item(r store.Record) store.Import {
	given := describe(r)
	i := store.Import{Record: r, Created: true, Updated: true, Differs: func(stored store.Record) string {
		if describe(stored) != given {
			return "anything"
		}
		return ""
	}}
	if e, ok := r.(*atrium.Entry); ok {
		var err error
		if i.Fingerprint, err = canonical.Fingerprint(e.Submission); err != nil {
			panic(err) //nolint:forbidigo // the payload of a test is JSON
		}
	}
	return i
}

func items(records ...store.Record) []store.Import {
	all := make([]store.Import, len(records))
	for i, r := range records {
		all[i] = item(r)
	}
	return all
}

// put imports records, all of which must be new.
func (e *env) put(t tb, records ...store.Record) {
	t.Helper()
	added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(records...))
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	if added.Added != len(records) {
		t.Fatalf("import: %d of %d records were new", added, len(records))
	}
}

// describe returns everything that a record contains as text, for comparisons.
func describe(r store.Record) string {
	switch original := r.(type) {
	case *atrium.Account:
		a := *original
		a.TenantID, a.LatestActivityAt = "", nil
		r = a
	case *atrium.LinkedProspect:
		p := *original
		p.TenantID, p.AccountIDs = "", append([]atrium.AccountID(nil), p.AccountIDs...) // nil if empty
		slices.Sort(p.AccountIDs)
		r = p
	case *atrium.Brand:
		b := *original
		b.TenantID = ""
		r = b
	case *atrium.Page:
		p := *original
		p.TenantID, p.AudiencesCount = "", 0
		r = p
	case *atrium.ScheduledPage:
		p := *original
		p.TenantID, p.AudiencesCount = "", 0
		r = p
	case *atrium.Audience:
		u := *original
		u.TenantID, u.VersionsCount, u.PublishedNumber = "", 0, 0
		r = u
	case *atrium.AudienceVersion:
		v := *original
		v.TenantID = ""
		r = v
	case *atrium.Tombstone:
		t := *original
		t.TenantID, t.Secret, t.KeyHMAC, t.RequestHMAC = "", nil, nil, nil // random
		r = t
	case *atrium.Entry:
		e := *original
		e.TenantID = ""
		r = e
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error() // differs from all others
	}
	return fmt.Sprintf("%T %s", r, b)
}

func describeAll(records []store.Record) []string {
	all := make([]string, len(records))
	for i, r := range records {
		all[i] = describe(r)
	}
	return all
}

// wantRecords fails the test unless the tenant has exactly these records, in any order.
func (e *env) wantRecords(t *testing.T, want ...store.Record) {
	t.Helper()
	got, wanted := describeAll(e.records(t)), describeAll(want)
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("the tenant has\n%q\nwant\n%q", got, wanted)
	}
}

// Functions that make records with the current time.

func (e *env) newAccount(domain, name string) *atrium.Account {
	at := e.clock.instant()
	return &atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: domain, Name: name, CreatedAt: at, UpdatedAt: at}
}

func (e *env) newProspect(accounts ...*atrium.Account) *atrium.LinkedProspect {
	at := e.clock.instant()
	p := &atrium.LinkedProspect{Prospect: atrium.Prospect{ID: atrium.NewID[atrium.ProspectID](), CreatedAt: at, UpdatedAt: at}}
	for _, a := range accounts {
		p.AccountIDs = append(p.AccountIDs, a.ID)
	}
	slices.Sort(p.AccountIDs)
	p.AccountIDs = slices.Compact(p.AccountIDs)
	return p
}

func (e *env) newPage(status atrium.PageStatus) *atrium.Page {
	at := e.clock.instant()
	return &atrium.Page{
		ID: atrium.NewID[atrium.PageID](), BrandID: "brand", Name: "Name", Context: "Context", Title: "Title", Status: status,
		Actions: []byte("[]"), Scripts: []byte("[]"), FooterLinks: []byte("[]"), CreatedAt: at, UpdatedAt: at,
	}
}

func (e *env) newAudience(page *atrium.Page, archived bool) *atrium.Audience {
	at := e.clock.instant()
	return &atrium.Audience{
		ID: atrium.NewID[atrium.AudienceID](), PageID: page.ID, Name: "Audience", Archived: archived, CreatedAt: at, UpdatedAt: at,
	}
}

// newVersion makes a version. Number 0 means the next number.
func (e *env) newVersion(audience *atrium.Audience, number int64) *atrium.AudienceVersion {
	return &atrium.AudienceVersion{PageID: audience.PageID, Version: atrium.Version{
		ID: atrium.NewID[atrium.VersionID](), AudienceID: audience.ID, Number: number, Content: []byte(`{}`), CreatedAt: e.clock.instant(),
	}}
}

func (e *env) newEntry(account *atrium.Account, key string) *atrium.Entry {
	return &atrium.Entry{
		ID: atrium.NewID[atrium.EntryID](), AccountID: account.ID, CreatedAt: e.clock.instant(),
		Submission: atrium.Submission{Source: "crm", Type: atrium.DefaultType, Payload: []byte(`{}`), IdempotencyKey: key},
	}
}

// published marks a version as the published one of its audience.
func published(v *atrium.AudienceVersion) *atrium.AudienceVersion {
	v.Published = true
	return v
}

// oneOfEach makes a record of every kind, each after the records that it refers to.
func (e *env) oneOfEach() []store.Record {
	a := e.newAccount("acme.example", "Acme")
	p := e.newPage(atrium.PagePublished)
	u := e.newAudience(p, false)
	return []store.Record{a, e.newProspect(a), p, u, e.newVersion(u, 1), e.newEntry(a, "k")}
}
