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

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

var registered = []guarantee{
	{"operations change the rows that the register says, and no others", operationsAsRegistered},
	{"an export and its import have the columns that the register says", exportAsRegistered},
	{"all settings are in the register", settingsAsRegistered},
}

// A dump has all rows of a tenant: the values of the columns, by table and primary key.
type dump map[string]map[string][]string

// copied returns the rows without those of tables that copies leave out, as inCopy returns them.
func (d dump) copied() dump {
	d = d.inCopy()
	for _, table := range register.Tables() {
		if !table.Copied() {
			d[table.Name] = map[string][]string{}
		}
	}
	return d
}

// inCopy returns the rows without the values of columns that copies leave out.
func (d dump) inCopy() dump {
	d = maps.Clone(d)
	for _, table := range register.Tables() {
		if !table.Copied() {
			continue
		}
		rows := map[string][]string{}
		for key, row := range d[table.Name] {
			rows[key] = slices.Clone(row)
			for i, c := range table.Columns {
				if c.Copying == register.Excluded {
					rows[key][i] = ""
				}
			}
		}
		d[table.Name] = rows
	}
	return d
}

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
	e = e.fresh(t) // each erasure reads the whole file of an embedded database
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
			e.finishErasure(t, f.erasure)
		}},
		{"retention", register.Retention, func(r register.Rows) register.Effect { return r.Retention }, func() {
			e.clock.step(40 * days)
			e.waitDays(t, 3)
			e.expire(t)
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
	e.operationDeletion(t)
}

// expire deletes the expired rows of the tenant, as jobs do.
func (e *env) expire(t tb) {
	t.Helper()
	for _, expire := range []func(context.Context, atrium.TenantID) (atrium.TenantID, error){e.DeleteExpiredRequests, e.DeleteExpiredTombstones, e.DeleteExpiredRefusedRequests, e.DeleteExpiredReads, e.DeleteExpiredEvents, e.DeleteExpiredDeliveries, e.DeleteExpiredQuarantine} {
		if _, err := expire(t.Context(), e.before()); err != nil {
			t.Fatalf("expire: %v", err)
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
	entry.AccountID, entry.Source = f.accounts[3], "imported"
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
