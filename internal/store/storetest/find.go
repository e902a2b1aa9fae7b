package storetest

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/canonical"
)

// The model test also compares random filters with a model, while accounts are merged, split and
// erased (compareFound).
var find = []guarantee{
	{"an entry keeps the rule, the submitter and the request that stored it", originKept},
	{"entries of an earlier version have no origin", originOfEarlierVersion},
	{"a search reads a bounded number of entries and continues in the next", findBounded},
	{"a search finds a long domain in any spelling", findLongDomains},
	{"a page of found entries ends with 1 MiB of text", findSized},
	{"found entries have their payloads if requested, and a page ends with 1 MiB of them", findPayloads},
	{"an idempotency key, an account or the unattributed account is found by an index", findByIndex},
	{"moved entries are found in their account", findMoved},
	{"entries of an erased account are not found", findErased},
	{"entries of another tenant are not found", findOfAnother},
}

// findAll reads all entries that match a filter.
func (e *env) findAll(t tb, f atrium.EntryFilter, limit int) (all []atrium.TimelineEntry) {
	t.Helper()
	var after *atrium.Position
	for {
		part, next, err := e.FindEntries(t.Context(), e.tenant, f, after, limit, false)
		if err != nil {
			t.Fatalf("find entries: %v", err)
		}
		if len(part) > limit {
			t.Fatalf("%d entries on a page of %d", len(part), limit)
		}
		all = append(all, part...)
		if after = next; next == nil {
			return all
		}
	}
}

func (e *env) wantFound(t tb, f atrium.EntryFilter, want ...atrium.EntryID) {
	t.Helper()
	for _, limit := range []int{1, 2, 100} {
		all := e.findAll(t, f, limit)
		if got := idsOf(all); !slices.Equal(got, want) {
			t.Errorf("%+v, %d a page: found %v, want %v", f, limit, got, want)
		}
	}
}

// Values that steps of the model draw from.
const importRequest = "req_0123456789abcdefghjkmnpqrs"

var (
	submitters = []string{"", "key_0000000000000000000000000a", "key_zzzzzzzzzzzzzzzzzzzzzzzzzz", "receiver_0000000000000000000000000a", atrium.ActorCommandLine, atrium.ActorImport}
	requestIDs = []string{"", "req_zzzzzzzzzzzzzzzzzzzzzzzzzz", "req_", "!", "eighteen-characters", "just-18-characters", "req_ZZZZZZZZZZZZZZZZZZZZZZZZZZ", strings.Repeat("~", 128)}
)

// compareFound compares the entries that a random filter finds with those of the model.
func (p *pair) compareFound(e *env, r *tenantModel) {
	maybe := func(what string, value string) string { return draw(p, what, "", "", value) }
	f := atrium.EntryFilter{IdempotencyKey: draw(p, "found key", slices.Concat([]string{"", "", "", "", ""}, keys6)...)}
	if rapid.IntRange(0, 2).Draw(p.t, "of an account") == 0 {
		f.AccountID = p.anyAccount()
	}
	f.Unattributed = rapid.IntRange(0, 4).Draw(p.t, "unattributed") == 0
	f.Source, f.Type = maybe("source", "crm"), maybe("type", atrium.DefaultType)
	f.ClaimedDomain = draw(p, "claimed domain", slices.Concat([]string{"", "", ""}, domains8)...)
	f.ClaimedName = draw(p, "claimed name", names3...)
	for _, bound := range []**atrium.Time{&f.Since, &f.Until} {
		if rapid.IntRange(0, 3).Draw(p.t, "bounded") == 0 {
			*bound = pointer(atrium.At(e.clock.now().Add(time.Duration(rapid.IntRange(-4, 1).Draw(p.t, "seconds")) * time.Second)))
		}
	}
	got := e.findAll(p.t, f, rapid.IntRange(1, 4).Draw(p.t, "limit"))
	if want := r.find(&f); !reflect.DeepEqual(got, want) {
		p.t.Fatalf("%+v found\n%+v\nwant\n%+v", f, got, want)
	}
}

