package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var quarantines = []guarantee{
	{"a delivery in quarantine is stored as it was received, and listed by time", quarantineStored},
	{concurrent + "a delivery in quarantine is removed once, and a receiver is deleted only without any", quarantineRemoved},
	{concurrent + "a delivery in quarantine is mapped once, to all of its entries or none", quarantineMapped},
	{"all deliveries of a receiver in quarantine are discarded in bounded transactions", quarantineDiscarded},
	{"the quarantine of a tenant is bounded in deliveries and bytes", quarantineBounded},
	{"deliveries that were in quarantine for too long are deleted, and recorded", quarantineExpires},
	{"failing and disabled webhooks and deliveries in quarantine of all tenants are counted", deliveryProblemsCounted},
	{"an erasure of a person deletes deliveries in quarantine by their texts", quarantineErased},
	{"a check of an erasure has each delivery in quarantine once", quarantineChecked},
}

// quarantine stores a delivery in quarantine, and returns it.
func (e *env) quarantine(t tb, r atrium.Receiver, body string, change ...func(*atrium.QuarantinedDelivery)) atrium.QuarantinedDelivery {
	t.Helper()
	d := atrium.QuarantinedDelivery{
		ID: atrium.NewID[atrium.QuarantinedID](), TenantID: r.TenantID, ReceiverID: r.ID, ReceivedAt: e.clock.instant(),
		Headers: []atrium.Header{{Name: "content-type", Value: "application/json"}}, Body: []byte(body), Fault: "no type", RequestID: atrium.NewID[atrium.RequestID](),
	}
	for _, f := range change {
		f(&d)
	}
	d.BodyBytes = int64(len(d.Body))
	if err := e.Quarantine(t.Context(), d); err != nil {
		t.Fatalf("quarantine: %v", err)
	}
	return d
}

// quarantined returns the identifiers of the deliveries that a receiver has in quarantine, newest first, after comparing their
// number.
func (e *env) quarantined(t tb, id atrium.ReceiverID) (ids []atrium.QuarantinedID) {
	t.Helper()
	all, more, err := e.QuarantinedDeliveries(t.Context(), e.tenant, id, atrium.QuarantineFilter{}, nil, 1000)
	if err != nil || more {
		t.Fatalf("quarantined: %v, %v", more, err)
	}
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	if r, err := e.Receiver(t.Context(), e.tenant, id); err != nil || r.Quarantined != int64(len(ids)) {
		t.Errorf("%d deliveries are in quarantine, %v, want %d", r.Quarantined, err, len(ids))
	}
	return ids
}

// insertRows inserts rows.
func (e *env) insertRows(t tb, sql string, columns []string, rows []engine.Args) {
	t.Helper()
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Batch(engine.NewBatch(sql, columns...), rows, nil)
		return err
	}); err != nil {
		t.Fatalf("insert: %v", err)
	}
}

// wantTotals compares the totals of the tenant with the rows.
func (e *env) wantTotals(t tb) {
	t.Helper()
	d := e.dump(t)
	bytes := 0
	for _, row := range d["quarantine"] { // texts are quoted, and the others are hexadecimal
		bytes += len(row[6]) - 2 + len(row[7])/2 + len(row[8])/2
	}
	want := []string{strconv.Itoa(len(d["quarantine"])), strconv.Itoa(bytes)}
	if got := d["quarantine_totals"][""]; len(got) != 3 || !slices.Equal(got[1:], want) {
		t.Errorf("the totals are %q, want %q", got, want)
	}
}

