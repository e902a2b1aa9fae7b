package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var modeled = []guarantee{
	{"random operations return the same results as a model", storeIsLikeModel},
}

// A pair is two tenants with their models, and the values that steps draw from.
type pair struct {
	*env
	t      *rapid.T
	models [2]*tenantModel
	drafts [2][]*atrium.Draft // appended earlier
	events eventModel         // of the first tenant; the other one has none
	cached map[string]cachedRead
}

// A cachedRead is the result of a read, with the version of its cache tag.
type cachedRead struct {
	version engine.CacheVersion
	found   string
}

func newPair(e *env, t *rapid.T) *pair {
	return &pair{
		env: e, t: t, models: [2]*tenantModel{newTenantModel(e.withEvents(t).tenant), newTenantModel(e.newTenant(t))},
		cached: map[string]cachedRead{}, events: eventModel{},
	}
}

func storeIsLikeModel(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(e, t)
		for range rapid.IntRange(1, 8).Draw(t, "operations") {
			p.step()
			p.compare()
		}
	})
}

// step performs a random operation.
func (p *pair) step() {
	p.clock.step(time.Duration(rapid.IntRange(-3, 6).Draw(p.t, "seconds")) * 500 * time.Millisecond)
	side := rapid.IntRange(0, 1).Draw(p.t, "tenant")
	switch rapid.SampledFrom([]string{"append", "append", "import", "rename", "merge", "merge", "split", "domain", "create", "erase"}).Draw(p.t, "operation") {
	case "append":
		p.append()
	case "import":
		p.importChunk(side)
	case "rename":
		p.rename(side)
	case "merge":
		p.mergeStep(side)
	case "split":
		p.splitStep(side)
	case "domain":
		p.domainStep(side)
	case "create":
		p.createStep(side)
	case "erase":
		p.eraseStep(side)
	}
}

var (
	somePool = []string{"0000000000000000000000000a", "0000000000000000000000000b", "zzzzzzzzzzzzzzzzzzzzzzzzzz"}
	names3   = []string{"", "", "Acme", "ACME", "Bolt", "bolt "}
	domains8 = []string{"", "a.example", "https://WWW.A.example/x", "b.example", "not a host", "Unattributed.invalid", "https://ab--cd.example", "AB--CD.example"}
	keys6    = []string{"", "", "k", "K", "a key of more than thirty-two bytes, one", "a key of more than thirty-two bytes, two"}
	payloads = []string{`{"n":1}`, `{ "n" : 1.0 }`, `{"n":2}`}
)

func draw[T any](p *pair, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(p.t, what)
}