// find compares each entry with a filter.
func (r *tenantModel) find(f *atrium.EntryFilter) (found []atrium.TimelineEntry) {
	for id, e := range r.entries {
		shown := r.root(e.AccountID)
		c := &e.Claim
		switch {
		case f.IdempotencyKey != "" && e.IdempotencyKey != f.IdempotencyKey,
			f.AccountID != "" && (shown != r.root(f.AccountID) || r.accounts[f.AccountID].ID == ""),
			f.Unattributed && shown != r.root(r.unattributed()),
			f.Source != "" && e.Source != f.Source, f.Type != "" && e.Type != f.Type,
			f.Since != nil && e.CreatedAt < *f.Since, f.Until != nil && e.CreatedAt >= *f.Until,
			f.ClaimedDomain != "" && (c.Domain == "" || canonical.Domain(c.Domain) != canonical.Domain(f.ClaimedDomain)),
			f.ClaimedName != "" && (c.Name == "" || canonical.Name(c.Name) != canonical.Name(f.ClaimedName)):
			continue
		}
		t := atrium.TimelineEntry{Entry: e, Origin: r.origins[id], PayloadBytes: int64(len(e.Payload))}
		t.TenantID, t.Payload = r.tenant, nil
		t.AccountID, t.AcknowledgedID = shown, cmp.Or(e.AcknowledgedID, e.AccountID)
		if t.AcknowledgedID == shown {
			t.AcknowledgedID = ""
		}
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b atrium.TimelineEntry) int {
		byTime := 0
		if f.IdempotencyKey == "" && (f.AccountID != "" || f.Unattributed) {
			byTime = cmp.Compare(b.CreatedAt, a.CreatedAt)
		}
		return cmp.Or(byTime, cmp.Compare(b.ID, a.ID))
	})
	return found
}

// unattributed returns the unattributed account, or an identifier that no account has.
func (r *tenantModel) unattributed() atrium.AccountID {
	a, _ := r.withDomain(atrium.UnattributedDomain)
	return cmp.Or(a.ID, "none")
}

func originKept(t *testing.T, e *env) {
	named := e.record(t, atrium.Claim{Domain: "named.example", Name: "Acme"})
	e.record(t, atrium.Claim{Domain: "b.example", Name: "Bolt"})
	e.record(t, atrium.Claim{Domain: "c.example", Name: "BOLT"})
	claims := map[atrium.Rule][]atrium.Claim{
		atrium.RuleAccountID:    {byID(named.AccountID), {AccountID: named.AccountID, Domain: "other.example", Name: "Acme"}},
		atrium.RuleDomain:       {byDomain("new.example"), {Domain: "WWW.New.example", Name: "Acme"}, byDomain("AB--CD.example"), byDomain("https://ab--cd.example")},
		atrium.RuleName:         {byName("ACME")},
		atrium.RuleUnattributed: {{}, byName("Bolt"), byName("nobody")},
	}
	want := map[atrium.EntryID]atrium.Origin{}
	var drafts []*atrium.Draft
	n := 0
	for rule, all := range claims {
		for _, claim := range all {
			d := e.draft(t, claim, key(fmt.Sprint("k", n)))
			d.SubmittedBy, d.RequestID = submitters[n%len(submitters)], requestIDs[n%len(requestIDs)]
			n++
			drafts, want[d.ID] = append(drafts, d), atrium.Origin{Rule: rule, SubmittedBy: d.SubmittedBy, RequestID: d.RequestID}
		}
	}
	e.append(t, drafts...)
	check := func(when string) {
		t.Helper()
		for id, origin := range want {
			if got := e.entry(t, id).Origin; got != origin {
				t.Errorf("%s: the origin of an entry is %+v, want %+v", when, got, origin)
			}
		}
	}
	check("stored")
	for _, d := range drafts { // a replay is another request
		replay := *d
		replay.ID, replay.SubmittedBy, replay.RequestID = atrium.NewID[atrium.EntryID](), submitters[1], "replay"
		if r := receipts(t, e.append(t, &replay))[0]; !r.Replayed || r.EntryID != d.ID {
			t.Fatalf("not a replay: %+v", r)
		}
	}
	check("replayed")
	e.move(t, drafts[0].ID, e.record(t, byDomain("target.example")).AccountID)
	e.merge(t, named.AccountID, e.record(t, byDomain("survivor.example")).AccountID)
	check("moved and merged")
	e.split(t, named.AccountID, named.AccountID)
	check("split")

	a := e.newAccount("imported.example", "")
	imported := e.newEntry(a, "")
	change := e.change()
	if _, err := e.Import(t.Context(), change, items(a, imported)); err != nil {
		t.Fatal(err)
	}
	if got := e.entry(t, imported.ID).Origin; got != (atrium.Origin{SubmittedBy: atrium.ActorImport, RequestID: change.RequestID}) {
		t.Errorf("the origin of an imported entry is %+v", got)
	}
}