func quarantineStored(t *testing.T, e *env) {
	r, other := e.newReceiver(t, nil), e.newReceiver(t, nil)
	d := e.quarantine(t, r, "{\"a\":1,\"a\":2\xff}", func(d *atrium.QuarantinedDelivery) {
		d.Query = "a=1&b=%20"
		d.Headers = append(d.Headers, atrium.Header{Name: "x-event", Value: "push"}, atrium.Header{Name: "x-event", Value: "pull"})
	})
	got, err := e.QuarantinedDelivery(t.Context(), e.tenant, r.ID, d.ID)
	if err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("stored %+v, %v, want %+v", got, err, d)
	}
	_, err = e.QuarantinedDelivery(t.Context(), e.tenant, other.ID, d.ID)
	wantCode(t, err, atrium.CodeNotFound)
	want := []atrium.QuarantinedDelivery{d}
	for range 4 {
		e.clock.step(time.Second)
		want = append(want, e.quarantine(t, r, "{}"))
	}
	e.quarantine(t, other, "[]")
	newest := slices.Clone(want)
	slices.Reverse(newest)
	for i := range newest {
		newest[i].Headers, newest[i].Query, newest[i].Body = nil, "", nil
	}
	var all []atrium.QuarantinedDelivery
	for after, more := (*atrium.Position)(nil), true; more; {
		var page []atrium.QuarantinedDelivery
		page, more, err = e.QuarantinedDeliveries(t.Context(), e.tenant, r.ID, atrium.QuarantineFilter{}, after, 2)
		if err != nil || len(page) == 0 {
			t.Fatal(page, err)
		}
		all = append(all, page...)
		after = atrium.PositionAt(all[len(all)-1].ReceivedAt, all[len(all)-1].ID)
	}
	if !reflect.DeepEqual(all, newest) {
		t.Errorf("listed %+v\nwant %+v", all, newest)
	}
	some, _, err := e.QuarantinedDeliveries(t.Context(), e.tenant, r.ID, atrium.QuarantineFilter{Since: &want[1].ReceivedAt, Until: &want[3].ReceivedAt}, nil, 10)
	if err != nil || !reflect.DeepEqual(some, newest[2:4]) {
		t.Errorf("listed %+v, %v\nwant %+v", some, err, newest[2:4])
	}
	var oldest []atrium.QuarantinedDelivery
	for after := (*atrium.Position)(nil); ; after = store.QuarantinePosition(&oldest[len(oldest)-1]) {
		page, err := e.NextQuarantined(t.Context(), e.tenant, r.ID, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		oldest = append(oldest, page...)
	}
	if !reflect.DeepEqual(oldest, want) {
		t.Errorf("the oldest are %+v\nwant %+v", oldest, want)
	}
	if err := e.SetQuarantineFaults(t.Context(), e.change(), r.ID, map[atrium.QuarantinedID]string{d.ID: "no domain"}); err != nil {
		t.Fatal(err)
	}
	if got, err := e.QuarantinedDelivery(t.Context(), e.tenant, r.ID, d.ID); err != nil || got.Fault != "no domain" {
		t.Errorf("the fault is %q, %v", got.Fault, err)
	}
	e.quarantined(t, r.ID)
	e.wantTotals(t)
}

func quarantineRemoved(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	d, kept := e.quarantine(t, r, "{}"), e.quarantine(t, r, "{}")
	wantCode(t, e.DeleteReceiver(t.Context(), e.change(), r.ID, accept[atrium.Receiver]), atrium.CodeConflict)
	if _, err := e.MapQuarantined(t.Context(), e.change(), r.ID, d.ID, nil); err != nil { // all is filtered
		t.Fatal(err)
	}
	if got := e.quarantined(t, r.ID); !slices.Equal(got, []atrium.QuarantinedID{kept.ID}) {
		t.Errorf("in quarantine are %q", got)
	}
	wantCode(t, e.DiscardQuarantined(t.Context(), e.change(), r.ID, d.ID), atrium.CodeNotFound)
	if err := e.DiscardQuarantined(t.Context(), e.change(), r.ID, kept.ID); err != nil {
		t.Fatal(err)
	}
	e.wantTotals(t)
	rows := e.auditRows(t, atrium.AuditFilter{Subject: string(r.ID)}, 10)
	if len(rows) != 3 || rows[0].Action != "receiver.discard" || rows[1].Action != "receiver.map_again" ||
		string(rows[1].Detail) != fmt.Sprintf(`{"accountLogs":0,"deliveries":1,"quarantinedId":"%s"}`, d.ID) {
		t.Errorf("recorded %+v", rows)
	}
	if err := e.DeleteReceiver(t.Context(), e.change(), r.ID, accept[atrium.Receiver]); err != nil {
		t.Error(err)
	}
	wantCode(t, e.Quarantine(t.Context(), d), atrium.CodeNotFound)

	// Deliveries that several nodes remove at once are counted once.
	r = e.newReceiver(t, nil)
	var ids []atrium.QuarantinedID
	for range 20 {
		ids = append(ids, e.quarantine(t, r, "{}").ID)
	}
	var removed atomic.Int64
	parallel(t, 4, func(i int) {
		for n := range ids {
			switch err := e.DiscardQuarantined(t.Context(), e.change(), r.ID, ids[(n+5*i)%len(ids)]); {
			case err == nil:
				removed.Add(1)
			case atrium.CodeOf(err) != atrium.CodeNotFound:
				t.Error(err)
			}
		}
	})
	if n := removed.Load(); n != 20 {
		t.Errorf("%d were removed, want 20", n)
	}
	e.wantTotals(t)
}

