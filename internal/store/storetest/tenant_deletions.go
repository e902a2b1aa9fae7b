package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store"
	"atrium/internal/store/register"
)

var tenantDeletions = []guarantee{
	{"a deleted tenant does not exist from then on, and in the end no table has a row of it", tenantDeleted},
	{"the deletion of a tenant changes no row of another one", tenantDeletedAlone},
	{"the deletion of a tenant that is interrupted after every transaction ends the same", tenantDeletedDespiteKills},
	{concurrent + "two nodes can delete a tenant, and count each row once", tenantDeletedByNodes},
	{"the deletion of a tenant deletes at most 1,010 rows and 2 MiB in a transaction", tenantDeletedInParts},
	{"deletions of several tenants take turns", tenantsDeletedInTurn},
	{concurrent + "an entry that is acknowledged was recorded before its tenant was deleted, and none is left", tenantDeletedWhileAppending},
	{"a row that a transaction adds after its tenant was deleted is deleted as well", tenantDeletedWithLateRows},
	{"a deletion is not complete before the database was purged", tenantDeletedAfterPurge},
	{"a repeated deletion changes nothing, and one that is refused neither", tenantDeletedOnce},
	{"an export ends with NotFound when its tenant is deleted", exportOfDeletedTenant},
	{"the audit log of a tenant that is being deleted is not reported as broken", auditOfDeletedTenant},
	{"jobs do not fail because a tenant is being deleted, and do not run again at once", jobsDuringDeletion},
	{"a deletion that begins during a run of the retention job does not fail it", retentionDuringDeletion},
	{"a deletion that begins during a run of an erasure job does not fail it", erasuresDuringDeletion},
}

// operators is the context of a change by an operator.
func (e *env) operators() atrium.Change { return e.as(atrium.OperatorChain).change() }

// beginDeletion begins the deletion of the tenant.
func (e *env) beginDeletion(t tb) atrium.Tenant {
	t.Helper()
	e.sql(t, "DELETE FROM tenant_deletions WHERE tenant_id = $1", storedID(e.tenant)) // of fill
	deleted, err := e.DeleteTenant(t.Context(), e.operators(), e.tenant, accept)
	if err != nil || deleted.Deletion == nil {
		t.Fatalf("delete the tenant: %+v, %v", deleted, err)
	}
	return deleted
}

// deleting reports whether the tenant is being deleted.
func (e *env) deleting(t tb) bool {
	t.Helper()
	found, err := e.TenantOrDeletion(t.Context(), e.tenant)
	if atrium.CodeOf(err) == atrium.CodeNotFound && err != nil {
		return false
	}
	if err != nil || found.Deletion == nil {
		t.Fatalf("the tenant is %+v, %v", found, err)
	}
	return true
}

// finishDeletion runs the job until the tenant is deleted.
func (e *env) finishDeletion(t tb) {
	t.Helper()
	for range 10_000 {
		if more, err := e.DeleteTenants(t.Context()); err != nil {
			t.Fatalf("delete tenants: %v", err)
		} else if !more {
			e.clock.step(time.Minute)
		}
		if !e.deleting(t) {
			return
		}
	}
	t.Fatalf("the deletion does not complete")
}

// wantNoRows fails the test if a table of the register has a row of the tenant.
func (e *env) wantNoRows(t tb) {
	t.Helper()
	for table, rows := range e.dump(t) {
		if len(rows) > 0 {
			t.Errorf("%s has %d rows of the tenant", table, len(rows))
		}
	}
}

// completed returns the audit record of the end of the deletion.
func (e *env) completed(t tb) (detail string) {
	t.Helper()
	rows := e.as(atrium.OperatorChain).auditRows(t, atrium.AuditFilter{Subject: string(e.tenant), Action: "tenant.delete."}, 10)
	if len(rows) != 1 {
		t.Fatalf("audit records %+v", rows)
	}
	return string(rows[0].Detail)
}