func originOfEarlierVersion(t *testing.T, e *env) {
	d := e.draft(t, byDomain("acme.example"))
	d.SubmittedBy, d.RequestID = submitters[1], requestIDs[1]
	e.append(t, d)
	e.sql(t, "UPDATE entries SET rule = NULL, submitted_by = NULL, request_id = NULL WHERE tenant_id = $1 AND entry_id = $2", storedID(e.tenant), storedID(d.ID))
	if got := e.entry(t, d.ID).Origin; got != (atrium.Origin{}) {
		t.Errorf("the origin is %+v, want none", got)
	}
	e.sql(t, "UPDATE entries SET rule = 99, submitted_by = $1 WHERE tenant_id = $2 AND entry_id = $3", []byte{200, 1}, storedID(e.tenant), storedID(d.ID))
	if got := e.entry(t, d.ID).Origin; got.SubmittedBy != "" || got.Rule.String() != "" {
		t.Errorf("the origin of a later release is %+v, want one that is shown as none", got)
	}
}

func findBounded(t *testing.T, e *env) {
	const looked = 10_000
	rare := e.record(t, byDomain("rare.example"), func(s *atrium.Submission) { s.Source = "rare" })
	at := e.clock.instant()
	e.clock.step(time.Second)
	e.recordMany(t, looked, byDomain("acme.example"))
	counting, read := e.counting()
	for _, f := range []atrium.EntryFilter{
		{ClaimedDomain: "RARE.example"}, {TimelineFilter: atrium.TimelineFilter{Source: "rare"}}, {TimelineFilter: atrium.TimelineFilter{Until: pointer(at + 1)}},
	} {
		read.rows = 0
		part, next, err := counting.FindEntries(t.Context(), e.tenant, f, nil, 10, false)
		if err != nil || len(part) != 0 || next == nil || read.rows > looked+1000 {
			t.Fatalf("%+v: after %d rows: %v, %v, %v", f, read.rows, idsOf(part), next, err)
		}
		part, next, err = counting.FindEntries(t.Context(), e.tenant, f, next, 10, false)
		if err != nil || !slices.Equal(idsOf(part), []atrium.EntryID{rare.EntryID}) || next != nil {
			t.Errorf("%+v: on the next page: %v, %v, %v", f, idsOf(part), next, err)
		}
	}
	read.rows = 0
	if part, _, err := counting.FindEntries(t.Context(), e.tenant, atrium.EntryFilter{}, nil, 10, false); err != nil || len(part) != 10 || read.rows > 50 {
		t.Errorf("without a filter: %d entries of %d rows, %v", len(part), read.rows, err)
	}
}

func findPayloads(t *testing.T, e *env) {
	large := `{"text":"` + strings.Repeat("x", 300<<10) + `"}`
	for range 5 {
		e.record(t, byDomain("acme.example"), payload(large))
	}
	small := e.record(t, byDomain("acme.example"), payload(`{"n": 1.0}`))
	var found []atrium.TimelineEntry
	pages := 0
	for after, more := (*atrium.Position)(nil), true; more; pages++ {
		part, next, err := e.FindEntries(t.Context(), e.tenant, atrium.EntryFilter{}, after, 10, true)
		if err != nil || len(part) == 0 || len(part) > 4 {
			t.Fatalf("%d entries on a page, %v", len(part), err)
		}
		found, after, more = append(found, part...), next, next != nil
	}
	if len(found) != 6 || pages != 2 || found[0].ID != small.EntryID || string(found[0].Payload) != `{"n": 1.0}` || string(found[5].Payload) != large {
		t.Errorf("%d entries on %d pages; the first payload is %.20s", len(found), pages, found[0].Payload)
	}
	for _, entry := range e.findAll(t, atrium.EntryFilter{}, 10) {
		if entry.Payload != nil {
			t.Errorf("an entry has a payload that was not requested: %.20s", entry.Payload)
		}
	}
}

func findLongDomains(t *testing.T, e *env) {
	long := strings.Repeat("a very long claim ", 400)
	var want []atrium.EntryID
	for i := range 5 {
		r := e.record(t, byDomain(fmt.Sprint("  ", strings.ToUpper(long), i%2)))
		if i%2 == 0 {
			want = append(want, r.EntryID)
		}
		e.record(t, byDomain("acme.example"))
	}
	slices.Reverse(want)
	e.wantFound(t, atrium.EntryFilter{ClaimedDomain: long + "0"}, want...)
	all := e.findAll(t, atrium.EntryFilter{ClaimedDomain: long + "0"}, 10)
	if all[0].Claim.Domain != fmt.Sprint("  ", strings.ToUpper(long), 0) {
		t.Errorf("the claimed domain has %d bytes", len(all[0].Claim.Domain))
	}
}