// anyAccount draws an account of either tenant, an unknown one, or none.
func (p *pair) anyAccount() atrium.AccountID {
	ids := []atrium.AccountID{as[atrium.AccountID](somePool[2])}
	for _, r := range p.models {
		for id := range r.accounts {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return draw(p, "account", ids...)
}

// append appends a batch of drafts of both tenants. Some were appended earlier.
func (p *pair) append() {
	var all []*atrium.Draft
	for range rapid.IntRange(1, 7).Draw(p.t, "drafts") {
		side := rapid.IntRange(0, 1).Draw(p.t, "tenant")
		if old := p.drafts[side]; len(old) > 0 && rapid.IntRange(0, 4).Draw(p.t, "again") == 0 {
			if d := draw(p, "old draft", old...); !slices.Contains(all, d) {
				all = append(all, d)
			}
			continue
		}
		claim := atrium.Claim{Domain: draw(p, "domain", domains8...), Name: draw(p, "name", names3...)}
		if rapid.IntRange(0, 2).Draw(p.t, "by identifier") == 0 {
			claim.AccountID = p.anyAccount()
		}
		d := p.as(p.models[side].tenant).draft(p.t, claim, key(draw(p, "key", keys6...)), payload(draw(p, "payload", payloads...)))
		d.SubmittedBy, d.RequestID = draw(p, "submitter", submitters...), draw(p, "request", requestIDs...)
		p.drafts[side] = append(p.drafts[side], d)
		all = append(all, d)
	}
	if len(all) == 0 {
		return
	}
	got := p.env.append(p.t, all...)
	p.events.append(p.models[0].tenant, p.models[0].entries, all, got)
	for _, r := range p.models {
		var drafts []*atrium.Draft
		var outcomes []atrium.Outcome
		for i, d := range all {
			if d.TenantID == r.tenant {
				drafts, outcomes = append(drafts, d), append(outcomes, got[i])
			}
		}
		want := r.append(drafts, p.clock.instant(), outcomes, func(id atrium.AccountID) string { return p.as(r.tenant).account(p.t, id).Name })
		for i := range want {
			if outcomes[i].Receipt != want[i].Receipt || !sameCode(outcomes[i].Err, want[i].Err) {
				p.t.Fatalf("draft %s of %s: %+v, want %+v", drafts[i].ID, r.tenant, outcomes[i], want[i])
			}
		}
	}
}

func sameCode(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || atrium.CodeOf(a) == atrium.CodeOf(b))
}

func (p *pair) rename(side int) {
	r := p.models[side]
	id, name := p.anyAccount(), draw(p, "name", names3[2:]...)
	_, known := r.accounts[id]
	refused := errors.New("refused")
	refuses := rapid.IntRange(0, 3).Draw(p.t, "refuse") == 0
	got, err := p.RenameAccount(p.t.Context(), p.as(r.tenant).change(), id, name, func(current atrium.AccountDetail) error {
		if want := r.accounts[r.root(id)]; describe(&current.Account) != describe(&want) {
			p.t.Fatalf("check was given %+v, want %+v", current, want)
		}
		if refuses {
			return refused
		}
		return nil
	})
	switch {
	case !known:
		wantCode(p.t, err, atrium.CodeNotFound)
	case refuses:
		if !errors.Is(err, refused) {
			p.t.Fatalf("error %v, want that of check", err)
		}
	default:
		r.rename(id, name, p.clock.instant())
		if want := r.accounts[r.root(id)]; err != nil || describe(&got.Account) != describe(&want) {
			p.t.Fatalf("renamed %+v, %v, want %+v", got, err, want)
		}
		p.compareLinked(r, id, got.Prospects)
	}
}

// importChunk imports records from small pools, so that many are stored already, conflict, or
// refer to missing records.
func (p *pair) importChunk(side int) {
	r := p.models[side]
	var chunk []store.Record
	for range rapid.IntRange(1, 6).Draw(p.t, "records") {
		chunk = append(chunk, p.record())
	}
	after, added, refused := r.clone(), 0, false
	for _, record := range chunk {
		isNew, ok := after.importRecord(record)
		if refused = !ok; refused {
			break
		}
		if isNew {
			added++
		}
	}
	change := atrium.CommandLine(r.tenant)
	change.RequestID = importRequest
	got, err := p.Import(p.t.Context(), change, items(copied(chunk)...))
	if _, ok := errors.AsType[*store.ImportError](err); ok != refused || (err != nil) != ok {
		p.t.Fatalf("imported %q: %v, want refused %v", describeAll(chunk), err, refused)
	}
	if !refused {
		p.models[side] = after
		if got.Added != added {
			p.t.Fatalf("imported %q: %d were new, want %d", describeAll(chunk), got.Added, added)
		}
	}
}

// record draws a record. All have the same instants, so that some are equal.
func (p *pair) record() store.Record {
	suffix := func() string { return draw(p, "identifier", somePool[:2]...) }
	const at = atrium.Time(1_700_000_000_000_000)
	account, page, audience := as[atrium.AccountID](suffix()), as[atrium.PageID](suffix()), as[atrium.AudienceID](suffix())
	switch draw(p, "kind", "account", "prospect", "merge", "page", "audience", "version", "entry") {
	case "account":
		return &atrium.Account{ID: account, Domain: draw(p, "domain", "a.example", "c.example", "unattributed.invalid", "https://ab--cd.example", "ab--cd.example"), Name: draw(p, "name", "", "Acme"), CreatedAt: at, UpdatedAt: at}
	case "prospect":
		return &atrium.LinkedProspect{Prospect: atrium.Prospect{ID: as[atrium.ProspectID](suffix()), CreatedAt: at, UpdatedAt: at}, AccountIDs: []atrium.AccountID{account}}
	case "merge":
		return &atrium.Merge{AccountID: account, Into: as[atrium.AccountID](suffix())}
	case "page":
		made := p.newPage(draw(p, "status", atrium.PageStatuses()...))
		made.ID, made.CreatedAt, made.UpdatedAt = page, at, at
		return made
	case "audience":
		return &atrium.Audience{ID: audience, PageID: page, Archived: rapid.Bool().Draw(p.t, "archived"), CreatedAt: at, UpdatedAt: at}
	case "version":
		return &atrium.AudienceVersion{PageID: page, Version: atrium.Version{
			ID: atrium.NewID[atrium.VersionID](), AudienceID: audience, Number: draw(p, "number", int64(0), 0, 1, 2, 5), CreatedAt: at,
		}}
	default:
		entry := &atrium.Entry{ID: as[atrium.EntryID](suffix()), AccountID: account, CreatedAt: at + atrium.Time(rapid.IntRange(0, 1).Draw(p.t, "later"))*1e15}
		entry.Source, entry.Type, entry.Payload = "crm", "webhook", []byte(draw(p, "payload", payloads...))
		entry.IdempotencyKey, entry.Claim.Domain = draw(p, "key", keys6...), draw(p, "domain", domains8...)
		return entry
	}
}

// compare checks that every read of the store returns the data of the models.
func (p *pair) compare() {
	for _, r := range p.models {
		e := p.as(r.tenant)
		got, want := describeAll(e.records(p.t)), describeAll(r.records())
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			p.t.Fatalf("%s has\n%q\nwant\n%q", r.tenant, got, want)
		}
		e.wantSoundGroups(p.t)
		p.compareFound(e, r)
		for id := range r.accounts {
			got, linked, err := e.Account(p.t.Context(), r.tenant, id)
			want, newest := r.accounts[r.root(id)], r.newest(id)
			if err != nil || describe(&got) != describe(&want) || when(got.LatestActivityAt) != when(newest) {
				p.t.Fatalf("account %+v, active %s, %v, want %+v, active %s", got, when(got.LatestActivityAt), err, want, when(newest))
			}
			p.compareLinked(r, id, linked)
			if got.ID == id {
				p.compareCached(string(r.tenant)+" account "+string(id), string(id), describe(&got)+fmt.Sprint(when(got.LatestActivityAt), len(linked)))
			}
		}
		p.comparePages(e, r)
	}
	p.compareEvents()
}

