package storetest

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

var registered = []guarantee{
	{"operations change the rows that the register says, and no others", operationsAsRegistered},
	{"all settings are in the register", settingsAsRegistered},
}

// A dump has all rows of a tenant: the values of the columns, by table and primary key.
type dump map[string]map[string][]string

// dump reads all rows of the tenant in the tables of the register.
func (e *env) dump(t tb) dump {
	t.Helper()
	all := dump{}
	for _, table := range register.Tables() {
		all[table.Name] = map[string][]string{}
		var names []string
		for _, c := range table.Columns {
			names = append(names, c.Name)
		}
		sql := "SELECT " + strings.Join(names, ", ") + " FROM " + table.Name + " WHERE tenant_id = $1"
		if err := e.db.Query(t.Context(), sql, engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			var key, values []string
			for i, c := range table.Columns {
				text := "null"
				switch {
				case r.Null(i):
				case c.Type == engine.Int:
					text = strconv.FormatInt(r.Int(i), 10)
				case c.Type == engine.Text:
					text = fmt.Sprintf("%q", r.Text(i))
				default:
					text = hex.EncodeToString(r.Bytes(i))
				}
				values = append(values, text)
				if slices.Contains(table.Key, c.Name) {
					key = append(key, text)
				}
			}
			all[table.Name][strings.Join(key, " ")] = values
			return nil
		}); err != nil {
			t.Fatalf("read %s: %v", table.Name, err)
		}
	}
	return all
}

// rows returns the number of rows.
func (d dump) rows() (n int) {
	for _, rows := range d {
		n += len(rows)
	}
	return n
}

// difference describes the first rows that differ, "" if there are none.
func (d dump) difference(other dump) string {
	var all []string
	for _, table := range register.Tables() {
		a, b := d[table.Name], other[table.Name]
		for _, key := range slices.Sorted(maps.Keys(a)) {
			if b[key] == nil || !slices.Equal(a[key], b[key]) {
				all = append(all, fmt.Sprintf("%s %s: %.300q and %.300q", table.Name, key, a[key], b[key]))
			}
		}
		for key := range b {
			if a[key] == nil {
				all = append(all, table.Name+" "+key+" is only in the second one")
			}
		}
	}
	return strings.Join(all[:min(5, len(all))], "\n")
}

// A filled tenant has rows in every table of the register.
type filled struct {
	accounts  []atrium.AccountID // the first one was merged into the second one
	alone     atrium.AccountID   // not merged
	long      atrium.AccountID   // has a long domain
	prospect  atrium.ProspectID
	page      atrium.ScheduledPage
	audience  atrium.Audience
	key       atrium.KeyID
	undoable  atrium.MoveID
	submitted *atrium.Draft // was appended
	receipt   atrium.Receipt
}