func tenantDeleted(t *testing.T, e *env) {
	e = e.fresh(t)
	other := e.as(e.newTenant(t))
	f := e.fill(t)
	page, audience := e.publishedPage(t)
	e.sql(t, "UPDATE pages SET public = 1 WHERE tenant_id = $1", storedID(e.tenant))
	preview := e.createPreview(t, audience, 1, time.Hour)
	if c, err := e.PublishedContent(t.Context(), e.tenant, page.ID, true); err != nil || len(c.Audiences) != 1 {
		t.Fatalf("content before: %+v, %v", c, err)
	}
	deleted := e.beginDeletion(t)
	for _, complete := range []bool{false, true} {
		if complete {
			e.finishDeletion(t)
		}
		_, read := e.Tenant(t.Context(), e.tenant)
		_, updated := e.UpdateTenant(t.Context(), e.operators(), e.tenant, pointer("New"), accept)
		_, _, _, secret := e.Key(t.Context(), f.key)
		_, content := e.PublishedContent(t.Context(), e.tenant, page.ID, true)
		_, published := e.PublishedAudience(t.Context(), e.tenant, page.ID, audience.ID, true)
		_, _, previewed := e.Preview(t.Context(), e.tenant, page.ID, preview.ID)
		_, _, branded := e.CreateBrand(t.Context(), e.change(), "New")
		_, _, keyed := e.CreateKey(t.Context(), e.change(), atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "New"}, secretHash(1))
		_, renamed := e.RenameAccount(t.Context(), e.change(), f.accounts[2], "New", nil)
		_, _, replayed := e.CreateProspect(t.Context(), e.keyed("prospect", "same"), atrium.Prospect{Name: pointer("Dana"), Email: pointer("dana@filled.example")})
		_, imported := e.Import(t.Context(), e.change(), items(e.newAccount("new.example", "")))
		exported := e.Export(t.Context(), e.tenant, func(store.Record) error { return nil })
		outcomes := e.append(t, f.submitted, e.draft(t, byDomain("new.example")), e.draft(t, byID(f.accounts[2]), key("new")))
		_, again := e.DeleteTenant(t.Context(), e.operators(), e.tenant, func(atrium.Tenant) error { return nil })
		for name, err := range map[string]error{
			"read": read, "update": updated, "key": secret, "content": content, "audience": published, "preview": previewed, "create a brand": branded,
			"create a key": keyed, "rename": renamed, "replay": replayed, "import": imported, "export": exported,
			"append a replay": outcomes[0].Err, "append": outcomes[1].Err, "append with a key": outcomes[2].Err, "delete": again,
		} {
			if name == "delete" && !complete {
				if err != nil {
					t.Errorf("delete again: %v", err)
				}
			} else if err == nil || atrium.CodeOf(err) != atrium.CodeNotFound {
				t.Errorf("%s: %v, complete: %v", name, err, complete)
			}
		}
		if err := e.EachKey(t.Context(), []atrium.KeyID{f.key}, func(atrium.APIKey, []byte, []byte) { t.Error("a key is found with others") }); err != nil {
			t.Error(err)
		}
		if tenants, more, err := e.Tenants(t.Context(), nil, 10); err != nil || more || len(tenants) != 1 || tenants[0].ID != other.tenant {
			t.Errorf("tenants %+v, %v", tenants, err)
		}
		if !complete {
			_, _, err := e.AdoptTenant(t.Context(), e.operators(), e.tenant, "Again")
			wantCode(t, err, atrium.CodeConflict)
			all, _, err := e.TenantsAndDeletions(t.Context(), nil, 10)
			i := slices.IndexFunc(all, func(t atrium.Tenant) bool { return t.ID == e.tenant })
			if err != nil || len(all) != 2 || *all[i].Deletion != *deleted.Deletion || all[1-i].Deletion != nil {
				t.Errorf("tenants with deletions %+v, %v", all, err)
			}
		}
	}
	e.wantNoRows(t)
	e.as(atrium.OperatorChain).wantSound(t, nil)
	if err := e.VerifyAudits(t.Context(), func(chain atrium.TenantID, f auditlog.Fault) { t.Errorf("%s: %v", chain, f) }); err != nil {
		t.Error(err)
	}
}

func tenantDeletedAlone(t *testing.T, e *env) {
	other := e.as(e.newTenant(t))
	e.fill(t)
	other.fill(t)
	before := other.dump(t)
	e.beginDeletion(t)
	e.finishDeletion(t)
	e.wantNoRows(t)
	if text := before.difference(other.dump(t)); text != "" {
		t.Errorf("another tenant has changed:\n%s", text)
	}
	other.wantSound(t, nil)
}

// rowsToDelete returns how many rows a deletion deletes and counts: all but those of the tenant itself.
func (e *env) rowsToDelete(t tb) int { return e.dump(t).rows() - 2 }

