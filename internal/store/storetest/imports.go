package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

var imports = []guarantee{
	{"a chunk is imported completely or not at all", chunkAllOrNothing},
	{"a stored record is skipped if it is equal and refused if it differs", importedAgain},
	{"a record repeated in a chunk is stored once", importedTwiceInChunk},
	{"a record that refers to a missing record is refused", importedReferences},
	{"a record whose unique member is taken is refused", importedUniques},
	{"missing identifiers and instants are generated", importedWithout},
	{"imported entries raise the latest activity and change nothing else of an account", importedActivity},
	{"an imported idempotency key is bound like an appended one", importedKeyIsBound},
	{"a version whose audience is of another page is refused", importedVersionOfOtherPage},
	{"a prospect is linked to the account of a domain, the oldest one with either form, and refused without one", importedByDomain},
}

// wantRefused fails the test unless err refuses the record with the index because of the member.
func wantRefused(t tb, err error, index int, member string) {
	t.Helper()
	refused, ok := errors.AsType[*store.ImportError](err)
	if !ok || refused.Index != index || refused.Member != member || refused.Detail == "" {
		t.Errorf("error %#v, want record %d refused for %s", err, index, member)
	}
}

func chunkAllOrNothing(t *testing.T, e *env) {
	records := e.oneOfEach()
	bad := e.newEntry(&atrium.Account{ID: atrium.NewID[atrium.AccountID]()}, "")
	for i := range records {
		chunk := items(slices.Insert(slices.Clone(records), len(records)-i, store.Record(bad))...)
		added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), chunk)
		wantRefused(t, err, len(records)-i, "accountId")
		if added.Added != 0 {
			t.Errorf("%d records were added", added)
		}
		e.wantRecords(t)
	}
	e.put(t, records...)
	e.wantRecords(t, records...)
	if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), nil); err != nil || added.Added != 0 {
		t.Errorf("an empty chunk: %d, %v", added, err)
	}
}

func importedAgain(t *testing.T, e *env) {
	records := e.oneOfEach()
	e.put(t, records...)
	before := describeAll(e.records(t))
	e.clock.step(time.Hour)
	if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(records...)); err != nil || added.Added != 0 {
		t.Errorf("imported again: %d, %v", added, err)
	}
	one := e.newAccount("new.example", "")
	if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(append(records, one)...)); err != nil || added.Added != 1 {
		t.Errorf("imported again with one more: %d, %v", added, err)
	}
	for i, r := range records {
		var stored store.Record
		other := item(r)
		other.Differs = func(r store.Record) string { stored = r; return "member" }
		_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), append(items(e.newAccount("lost.example", "")), other))
		wantRefused(t, err, 1, "member")
		if stored == nil || describe(stored) != describe(records[i]) {
			t.Errorf("compared with %+v, want the stored %s", stored, describe(records[i]))
		}
	}
	got := e.records(t)
	after := describeAll(slices.DeleteFunc(got, func(r store.Record) bool { a, ok := r.(*atrium.Account); return ok && a.ID == one.ID }))
	if !slices.Equal(after, before) {
		t.Errorf("the tenant has %q, want %q", after, before)
	}
}

func importedTwiceInChunk(t *testing.T, e *env) {
	records := e.oneOfEach()
	for _, r := range records {
		if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(r, r, r)); err != nil || added.Added != 1 {
			t.Errorf("%T three times: %d, %v", r, added, err)
		}
	}
	e.wantRecords(t, records...)
	a, b := e.newAccount("a.example", "A"), e.newAccount("b.example", "B")
	b.ID = a.ID
	_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(a, b))
	wantRefused(t, err, 1, "anything")
	e.wantRecords(t, records...)
}