// fill stores rows in every table.
func (e *env) fill(t tb) (f filled) {
	t.Helper()
	for i := range 4 {
		domain := fmt.Sprintf("filled%d.example", i)
		f.accounts = append(f.accounts, e.record(t, atrium.Claim{Domain: domain, Name: fmt.Sprint("Filled ", i)}, key(domain)).AccountID)
		if i > 0 {
			e.rename(t, f.accounts[i], fmt.Sprint("Renamed ", i))
		}
	}
	e.clock.step(2 * time.Minute) // so that the next entry changes the minute of its account
	f.submitted = e.draft(t, byDomain("filled0.example"), key("retried"), payload(`{"n":1.50}`))
	f.receipt = receipts(t, e.append(t, f.submitted))[0]
	f.long = e.longDomains(t, 2, 3000)[0]

	p, _, err := e.CreateProspect(t.Context(), e.keyed("prospect", "same"), atrium.Prospect{Name: pointer("Dana"), Email: pointer("dana@filled.example")})
	if err != nil {
		t.Fatalf("create a prospect: %v", err)
	}
	f.prospect = p.ID
	for _, id := range f.accounts[:3] {
		if _, err := e.LinkProspect(t.Context(), e.change(), id, p.ID, accept); err != nil {
			t.Fatalf("link: %v", err)
		}
	}
	other, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Name: pointer("Robin")})
	if err != nil {
		t.Fatalf("create a prospect: %v", err)
	}
	if _, err := e.LinkProspect(t.Context(), e.change(), f.accounts[2], other.ID, accept); err != nil {
		t.Fatalf("link: %v", err)
	}
	e.merge(t, f.accounts[0], f.accounts[1])
	f.alone = f.accounts[2]

	unnamed := e.record(t, byName("nobody"))
	e.undo(t, e.move(t, unnamed.EntryID, f.accounts[3]).ID)
	rule := atrium.MoveRequest{From: unnamed.AccountID, To: f.alone, Rule: atrium.MoveRule{ClaimedName: "nobody", Given: []byte(`{"claimedName":"nobody"}`)}, Limit: 10}
	c := e.keyed("move", "same")
	report, _, err := e.Move(t.Context(), c, rule)
	if err != nil || report.Moved != 1 {
		t.Fatalf("move: %+v, %v", report, err)
	}
	f.undoable = report.Move.ID

	f.page = e.createPage(t)
	e.schedule(t, f.page.ID, e.in(time.Hour), e.in(2*time.Hour))
	f.audience = e.createAudience(t, f.page.ID, "Visitors")
	for i := range 3 {
		if _, _, err := e.CreateVersion(t.Context(), e.change(), f.page.ID, f.audience.ID, fmt.Appendf(nil, `{"n":%d.0}`, i), "note"); err != nil {
			t.Fatalf("create a version: %v", err)
		}
	}
	e.createPreview(t, f.audience, 1, time.Hour)
	f.key = e.newKey(t, atrium.NewID[atrium.KeyID]()).ID
	gone := e.record(t, byDomain("gone.example"), key("gone")).AccountID
	e.erase(t, gone)
	e.eraseAll(t)
	e.put(t, &atrium.Tombstone{EntryID: atrium.NewID[atrium.EntryID](), AccountID: gone, CreatedAt: e.clock.instant(), Source: "crm", Type: "webhook", ExpiresAt: e.in(time.Hour)})
	e.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: "nobody@filled.example"}})
	e.record(t, byDomain("filled1.example"))
	e.sql(t, "INSERT INTO erasures (tenant_id, account_id, requested_at) VALUES ($1, $2, $3)", storedID(e.tenant), storedID(atrium.NewID[atrium.AccountID]()), int64(0))
	for table, rows := range e.dump(t) {
		if len(rows) == 0 {
			t.Errorf("no rows in %s", table)
		}
	}
	return f
}

// An observed is what an operation did with the rows of a table.
type observed struct {
	added, deleted bool
	changed        map[string]bool // columns
}

// observe runs an operation and returns what it did, by table.
func (e *env) observe(t tb, operation func()) map[string]*observed {
	t.Helper()
	before := e.dump(t)
	operation()
	after := e.dump(t)
	all := map[string]*observed{}
	for _, table := range register.Tables() {
		o := &observed{changed: map[string]bool{}}
		for key, row := range after[table.Name] {
			old := before[table.Name][key]
			o.added = o.added || old == nil
			for i, c := range table.Columns {
				if old != nil && old[i] != row[i] {
					o.changed[c.Name] = true
				}
			}
		}
		for key := range before[table.Name] {
			o.deleted = o.deleted || after[table.Name][key] == nil
		}
		all[table.Name] = o
	}
	return all
}