func findSized(t *testing.T, e *env) {
	for range 5 {
		e.record(t, byDomain(strings.Repeat("x", 3<<17)))
	}
	counting, read := e.counting()
	part, next, err := counting.FindEntries(t.Context(), e.tenant, atrium.EntryFilter{}, nil, 100, false)
	if err != nil || len(part) != 2 || next == nil || read.bytes > 2<<20 {
		t.Errorf("%d entries, %v, %v after %d bytes", len(part), next, err, read.bytes)
	}
	if all := e.findAll(t, atrium.EntryFilter{}, 100); len(all) != 5 {
		t.Errorf("%d entries in all", len(all))
	}
}

func findByIndex(t *testing.T, e *env) {
	long := strings.Repeat("key", 80)
	keyed := e.record(t, byDomain("a.example"), key("k"))
	longKeyed := e.record(t, byDomain("a.example"), key(long))
	nowhere := e.record(t, byName("nobody"))
	e.recordMany(t, 500, byDomain("other.example"))
	counting, read := e.counting()
	for _, search := range []struct {
		filter atrium.EntryFilter
		want   []atrium.EntryID
	}{
		{atrium.EntryFilter{IdempotencyKey: "k"}, []atrium.EntryID{keyed.EntryID}},
		{atrium.EntryFilter{IdempotencyKey: long}, []atrium.EntryID{longKeyed.EntryID}},
		{atrium.EntryFilter{IdempotencyKey: "K"}, nil},
		{atrium.EntryFilter{IdempotencyKey: "k", AccountID: keyed.AccountID}, []atrium.EntryID{keyed.EntryID}},
		{atrium.EntryFilter{IdempotencyKey: "k", AccountID: nowhere.AccountID}, nil},
		{atrium.EntryFilter{AccountID: keyed.AccountID}, []atrium.EntryID{longKeyed.EntryID, keyed.EntryID}},
		{atrium.EntryFilter{AccountID: keyed.AccountID, Unattributed: true}, nil},
		{atrium.EntryFilter{AccountID: atrium.NewID[atrium.AccountID]()}, nil},
		{atrium.EntryFilter{Unattributed: true}, []atrium.EntryID{nowhere.EntryID}},
		{atrium.EntryFilter{Unattributed: true, AccountID: nowhere.AccountID, ClaimedName: "NOBODY"}, []atrium.EntryID{nowhere.EntryID}},
	} {
		read.rows = 0
		got := counting.findAll(t, search.filter, 100)
		if !slices.Equal(idsOf(got), search.want) || read.rows > 20 {
			t.Errorf("%+v: found %v after %d rows, want %v", search.filter, idsOf(got), read.rows, search.want)
		}
	}
	if got := e.as(e.newTenant(t)).findAll(t, atrium.EntryFilter{Unattributed: true}, 10); len(got) != 0 {
		t.Errorf("found %v without an unattributed account", idsOf(got))
	}
}

func findMoved(t *testing.T, e *env) {
	r, other := e.record(t, byName("nobody")), e.record(t, byDomain("b.example"))
	m := e.move(t, r.EntryID, other.AccountID)
	e.wantFound(t, atrium.EntryFilter{Unattributed: true})
	e.wantFound(t, atrium.EntryFilter{AccountID: other.AccountID}, other.EntryID, r.EntryID)
	all := e.findAll(t, atrium.EntryFilter{ClaimedName: "nobody"}, 10)
	if len(all) != 1 || all[0].AccountID != other.AccountID || all[0].AcknowledgedID != r.AccountID || all[0].MoveID != m.ID {
		t.Errorf("the moved entry is found as %+v", all)
	}
}

func findErased(t *testing.T, e *env) {
	a := e.record(t, byDomain("a.example")).AccountID
	e.importManyEntries(t, a)
	kept := e.record(t, byDomain("b.example"))
	if e.erase(t, a) || e.entriesOf(t, a) == 0 {
		t.Fatal("all entries are deleted in the request: none is left to be found")
	}
	e.wantFound(t, atrium.EntryFilter{IdempotencyKey: "last"})
	e.wantFound(t, atrium.EntryFilter{AccountID: a})
	e.wantFound(t, atrium.EntryFilter{}, kept.EntryID)
	e.eraseAll(t)
	e.wantFound(t, atrium.EntryFilter{}, kept.EntryID)
}

func findOfAnother(t *testing.T, e *env) {
	r := e.record(t, byDomain("acme.example"), key("k"))
	other := e.as(e.newTenant(t))
	own := other.record(t, byDomain("acme.example"))
	for _, f := range []atrium.EntryFilter{{IdempotencyKey: "k"}, {AccountID: r.AccountID}} {
		other.wantFound(t, f)
	}
	other.wantFound(t, atrium.EntryFilter{ClaimedDomain: "acme.example"}, own.EntryID)
	e.wantFound(t, atrium.EntryFilter{ClaimedDomain: "acme.example"}, r.EntryID)
}