func importedReferences(t *testing.T, e *env) {
	a, p := e.newAccount("acme.example", ""), e.newPage(atrium.PageDraft)
	u := e.newAudience(p, false)
	for _, c := range []struct {
		member string
		chunk  []store.Record
		bad    int
	}{
		{"accountIds", []store.Record{e.newProspect(a)}, 0},
		{"accountIds", []store.Record{a, e.newProspect(a), e.newProspect(e.newAccount("b.example", ""))}, 2},
		{"accountIds", []store.Record{e.newProspect(a), a}, 0}, // the account comes later
		{"pageId", []store.Record{u}, 0},
		{"pageId", []store.Record{u, p}, 0},
		{"audienceId", []store.Record{p, e.newVersion(u, 1)}, 1},
		{"audienceId", []store.Record{p, e.newVersion(u, 1), u}, 1},
		{"accountId", []store.Record{a, e.newEntry(a, ""), e.newEntry(e.newAccount("b.example", ""), "")}, 2},
	} {
		_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(c.chunk...))
		wantRefused(t, err, c.bad, c.member)
	}
	e.wantRecords(t)
}

func importedUniques(t *testing.T, e *env) {
	records := e.oneOfEach()
	e.put(t, records...)
	a, u := records[0].(*atrium.Account), records[3].(*atrium.Audience)
	for member, r := range map[string]store.Record{
		"domain": e.newAccount("acme.example", ""), "versionNumber": e.newVersion(u, 1), "idempotencyKey": e.newEntry(a, "k"),
	} {
		_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(e.newAccount("other.example", ""), r))
		wantRefused(t, err, 1, member)
	}
	for member, pair := range map[string][2]store.Record{
		"domain":         {e.newAccount("b.example", ""), e.newAccount("b.example", "B")},
		"versionNumber":  {e.newVersion(u, 2), e.newVersion(u, 2)},
		"idempotencyKey": {e.newEntry(a, "k2"), e.newEntry(a, "k2")},
		"published":      {published(e.newVersion(u, 3)), published(e.newVersion(u, 4))},
	} {
		_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(pair[0], pair[1]))
		wantRefused(t, err, 1, member)
	}
	e.wantRecords(t, records...)
}

func importedWithout(t *testing.T, e *env) {
	past, future := e.clock.instant()-5000, e.clock.instant()+5000
	for _, c := range []struct {
		created, updated         bool
		at                       atrium.Time
		wantCreated, wantUpdated atrium.Time
	}{
		{false, false, 0, e.clock.instant(), e.clock.instant()},
		{true, false, past, past, past},
		{true, false, future, future, future},
		{false, true, past, past, past}, // createdAt is no later than updatedAt
		{false, true, future, e.clock.instant(), future},
	} {
		e := e.as(e.newTenant(t))
		records := e.oneOfEach()
		a, p := records[0].(*atrium.Account), records[1].(*atrium.LinkedProspect)
		page, u := records[2].(*atrium.Page), records[3].(*atrium.Audience)
		v, entry := records[4].(*atrium.AudienceVersion), records[5].(*atrium.Entry)
		p.ID, v.ID, entry.ID = "", "", ""
		for _, at := range []*atrium.Time{
			&a.CreatedAt, &a.UpdatedAt, &p.CreatedAt, &p.UpdatedAt, &page.CreatedAt, &page.UpdatedAt, &u.CreatedAt, &u.UpdatedAt, &v.CreatedAt, &entry.CreatedAt,
		} {
			*at = c.at
		}
		chunk := items(records...)
		for i := range chunk {
			chunk[i].Created, chunk[i].Updated = c.created, c.updated
		}
		if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), chunk); err != nil || added.Added != len(chunk) {
			t.Fatalf("import: %d, %v", added, err)
		}
		got := e.records(t)
		if got[1].(*atrium.LinkedProspect).ID == "" || got[4].(*atrium.AudienceVersion).ID == "" || got[5].(*atrium.Entry).ID == "" {
			t.Errorf("not every record has an identifier: %q", describeAll(got))
		}
		account, prospect := got[0].(*atrium.Account), got[1].(*atrium.LinkedProspect)
		gotPage, audience := got[2].(*atrium.Page), got[3].(*atrium.Audience)
		for what, at := range map[string][2]atrium.Time{
			"account": {account.CreatedAt, account.UpdatedAt}, "prospect": {prospect.CreatedAt, prospect.UpdatedAt},
			"page": {gotPage.CreatedAt, gotPage.UpdatedAt}, "audience": {audience.CreatedAt, audience.UpdatedAt},
		} {
			if at != [2]atrium.Time{c.wantCreated, c.wantUpdated} {
				t.Errorf("%+v: the %s was made at %s and updated at %s", c, what, at[0], at[1])
			}
		}
	}
	made := e.newAccount("made.example", "")
	made.ID = ""
	e.put(t, made)
	if all := e.accounts(t); len(all) != 1 || all[0].ID == "" {
		t.Errorf("accounts %+v, want one with an identifier", all)
	}
}