func (e *env) wantCounted(t tb, rows, entries int) {
	t.Helper()
	if got, want := e.completed(t), fmt.Sprintf(`{"accountLogs":%d,"rows":%d}`, entries, rows); got != want {
		t.Errorf("the deletion has counted %s, want %s", got, want)
	}
}

func tenantDeletedOnce(t *testing.T, e *env) {
	e = e.fresh(t) // it changes a setting
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	if _, err := e.DeleteTenant(t.Context(), e.operators(), e.tenant, func(atrium.Tenant) error { return no }); !errors.Is(err, no) {
		t.Errorf("a deletion that was refused: %v", err)
	}
	if _, err := e.Tenant(t.Context(), e.tenant); err != nil {
		t.Errorf("after it: %v", err)
	}
	unfinished := register.Unfinished + string(e.tenant)
	e.sql(t, "INSERT INTO settings (name, value) VALUES ($1, $2)", unfinished, []byte{})
	_, err := e.DeleteTenant(t.Context(), e.operators(), e.tenant, accept)
	wantCode(t, err, atrium.CodeConflict)
	e.sql(t, "DELETE FROM settings WHERE name = $1", unfinished)
	e.sql(t, "UPDATE settings SET name = 'set aside' WHERE name = $1", register.Finished)
	_, err = e.DeleteTenant(t.Context(), e.operators(), e.tenant, accept)
	wantCode(t, err, atrium.CodeConflict)
	e.sql(t, "UPDATE settings SET name = $1 WHERE name = 'set aside'", register.Finished)
	first := e.beginDeletion(t)
	e.clock.step(time.Second)
	again, err := e.DeleteTenant(t.Context(), e.operators(), e.tenant, accept)
	if err != nil || again.Name != first.Name || *again.Deletion != *first.Deletion {
		t.Errorf("the same request: %+v, %v, want %+v", again, err, first)
	}
	rows := e.as(atrium.OperatorChain).auditRows(t, atrium.AuditFilter{Subject: string(e.tenant), Action: "tenant.delete"}, 10)
	if len(rows) != 1 || string(rows[0].Detail) != `{"before":{"name":"Tenant"}}` || rows[0].Actor != e.change().Actor {
		t.Errorf("audit records %+v", rows)
	}
	_, err = e.DeleteTenant(t.Context(), e.operators(), atrium.NewID[atrium.TenantID](), accept)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = e.DeleteTenant(t.Context(), e.operators(), atrium.OperatorChain, accept)
	wantCode(t, err, atrium.CodeNotFound)
	e.finishDeletion(t)
}

func exportOfDeletedTenant(t *testing.T, e *env) {
	for _, complete := range []bool{false, true} {
		e := e.as(e.newTenant(t))
		a := e.record(t, byDomain("a.example")).AccountID
		e.importManyEntries(t, a)
		n := 0
		err := e.Export(t.Context(), e.tenant, func(store.Record) error {
			if n++; n == 3 {
				e.beginDeletion(t)
				if complete {
					e.finishDeletion(t)
				}
			}
			return nil
		})
		wantCode(t, err, atrium.CodeNotFound)
		if n > 100 {
			t.Errorf("%d records were exported after the deletion", n)
		}
	}
	e.brand(t, "Brand")
	err := e.ExportAudit(t.Context(), e.tenant, 1, func(*atrium.AuditRow) error {
		e.beginDeletion(t)
		return nil
	})
	wantCode(t, err, atrium.CodeNotFound)
	e.finishDeletion(t)
}

func auditOfDeletedTenant(t *testing.T, e *env) {
	e = e.fresh(t)
	for range 3 {
		e.brand(t, "Brand")
	}
	e.beginDeletion(t)
	for e.deleting(t) {
		if more, err := e.interrupted().DeleteTenants(t.Context()); err == nil && !more {
			e.clock.step(time.Minute)
		}
		if _, _, err := e.AuditRows(t.Context(), e.tenant, atrium.AuditFilter{}, 0, 10); err != nil {
			wantCode(t, err, atrium.CodeNotFound)
		}
		wantCode(t, e.ExportAudit(t.Context(), e.tenant, 1, func(*atrium.AuditRow) error { return nil }), atrium.CodeNotFound)
		if err := e.VerifyAudits(t.Context(), func(chain atrium.TenantID, f auditlog.Fault) { t.Errorf("%s: %v", chain, f) }); err != nil {
			t.Error(err)
		}
	}
	rows := e.as(atrium.OperatorChain).auditRows(t, atrium.AuditFilter{Subject: string(e.tenant)}, 10)
	if len(rows) != 3 || rows[0].Action != "tenant.delete.complete" || rows[1].Action != "tenant.delete" || rows[2].Action != "tenant.create" {
		t.Errorf("operators have the audit records %+v", rows)
	}
}