func operationsAsRegistered(t *testing.T, e *env) {
	f := e.fill(t)
	e.sweepActivity(t)
	effect := func(o *observed) register.Effect {
		switch {
		case o.added && o.deleted:
			return register.Replaced
		case o.added:
			return register.Added
		case o.deleted:
			return register.Deleted
		}
		return register.Kept
	}
	for _, step := range []struct {
		name    string
		bit     register.Operations
		says    func(register.Rows) register.Effect
		perform func()
	}{
		{"import", register.Import, func(r register.Rows) register.Effect { return r.Import }, func() { e.importAll(t, f) }},
		{"merge", register.Merge, func(r register.Rows) register.Effect { return r.Merge }, func() {
			e.merge(t, f.alone, f.accounts[1])
		}},
		{"split", register.Split, func(r register.Rows) register.Effect { return r.Split }, func() {
			e.split(t, f.accounts[1], f.alone)
		}},
		{"erasure", register.Erasure, func(r register.Rows) register.Effect { return r.Erasure }, func() {
			if _, err := e.DeleteProspect(t.Context(), e.change(), f.prospect, accept); err != nil {
				t.Fatal(err)
			}
			e.erase(t, f.alone)
			e.erase(t, f.long)
			e.eraseAll(t)
		}},
		{"retention", 0, func(r register.Rows) register.Effect { return r.Retention }, func() {
			e.clock.step(40 * 24 * time.Hour)
			for _, expire := range []func(context.Context, atrium.TenantID) (atrium.TenantID, error){e.DeleteExpiredRequests, e.DeleteExpiredTombstones} {
				for next, first := atrium.TenantID(""), true; first || next != ""; first = false {
					var err error
					if next, err = expire(t.Context(), next); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
	} {
		got := e.observe(t, step.perform)
		for _, table := range register.Tables() {
			o, says := got[table.Name], step.says(table.Rows)
			if did := effect(o); did != says && says != register.Replaced { // it may have deleted what it added
				t.Errorf("%s has effect %d on %s, and the register says %d", step.name, did, table.Name, says)
			}
			for _, c := range table.Columns {
				if o.changed[c.Name] && c.Changes&step.bit == 0 {
					t.Errorf("%s changes %s.%s, and the register does not say so", step.name, table.Name, c.Name)
				}
			}
		}
	}
}

// importAll imports a record of each kind. Some belong to stored ones.
func (e *env) importAll(t tb, f filled) {
	t.Helper()
	a, b := e.newAccount("imported.example", "Imported"), e.newAccount("imported2.example", "")
	p := e.newProspect(a)
	p.AccountIDs = append(p.AccountIDs, f.accounts[0])
	entry := e.newEntry(a, "imported")
	entry.AccountID = f.accounts[3]
	entry.CreatedAt = e.clock.instant() + 3600*1e6
	page := &atrium.ScheduledPage{Page: *e.newPage(atrium.PageDraft), Schedule: atrium.Schedule{PublishAt: pointer(entry.CreatedAt)}}
	version := &atrium.AudienceVersion{PageID: f.page.ID, Version: atrium.Version{ID: atrium.NewID[atrium.VersionID](), AudienceID: f.audience.ID, CreatedAt: entry.CreatedAt}}
	tombstone := &atrium.Tombstone{EntryID: atrium.NewID[atrium.EntryID](), AccountID: a.ID, CreatedAt: entry.CreatedAt, Source: "crm", Type: "webhook"}
	brand := &atrium.Brand{ID: atrium.NewID[atrium.BrandID](), Name: "Imported", CreatedAt: entry.CreatedAt, UpdatedAt: entry.CreatedAt}
	audience := &atrium.Audience{ID: atrium.NewID[atrium.AudienceID](), PageID: f.page.ID, CreatedAt: entry.CreatedAt, UpdatedAt: entry.CreatedAt}
	e.put(t, a, b, &atrium.Merge{AccountID: b.ID, Into: a.ID}, p, brand, tombstone, page, e.newAudience(&page.Page, false), audience, version, entry)
	e.longDomains(t, 1, 4000)
}

func settingsAsRegistered(t *testing.T, e *env) {
	e = e.fresh(t)
	_ = e.records(t)
	if _, err := e.Secret(t.Context(), store.CursorKey); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := e.db.Query(t.Context(), "SELECT name FROM settings WHERE name > $1", engine.Args{""}, func(r engine.Row) error {
		names = append(names, r.Text(0))
		return nil
	}); err != nil || len(names) == 0 {
		t.Fatalf("settings %v, %v", names, err)
	}
	for _, name := range names {
		if register.Settings[name] == 0 {
			t.Errorf("%s is not in the register", name)
		}
	}
}