func importedActivity(t *testing.T, e *env) {
	a, b := e.newAccount("a.example", ""), e.newAccount("b.example", "")
	now := e.clock.instant()
	first, second, third := e.newEntry(a, ""), e.newEntry(a, ""), e.newEntry(a, "")
	first.CreatedAt, second.CreatedAt, third.CreatedAt = now-3000, now-1000, now-2000
	first.Claim.Name = "Claimed"
	e.put(t, a, b)
	e.clock.step(time.Hour)
	wantActive := func(want atrium.Time) {
		t.Helper()
		got := e.account(t, a.ID)
		if got.LatestActivityAt == nil || *got.LatestActivityAt != want || got.UpdatedAt != now || got.CreatedAt != now || got.Name != "" {
			t.Errorf("account %+v, active %s, want %s and no other change", got, got.LatestActivityAt, want)
		}
	}
	e.put(t, first)
	wantActive(now - 3000)
	e.put(t, second, third)
	wantActive(now - 1000)
	old := e.newEntry(a, "")
	old.CreatedAt = now - 9000
	e.put(t, old)
	wantActive(now - 1000)
	future := e.newEntry(a, "")
	future.CreatedAt = now + 9_000_000_000
	e.put(t, future)
	e.record(t, byID(a.ID))
	wantActive(now + 9_000_000_000)
	if got := e.account(t, b.ID); got.LatestActivityAt != nil {
		t.Errorf("an account without entries is active at %s", got.LatestActivityAt)
	}
}

func importedKeyIsBound(t *testing.T, e *env) {
	a := e.newAccount("acme.example", "")
	var records []store.Record
	var drafts []*atrium.Draft
	for i, claim := range []atrium.Claim{{}, {Domain: " Acme.example"}, {AccountID: a.ID, Name: "Acme"}} {
		d := e.draft(t, claim, key(fmt.Sprint(i, "\U0001f600", "of more than thirty-two bytes in all")), payload(`{ "n" : 1.0 }`))
		entry := e.newEntry(a, "")
		entry.Submission = d.Submission
		entry.Payload = []byte(`{"n":1.0}`)
		drafts, records = append(drafts, d), append(records, entry)
	}
	e.put(t, append([]store.Record{a}, records...)...)
	e.clock.step(time.Hour)
	for i, o := range receipts(t, e.append(t, drafts...)) {
		entry := records[i].(*atrium.Entry)
		wantReplay(t, o, atrium.Receipt{
			EntryID: entry.ID, AccountID: a.ID, CreatedAt: entry.CreatedAt, Source: entry.Source, Type: entry.Type,
		})
	}
	other := e.draft(t, atrium.Claim{}, key(drafts[0].IdempotencyKey), payload(`{"n":2}`))
	wantCode(t, e.append(t, other)[0].Err, atrium.CodeIdempotencyKeyReused)
	if n := len(e.entries(t)); n != len(records) {
		t.Errorf("there are %d entries, want %d", n, len(records))
	}
}