func quarantineMapped(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	d := e.quarantine(t, r, "[{},{}]")
	drafts := func(keys ...string) (all []*atrium.Draft) {
		for _, k := range keys {
			all = append(all, e.keyDraft(byDomain("mapped.example"), k))
		}
		return all
	}
	missing := append(drafts("a"), e.keyDraft(byID(atrium.NewID[atrium.AccountID]()), "b"))
	outcomes, err := e.MapQuarantined(t.Context(), e.change(), r.ID, d.ID, missing)
	if err != nil || outcomes[0].Err != nil {
		t.Fatal(outcomes, err)
	}
	wantCode(t, outcomes[1].Err, atrium.CodeNotFound)
	if n := len(e.records(t)); n > 0 || len(e.quarantined(t, r.ID)) != 1 {
		t.Errorf("%d records were stored, although one entry could not be", n)
	}
	outcomes, err = e.MapQuarantined(t.Context(), e.change(), r.ID, d.ID, drafts("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	for i, stored := range receipts(t, outcomes) {
		if stored.Replayed || e.account(t, stored.AccountID).Domain != "mapped.example" {
			t.Errorf("entry %d: %+v", i, stored)
		}
	}
	if rows := e.auditRows(t, atrium.AuditFilter{Subject: string(r.ID)}, 10); len(rows) != 2 || rows[0].Action != "receiver.map_again" ||
		string(rows[0].Detail) != fmt.Sprintf(`{"accountLogs":2,"deliveries":1,"quarantinedId":"%s"}`, d.ID) {
		t.Errorf("recorded %+v", rows)
	}
	_, err = e.MapQuarantined(t.Context(), e.change(), r.ID, d.ID, drafts("c", "d")) // the mapping has changed
	wantCode(t, err, atrium.CodeNotFound)
	if n := len(e.entries(t)); n != 2 || len(e.quarantined(t, r.ID)) > 0 {
		t.Errorf("%d entries, want 2", n)
	}
	e.wantTotals(t)

	// Requests and nodes that map a delivery at once, with different mappings, store its entries once.
	const delivered, mappers = 10, 4
	var ids []atrium.QuarantinedID
	for range delivered {
		ids = append(ids, e.quarantine(t, r, "{}").ID)
	}
	var mapped atomic.Int64
	parallel(t, mappers, func(i int) {
		for n := range ids {
			id := ids[(n+3*i)%delivered]
			outcomes, err := e.MapQuarantined(t.Context(), e.change(), r.ID, id, drafts(fmt.Sprint(id, i)))
			switch {
			case err == nil && outcomes[0].Err == nil:
				mapped.Add(1)
			case atrium.CodeOf(err) != atrium.CodeNotFound:
				t.Error(outcomes, err)
			}
		}
	})
	if n := len(e.entries(t)); mapped.Load() != delivered || n != 2+delivered {
		t.Errorf("%d deliveries were mapped to %d entries, want %d", mapped.Load(), n-2, delivered)
	}
	e.wantTotals(t)
}

func quarantineDiscarded(t *testing.T, e *env) {
	r, other := e.newReceiver(t, nil), e.newReceiver(t, nil)
	kept := e.quarantine(t, other, "{}")
	for range 250 {
		e.quarantine(t, r, "{}")
	}
	e.clock.step(time.Second)
	late := e.quarantine(t, r, "{}")
	n, more, err := e.DiscardQuarantine(t.Context(), e.change(), r.ID, atrium.QuarantineFilter{Until: &late.ReceivedAt})
	if err != nil || more || n != 250 {
		t.Errorf("discarded %d, %v, %v, want 250", n, more, err)
	}
	if got := e.quarantined(t, r.ID); !slices.Equal(got, []atrium.QuarantinedID{late.ID}) {
		t.Errorf("in quarantine are %q", got)
	}
	if n, more, err = e.DiscardQuarantine(t.Context(), e.change(), r.ID, atrium.QuarantineFilter{}); err != nil || more || n != 1 {
		t.Errorf("discarded %d, %v, %v, want 1", n, more, err)
	}
	if got := e.quarantined(t, other.ID); !slices.Equal(got, []atrium.QuarantinedID{kept.ID}) {
		t.Errorf("in quarantine are %q", got)
	}
	_, _, err = e.DiscardQuarantine(t.Context(), e.change(), atrium.NewID[atrium.ReceiverID](), atrium.QuarantineFilter{})
	wantCode(t, err, atrium.CodeNotFound)
	e.wantTotals(t)
}

func deliveryProblemsCounted(t *testing.T, e *env) {
	e = e.fresh(t)
	other := e.as(e.newTenant(t))
	count := func(want store.DeliveryProblems) {
		t.Helper()
		for next := atrium.TenantID(""); ; {
			var err error
			if next, err = e.CountDeliveryProblems(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			if next == "" {
				break
			}
		}
		if got := e.DeliveryProblems(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if got := e.DeliveryProblems(); got != (store.DeliveryProblems{}) {
		t.Errorf("before the first count: %+v", got)
	}
	count(store.DeliveryProblems{})
	for _, tenant := range []*env{e, other} {
		receiver := tenant.newReceiver(t, nil)
		tenant.quarantine(t, receiver, "{}")
		tenant.quarantine(t, receiver, "{}")
		for _, disabled := range []atrium.DisabledReason{"", atrium.DisabledByFailures, atrium.DisabledByGone, atrium.DisabledByOperator, atrium.DisabledByCopy} {
			w := tenant.newWebhook(t, nil)
			tenant.sql(t, "UPDATE webhooks SET failing_since = 1 WHERE tenant_id = $1 AND webhook_id = $2", storedID(tenant.tenant), storedID(w.ID))
			if disabled != "" {
				tenant.sql(t, "UPDATE webhooks SET disabled_reason = $1 WHERE tenant_id = $2 AND webhook_id = $3", string(disabled), storedID(tenant.tenant), storedID(w.ID))
			}
		}
		tenant.newWebhook(t, nil) // does not fail
	}
	count(store.DeliveryProblems{FailingWebhooks: 2, DisabledWebhooks: 4, Quarantined: 4})
}

func quarantineBounded(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	d := e.quarantine(t, r, "{}")
	set := func(deliveries, bytes int64) {
		t.Helper()
		e.sql(t, "UPDATE quarantine_totals SET deliveries = $1, bytes = $2 WHERE tenant_id = $3", deliveries, bytes, storedID(e.tenant))
	}
	set(atrium.MaxQuarantined, 100) // not true: it is counted again
	e.quarantine(t, r, "{}")
	e.wantTotals(t)
	set(1, atrium.MaxQuarantinedBytes) // nor is this, but counting takes long
	full := d
	full.ID = atrium.NewID[atrium.QuarantinedID]()
	wantCode(t, e.Quarantine(t.Context(), full), atrium.CodeUnavailable)
	e.clock.step(time.Minute)
	e.quarantine(t, r, "{}")
	e.wantTotals(t)
	e.sql(t, "DELETE FROM quarantine_totals WHERE tenant_id = $1", storedID(e.tenant)) // as in a copy
	if err := e.DiscardQuarantined(t.Context(), e.change(), r.ID, d.ID); err != nil {
		t.Fatal(err)
	}
	e.quarantine(t, r, "{}")
	e.wantTotals(t)
	var rows []engine.Args
	for range atrium.MaxQuarantined - 3 {
		rows = append(rows, engine.Args{storedID(e.tenant), storedID(r.ID), storedID(atrium.NewID[atrium.QuarantinedID]()), []byte("[]")})
	}
	e.insertRows(t, `INSERT INTO quarantine (tenant_id, receiver_id, quarantined_id, received_at, request_id, fault, query, headers, body)
		SELECT batch.tenant_id, receiver_id, quarantined_id, 0, '', '', '', body, body FROM batch`,
		[]string{"tenant_id bytea", "receiver_id bytea", "quarantined_id bytea", "body bytea"}, rows)
	set(atrium.MaxQuarantined, 100)
	e.clock.step(time.Minute)
	again := d
	again.ID = atrium.NewID[atrium.QuarantinedID]()
	wantCode(t, e.Quarantine(t.Context(), again), atrium.CodeUnavailable)
	e.sql(t, "DELETE FROM quarantine WHERE tenant_id = $1 AND received_at = 0", storedID(e.tenant))
	e.clock.step(time.Minute)
	again.Query = string(make([]byte, atrium.MaxQuarantinedBytes))
	wantCode(t, e.Quarantine(t.Context(), again), atrium.CodeUnavailable)
	again.Query = ""
	e.clock.step(time.Minute)
	if err := e.Quarantine(t.Context(), again); err != nil {
		t.Error(err)
	}
	e.wantTotals(t)
}

func quarantineExpires(t *testing.T, e *env) {
	r, other := e.newReceiver(t, nil), e.newReceiver(t, nil)
	for range 3 {
		e.quarantine(t, r, "{}")
		e.quarantine(t, other, "{}")
	}
	e.clock.step(time.Second)
	kept := e.quarantine(t, r, "{}")
	e.clock.step(atrium.DefaultQuarantineRetention)
	if _, err := e.DeleteExpiredQuarantine(t.Context(), e.before()); err != nil {
		t.Fatal(err)
	}
	if got := e.quarantined(t, r.ID); !slices.Equal(got, []atrium.QuarantinedID{kept.ID}) {
		t.Errorf("in quarantine are %q", got)
	}
	if got := e.quarantined(t, other.ID); len(got) > 0 {
		t.Errorf("in quarantine are %q", got)
	}
	rows := e.auditRows(t, atrium.AuditFilter{Subject: string(r.ID)}, 10)
	if len(rows) != 2 || rows[0].Action != "receiver.expire" || rows[0].Actor != atrium.ActorRetention || string(rows[0].Detail) != `{"deliveries":3}` {
		t.Errorf("recorded %+v", rows)
	}
	e.wantTotals(t)
}