// compareCached checks that a read returns the same as before while the version of its cache tag
// is unchanged. There are no concurrent writes.
func (p *pair) compareCached(what, tag, found string) {
	version, ok := p.CacheVersion(tag)
	if !ok {
		return
	}
	if c, was := p.cached[what]; was && c.version == version && c.found != found {
		p.t.Fatalf("%s is %s, and was %s at the same version", what, found, c.found)
	}
	p.cached[what] = cachedRead{version, found}
}

func when(at *atrium.Time) string {
	if at == nil {
		return "never"
	}
	return at.String()
}

func (p *pair) compareLinked(r *tenantModel, id atrium.AccountID, linked []atrium.Prospect) {
	var got, want []atrium.ProspectID
	for _, l := range linked {
		got = append(got, l.ID)
	}
	for _, l := range r.prospects {
		if slices.ContainsFunc(l.AccountIDs, func(linked atrium.AccountID) bool { return r.root(linked) == r.root(id) }) {
			want = append(want, l.ID)
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) { // all created at one instant
		p.t.Fatalf("account %s has prospects %v, want %v", id, got, want)
	}
}

func (p *pair) comparePages(e *env, r *tenantModel) {
	var pages []*atrium.Page
	for _, page := range r.pages {
		pages = append(pages, &page)
		if got := e.page(p.t, page.ID); got.AudiencesCount != page.AudiencesCount {
			p.t.Fatalf("page %s counts %d audiences, want %d", page.ID, got.AudiencesCount, page.AudiencesCount)
		} else {
			p.compareCached(string(r.tenant)+" page "+string(page.ID), "", fmt.Sprint(describe(&got), got.AudiencesCount))
		}
	}
	status := draw(p, "filter", append(atrium.PageStatuses(), "")...)
	if got, want := e.list(p.t, status, rapid.IntRange(1, 3).Draw(p.t, "limit"), nothing), listable(pages, status); !slices.Equal(got, want) {
		p.t.Fatalf("list of %q is %v, want %v", status, got, want)
	}
	for _, u := range r.audiences {
		var want []int64
		for _, v := range r.versions {
			if v.AudienceID == u.ID {
				want = append(want, v.Number)
			}
		}
		slices.Sort(want)
		slices.Reverse(want)
		if got, total := e.numbers(p.t, &u, 0, 100); fmt.Sprint(got) != fmt.Sprint(want) || total != int64(len(want)) {
			p.t.Fatalf("audience %s has versions %v of %d, want %v", u.ID, got, total, want)
		} else {
			p.compareCached(string(r.tenant)+" versions "+string(u.ID), "", fmt.Sprint(got))
		}
	}
}