func importedVersionOfOtherPage(t *testing.T, e *env) {
	u, other := e.audience(t), e.audience(t)
	v := e.newVersion(u, 0)
	v.PageID = other.PageID
	_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(v))
	wantRefused(t, err, 0, "pageId")
	v.PageID = "" // optional
	e.put(t, v)
	e.wantNumbers(t, u, 1)
}

func importedByDomain(t *testing.T, e *env) {
	put := func(chunk ...store.Import) (store.Imported, error) {
		return e.Import(t.Context(), atrium.CommandLine(e.tenant), chunk)
	}
	linked := func(domain string, accounts ...*atrium.Account) store.Import {
		i := item(e.newProspect(accounts...))
		i.AccountDomain, i.LegacyAccountDomain = canonical.DomainForms(domain)
		i.Differs = func(stored store.Record) string {
			if have, want := describe(stored), describe(i.Record); have != want {
				return "changed"
			}
			return ""
		}
		return i
	}
	// wantLinks checks the links of the prospect of an item.
	wantLinks := func(i store.Import, accounts ...*atrium.Account) {
		t.Helper()
		id := i.Record.(*atrium.LinkedProspect).ID
		p, err := e.Prospect(t.Context(), e.tenant, id)
		want := make([]atrium.AccountID, len(accounts))
		for i, a := range accounts {
			want[i] = a.ID
		}
		slices.Sort(want)
		if slices.Sort(p.AccountIDs); err != nil || !slices.Equal(p.AccountIDs, want) {
			t.Errorf("%s is linked to %v, %v, want %v", id, p.AccountIDs, err, want)
		}
	}
	old := e.importAccount(t, legacyURL, "") // of an earlier version
	current := e.importAccount(t, hostOfForms, "")
	other := e.newAccount("b.example", "")
	_, err := put(item(other), linked("c.example"))
	wantRefused(t, err, 1, "accountDomain")
	byLegacy, byOther, both, twice := linked(legacyURL), linked("B.example."), linked("b.example", old), linked("b.example", other)
	// The account of a domain may come before in the same chunk.
	if added, err := put(item(other), byLegacy, byOther, both, twice, item(e.newProspect())); err != nil || added != (store.Imported{Added: 6, Linked: 4, Unlinked: 1}) {
		t.Fatalf("%+v were added: %v", added, err)
	}
	wantLinks(byLegacy, old)
	wantLinks(byOther, other)
	wantLinks(both, old, other)
	wantLinks(twice, other)
	if added, err := put(byLegacy, byOther, both, twice); err != nil || added.Added != 0 {
		t.Errorf("again, %d records were added: %v", added, err)
	}
	if err := e.unlinkErr(t, other.ID, byOther.Record.(*atrium.LinkedProspect).ID); err != nil {
		t.Fatal(err)
	}
	_, err = put(byLegacy, byOther)
	wantRefused(t, err, 1, "accountDomain")
	// The links of a merged account are also those of the account that it was merged into.
	e.merge(t, old.ID, current.ID)
	merged := linked(legacyURL)
	if added, err := put(merged, byLegacy); err != nil || added.Added != 1 {
		t.Fatalf("%+v were added: %v", added, err)
	}
	wantLinks(merged, current)
	full := linked("b.example")
	for range atrium.MaxLinks {
		a := e.newAccount(string(atrium.NewID[atrium.AccountID]()), "")
		e.put(t, a)
		p := full.Record.(*atrium.LinkedProspect)
		p.AccountIDs = append(p.AccountIDs, a.ID)
	}
	_, err = put(full)
	wantRefused(t, err, 0, "accountDomain")
	e.record(t, atrium.Claim{}) // there is an unattributed account
	_, err = put(linked(atrium.UnattributedDomain))
	wantRefused(t, err, 0, "accountDomain")
	// The domain of another tenant finds nothing.
	elsewhere := e.as(e.newTenant(t))
	_, err = elsewhere.Import(t.Context(), atrium.CommandLine(elsewhere.tenant), []store.Import{linked("b.example")})
	wantRefused(t, err, 0, "accountDomain")
}