func copyWithoutDeleted(t *testing.T, e *env) {
	target := e.target
	e = e.fresh(t)
	e.target = target
	kept := e.as(e.newTenant(t))
	kept.fill(t)
	e.fill(t)
	e.beginDeletion(t)
	if _, err := e.interrupted().DeleteTenants(t.Context()); err == nil {
		t.Fatal("everything is deleted in the first transaction")
	}
	to := kept.emptyTarget(t)
	if report, err := e.CopyTo(t.Context(), to.Store, store.CopyOptions{}); err != nil || report.Different() || report.Tenants != 1 {
		t.Fatalf("copied %+v, %v", report, err)
	}
	kept.wantEqual(t, to)
	to.as(e.tenant).wantNoRows(t)
	if report, err := e.CompareTo(t.Context(), to.Store, store.CopyOptions{}); err != nil || report.Different() {
		t.Errorf("compared %+v, %v", report, err)
	}
	_, err := e.CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: e.tenant})
	wantCode(t, err, atrium.CodeNotFound)
	to.beginDeletion(t)
	_, err = e.CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: kept.tenant})
	wantCode(t, err, atrium.CodeConflict)
	to.finishDeletion(t)
	if report, err := e.CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: kept.tenant}); err != nil || report.Different() {
		t.Errorf("copied again after the deletion in the target: %+v, %v", report, err)
	}
	kept.wantEqual(t, to)
	kept.beginDeletion(t)
	report, err := e.CompareTo(t.Context(), to.Store, store.CopyOptions{})
	if err != nil || len(report.Differences) == 0 || report.Differences[0].Tenant != kept.tenant || report.Differences[0].Table != "tenants" ||
		report.Differences[0].From.Rows != 0 || report.Differences[0].To.Rows != 1 {
		t.Errorf("the source is deleting a tenant that the target has: compared %+v, %v", report.Differences, err)
	}
}

func jobsDuringDeletion(t *testing.T, e *env) {
	e = e.fresh(t)
	f := e.fill(t)
	if e.interrupted().erase(t, f.accounts[2]) {
		t.Fatal("everything is erased in the first transaction")
	}
	e.beginDeletion(t)
	e.clock.step(40 * 24 * time.Hour)
	e.sweepActivity(t)
	for second := range 2 {
		erasing, erased := e.ContinueErasures(t.Context())
		persons, person := e.RunErasures(t.Context())
		_, retaining, retained := e.RunRetention(t.Context(), "")
		done, _, due := e.RunDue(t.Context(), "", 10)
		if err := errors.Join(erased, person, retained, due); err != nil {
			t.Error(err)
		}
		if second > 0 && (erasing || persons || retaining || done > 0) {
			t.Errorf("jobs run again at once: erasures %v, erasures of persons %v, retention %v, %d schedules", erasing, persons, retaining, done)
		}
	}
	for _, expire := range []func(context.Context, atrium.TenantID) (atrium.TenantID, error){e.DeleteExpiredRequests, e.DeleteExpiredTombstones, e.SweepActivity} {
		if _, err := expire(t.Context(), ""); err != nil {
			t.Error(err)
		}
	}
	if n := e.rowsOf(t, "tombstones"); n == 0 || e.rowsOf(t, "schedules") != 2 {
		t.Errorf("%d tombstones and %d schedules: jobs still work on the tenant", n, e.rowsOf(t, "schedules"))
	}
	e.finishDeletion(t)
	e.wantNoRows(t)
}

// operationDeletion is part of operationsAsRegistered, because it is the last operation on a tenant.
func (e *env) operationDeletion(t *testing.T) {
	t.Helper()
	e.sql(t, "DELETE FROM tenant_deletions WHERE tenant_id = $1", storedID(e.tenant)) // of fill
	began := e.observe(t, func() { e.beginDeletion(t) })
	e.finishDeletion(t)
	for _, table := range register.Tables() {
		for _, c := range table.Columns {
			if began[table.Name].changed[c.Name] != (c.Changes&register.Deletion != 0) {
				t.Errorf("the beginning of a deletion changes %s.%s: %v, and the register says otherwise", table.Name, c.Name, began[table.Name].changed[c.Name])
			}
		}
	}
	e.wantNoRows(t)
}
