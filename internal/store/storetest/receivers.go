package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

var tenantReceivers = []guarantee{
	{"a receiver is stored, changed, disabled and deleted", receiverStored},
	{"a request finds a receiver by its identifier alone, with the secrets that are valid", receiverFound},
	{"secrets of receivers are encrypted, and two are valid after a rotation", receiverSecrets},
	{"a repeated creation returns the same receiver, and there are at most so many", receiverCreatedOnce},
	{"a receiver is created only after the upgrade is finished", receiverAfterUpgrade},
	{"a delivery in quarantine is stored as it was received, and listed by time", quarantineStored},
	{"a delivery in quarantine is removed once, and a receiver is deleted only without any", quarantineRemoved},
	{"a delivery in quarantine is mapped once, to all of its entries or none", quarantineMapped},
	{"all deliveries of a receiver in quarantine are discarded in bounded transactions", quarantineDiscarded},
	{"the quarantine of a tenant is bounded in deliveries and bytes", quarantineBounded},
	{"deliveries that were in quarantine for too long are deleted, and recorded", quarantineExpires},
	{"an erasure of a person deletes deliveries in quarantine by their texts", quarantineErased},
	{"a check of an erasure has each delivery in quarantine once", quarantineChecked},
	{"receivers and quarantines of another tenant are not found", receiversOfOthers},
	{"a receiver of a tenant that is being deleted is not found, and takes no delivery", receiverOfDeleted},
}

func (e *env) newReceiver(t tb, change func(*atrium.ReceiverSpec)) atrium.Receiver {
	t.Helper()
	r := atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID](), ReceiverSpec: atrium.ReceiverSpec{Name: "GitHub", Provider: atrium.ProviderGitHub, Source: "github"}}
	if change != nil {
		change(&r.ReceiverSpec)
	}
	made, _, err := e.CreateReceiver(t.Context(), e.change(), r, newReceiverSecret("first"))
	if err != nil {
		t.Fatalf("create a receiver: %v", err)
	}
	return made
}

func newReceiverSecret(value string) atrium.ReceiverSecret {
	return atrium.ReceiverSecret{ID: atrium.NewID[atrium.ReceiverSecretID](), Value: []byte(value)}
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

func receiverStored(t *testing.T, e *env) {
	full := func(s *atrium.ReceiverSpec) {
		*s = atrium.ReceiverSpec{
			Name: "Shop", Provider: atrium.ProviderHMAC, Source: "shop",
			Verification: atrium.Verification{
				Header: "x-signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v1=", Content: "{timestamp}.{body}", TimestampHeader: "x-timestamp",
				IDHeader: "x-id", Tolerance: 300, Username: "user",
			},
			Mapping: atrium.Mapping{
				Filter: "true", Type: "body.type", AccountID: "body.id", Domain: "body.domain", Email: "body.email", Name: "body.name",
				OccurredAt: "body.at", EventID: "body.event",
			},
		}
	}
	r := e.newReceiver(t, full)
	if got, err := e.Receiver(t.Context(), e.tenant, r.ID); err != nil || !reflect.DeepEqual(got, r) || !got.Enabled {
		t.Errorf("stored %+v, %v, want %+v", got, err, r)
	}
	other := e.newReceiver(t, nil)
	all, more, err := e.Receivers(t.Context(), e.tenant, nil, 1)
	if err != nil || !more || len(all) != 1 || all[0].ID != other.ID {
		t.Errorf("list %+v, %v, %v", all, more, err)
	}
	all, more, err = e.Receivers(t.Context(), e.tenant, atrium.PositionAt(0, other.ID), 10)
	if err != nil || more || len(all) != 1 || !reflect.DeepEqual(all[0], r) {
		t.Errorf("list %+v, %v, %v", all, more, err)
	}

	refused := errors.New("refused")
	rename := func(r atrium.Receiver) atrium.ReceiverSpec {
		r.Name, r.Mapping.Type = "Renamed", "'deal'"
		return r.ReceiverSpec
	}
	if _, err := e.UpdateReceiver(t.Context(), e.change(), r.ID, rename, func(atrium.Receiver) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of check", err)
	}
	updated, err := e.UpdateReceiver(t.Context(), e.change(), r.ID, rename, accept[atrium.Receiver])
	if err != nil || updated.Name != "Renamed" || updated.UpdatedAt <= r.UpdatedAt {
		t.Errorf("updated %+v, %v", updated, err)
	}
	same, err := e.UpdateReceiver(t.Context(), e.change(), r.ID, rename, accept[atrium.Receiver])
	if got, err2 := e.Receiver(t.Context(), e.tenant, r.ID); err != nil || err2 != nil || !reflect.DeepEqual(got, updated) || !reflect.DeepEqual(same, updated) {
		t.Errorf("stored %+v, want %+v, %v, %v", got, updated, err, err2)
	}
	for _, enabled := range []bool{false, false, true} {
		got, err := e.EnableReceiver(t.Context(), e.change(), r.ID, enabled, accept[atrium.Receiver])
		found, _, err2 := e.FindReceiver(t.Context(), r.ID)
		if err != nil || err2 != nil || got.Enabled != enabled || found.Enabled != enabled {
			t.Errorf("enabled %v, %v, %v, %v, want %v", got.Enabled, found.Enabled, err, err2, enabled)
		}
	}
	if err := e.DeleteReceiver(t.Context(), e.change(), r.ID, func(atrium.Receiver) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of check", err)
	}
	if err := e.DeleteReceiver(t.Context(), e.change(), r.ID, accept[atrium.Receiver]); err != nil {
		t.Error(err)
	}
	_, err = e.Receiver(t.Context(), e.tenant, r.ID)
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = e.FindReceiver(t.Context(), r.ID)
	wantCode(t, err, atrium.CodeNotFound)
	for _, table := range []string{"receivers", "receiver_secrets", "receiver_tenants"} {
		if rows := e.dump(t)[table]; len(rows) != 1 {
			t.Errorf("%d rows in %s, want that of the other receiver", len(rows), table)
		}
	}
	var actions []string
	for _, row := range e.auditRows(t, atrium.AuditFilter{Subject: string(r.ID)}, 10) {
		actions = append(actions, row.Action)
		if bytes.Contains(row.Detail, []byte("first")) {
			t.Errorf("a record has the secret: %s", row.Detail)
		}
	}
	want := []string{"receiver.delete", "receiver.enable", "receiver.disable", "receiver.update", "receiver.create"}
	if !slices.Equal(actions, want) {
		t.Errorf("recorded %q, want %q", actions, want)
	}
}

func receiverFound(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	other := e.as(e.newTenant(t))
	theirs := other.newReceiver(t, nil)
	for _, want := range []atrium.Receiver{r, theirs} {
		got, valid, err := e.FindReceiver(t.Context(), want.ID)
		if err != nil || !reflect.DeepEqual(got, want) || len(valid) != 1 || string(valid[0].Value) != "first" {
			t.Errorf("found %+v with %d secrets, %v, want %+v", got, len(valid), err, want)
		}
	}
	_, _, err := e.FindReceiver(t.Context(), atrium.NewID[atrium.ReceiverID]())
	wantCode(t, err, atrium.CodeNotFound)
}

func receiverSecrets(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	rotate := func(value string, grace time.Duration) {
		t.Helper()
		if _, err := e.RotateReceiverSecret(t.Context(), e.change(), r.ID, newReceiverSecret(value), grace, accept[atrium.Receiver]); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...string) {
		t.Helper()
		_, all, err := e.FindReceiver(t.Context(), r.ID)
		var got []string
		for _, s := range all {
			got = append(got, string(s.Value))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("secrets %q, %v, want %q", got, err, want)
		}
	}
	want("first")
	rotate("second", time.Hour)
	want("second", "first")
	e.clock.step(time.Hour - time.Millisecond)
	want("second", "first")
	e.clock.step(time.Millisecond)
	want("second")
	rotate("third", time.Hour)
	want("third", "second")
	rotate("fourth", 0)
	want("fourth")
	for _, row := range e.dump(t)["receiver_secrets"] {
		for _, value := range row {
			if bytes.Contains([]byte(value), []byte("666f75727468")) { // fourth
				t.Errorf("a secret is not encrypted: %s", value)
			}
		}
	}
	other := e.node()
	other.UseSecrets(nil)
	_, _, err := other.FindReceiver(t.Context(), r.ID)
	if !errors.Is(err, secrets.ErrNoKeys) {
		t.Errorf("without keys: %v", err)
	}
	_, _, err = other.CreateReceiver(t.Context(), e.change(), atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID]()}, newReceiverSecret("x"))
	wantCode(t, err, atrium.CodeConflict)
}

func receiverCreatedOnce(t *testing.T, e *env) {
	receiver := func() atrium.Receiver {
		return atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID](), ReceiverSpec: atrium.ReceiverSpec{Name: "a", Provider: atrium.ProviderSlack, Source: "slack"}}
	}
	first, replayed, err := e.CreateReceiver(t.Context(), e.keyed("receiver", "same"), receiver(), newReceiverSecret("a"))
	if err != nil || replayed {
		t.Fatal(replayed, err)
	}
	again, replayed, err := e.CreateReceiver(t.Context(), e.keyed("receiver", "same"), receiver(), newReceiverSecret("b"))
	if err != nil || !replayed || !reflect.DeepEqual(again, first) {
		t.Errorf("again %+v, %v, %v, want %+v", again, replayed, err, first)
	}
	_, _, err = e.CreateReceiver(t.Context(), e.keyed("receiver", "other"), receiver(), newReceiverSecret("b"))
	wantCode(t, err, atrium.CodeIdempotencyKeyReused)
	var rows []engine.Args
	for range atrium.MaxReceivers - 1 {
		rows = append(rows, engine.Args{storedID(e.tenant), storedID(atrium.NewID[atrium.ReceiverID]()), []byte("{}")})
	}
	e.insertRows(t, `INSERT INTO receivers (tenant_id, receiver_id, name, provider, verification, source, mapping, enabled, created_at, updated_at)
		SELECT batch.tenant_id, receiver_id, '', '', json, '', json, 1, 0, 0 FROM batch`, []string{"tenant_id bytea", "receiver_id bytea", "json bytea"}, rows)
	_, _, err = e.CreateReceiver(t.Context(), e.change(), receiver(), newReceiverSecret("b"))
	wantCode(t, err, atrium.CodeConflict)
}

func receiverAfterUpgrade(t *testing.T, e *env) {
	e = e.fresh(t)
	e.sql(t, "UPDATE settings SET name = 'set aside' WHERE name = $1", register.Finished)
	r := atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID](), ReceiverSpec: atrium.ReceiverSpec{Provider: atrium.ProviderGitHub}}
	_, _, err := e.CreateReceiver(t.Context(), e.change(), r, newReceiverSecret("a"))
	wantCode(t, err, atrium.CodeConflict)
	if err := e.FinishUpgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.newReceiver(t, nil)
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
	if err := e.SetQuarantineFaults(t.Context(), e.tenant, r.ID, map[atrium.QuarantinedID]string{d.ID: "no domain"}); err != nil {
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
	parallel(4, func(i int) {
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
	parallel(mappers, func(i int) {
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

// personalDeliveries stores deliveries in quarantine that a rule with the text selects, and others.
func (e *env) personalDeliveries(t tb, r atrium.Receiver) (matching, others []atrium.QuarantinedID) {
	t.Helper()
	form := func(d *atrium.QuarantinedDelivery) {
		d.Headers[0].Value = "application/x-www-form-urlencoded; charset=utf-8"
	}
	for _, d := range []struct {
		body   string
		change func(*atrium.QuarantinedDelivery)
		match  bool
	}{
		{`{"to":"jane.doe@example.com"}`, nil, true},
		{`{"to":"jane.doe@example.com","to":1}`, nil, true},
		{`{"to":"\u006aane.doe@example.com"}`, nil, true},
		{"{\"a\":\"\xff\",\"to\":\"JANE.DOE@example.com\"}", nil, true},
		{`{"to":"jane.doe@example.com"`, nil, true},
		{`{"to": jane.doe@example.com}`, nil, true},
		{`{"jane.doe@example.com":1} {}`, nil, true},
		{`to=jane.doe%40example.com`, form, true},
		{`payload=%7B%22to%22%3A%22jane.doe%40example.com%22%7D`, form, true},
		{`to=jane.doe%40example.com`, nil, true},
		{`Dear jane.doe@example.com,`, nil, true},
		{`{}`, func(d *atrium.QuarantinedDelivery) { d.Query = "to=jane.doe%40example.com" }, true},
		{`{}`, func(d *atrium.QuarantinedDelivery) {
			d.Headers = append(d.Headers, atrium.Header{Name: "from", Value: person})
		}, true},
		{``, func(d *atrium.QuarantinedDelivery) { d.Query = "%zz=jane.doe@example.com" }, true},
		{`{"to":"not.jane.doe@example.com"}`, nil, false}, // a part of a string
		{`to=not.jane.doe%40example.com`, form, false},
		{`{}`, nil, false},
		{``, nil, false},
		{`7`, nil, false},
	} {
		e.clock.step(time.Millisecond)
		changes := []func(*atrium.QuarantinedDelivery){}
		if d.change != nil {
			changes = append(changes, d.change)
		}
		id := e.quarantine(t, r, d.body, changes...).ID
		if d.match {
			matching = append(matching, id)
		} else {
			others = append(others, id)
		}
	}
	return matching, others
}

func quarantineErased(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	matching, others := e.personalDeliveries(t, r)
	account := e.record(t, byDomain("erased.example")).AccountID
	for _, rule := range []atrium.ErasureRequest{ // of entries or prospects only
		{Rule: atrium.ErasureRule{ProspectEmail: person}},
		{Rule: atrium.ErasureRule{Text: person}, AccountID: account},
		{Rule: atrium.ErasureRule{Text: person, MoveRule: atrium.MoveRule{ClaimedDomain: "erased.example"}}},
		{Rule: atrium.ErasureRule{Text: person, EntryIDs: []atrium.EntryID{atrium.NewID[atrium.EntryID]()}}},
	} {
		if done := e.finishErasure(t, e.startErasure(t, rule).ID); done.Quarantined != 0 {
			t.Errorf("%+v erased %d deliveries", rule, done.Quarantined)
		}
	}
	var exported []atrium.QuarantinedID
	for _, r := range e.exportPerson(t, atrium.ErasureRequest{Rule: personal()}) {
		if d, ok := r.(*atrium.QuarantinedDelivery); ok {
			exported = append(exported, d.ID)
		}
	}
	if !slices.Equal(exported, matching) {
		t.Errorf("exported %q, want %q", exported, matching)
	}
	done := e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{Rule: personal()}).ID)
	if done.Quarantined != int64(len(matching)) {
		t.Errorf("erased %d deliveries, want %d", done.Quarantined, len(matching))
	}
	slices.Reverse(others)
	if got := e.quarantined(t, r.ID); !slices.Equal(got, others) {
		t.Errorf("in quarantine are %q, want %q", got, others)
	}
	e.wantTotals(t)
	done = e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{TextContains: "jane.doe"}}).ID)
	if got := e.quarantined(t, r.ID); done.Quarantined != 2 || len(got) != 3 {
		t.Errorf("erased %d deliveries, and %d are left", done.Quarantined, len(got))
	}
}

func quarantineChecked(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	matching, _ := e.personalDeliveries(t, r)
	entry := e.record(t, byName("person"), payload(`{"to":"`+person+`"}`))
	if _, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Email: pointer(person)}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 2, 3, 100} {
		var entries, prospects int
		var got []atrium.QuarantinedID
		for after, pages := (*atrium.Position)(nil), 0; pages == 0 || after != nil; pages++ {
			page, next, err := e.CheckErasure(t.Context(), e.tenant, atrium.ErasureRequest{Rule: personal()}, after, limit)
			if err != nil || len(page) > limit || pages > 50 {
				t.Fatal(len(page), pages, err)
			}
			after = next
			for _, m := range page {
				switch {
				case m.QuarantinedID != "":
					if got = append(got, m.QuarantinedID); m.ReceiverID != r.ID || m.CreatedAt == 0 {
						t.Errorf("found %+v", m)
					}
				case m.ProspectID != "":
					prospects++
				case m.EntryID == entry.EntryID:
					entries++
				}
			}
		}
		if entries != 1 || prospects != 1 || !slices.Equal(got, matching) {
			t.Errorf("pages of %d: %d entries, %d prospects and %q, want %q", limit, entries, prospects, got, matching)
		}
	}
}

func receiversOfOthers(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	d := e.quarantine(t, r, "{}")
	other := e.as(e.newTenant(t))
	_, err := other.Receiver(t.Context(), other.tenant, r.ID)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = other.UpdateReceiver(t.Context(), other.change(), r.ID, func(r atrium.Receiver) atrium.ReceiverSpec { return r.ReceiverSpec }, accept[atrium.Receiver])
	wantCode(t, err, atrium.CodeNotFound)
	_, err = other.EnableReceiver(t.Context(), other.change(), r.ID, false, accept[atrium.Receiver])
	wantCode(t, err, atrium.CodeNotFound)
	_, err = other.RotateReceiverSecret(t.Context(), other.change(), r.ID, newReceiverSecret("x"), 0, accept[atrium.Receiver])
	wantCode(t, err, atrium.CodeNotFound)
	wantCode(t, other.DeleteReceiver(t.Context(), other.change(), r.ID, accept[atrium.Receiver]), atrium.CodeNotFound)
	_, err = other.QuarantinedDelivery(t.Context(), other.tenant, r.ID, d.ID)
	wantCode(t, err, atrium.CodeNotFound)
	wantCode(t, other.DiscardQuarantined(t.Context(), other.change(), r.ID, d.ID), atrium.CodeNotFound)
	_, _, err = other.DiscardQuarantine(t.Context(), other.change(), r.ID, atrium.QuarantineFilter{})
	wantCode(t, err, atrium.CodeNotFound)
	_, err = other.MapQuarantined(t.Context(), other.change(), r.ID, d.ID, []*atrium.Draft{other.keyDraft(byName("others"), "a")})
	wantCode(t, err, atrium.CodeNotFound)
	theirs := d
	theirs.ID, theirs.TenantID = atrium.NewID[atrium.QuarantinedID](), other.tenant
	wantCode(t, other.Quarantine(t.Context(), theirs), atrium.CodeNotFound)
	all, more, err := other.QuarantinedDeliveries(t.Context(), other.tenant, r.ID, atrium.QuarantineFilter{}, nil, 10)
	if err != nil || more || len(all) > 0 {
		t.Errorf("listed %+v, %v", all, err)
	}
	if next, err := other.NextQuarantined(t.Context(), other.tenant, r.ID, nil, 10); err != nil || len(next) > 0 {
		t.Errorf("next are %+v, %v", next, err)
	}
	if got := e.quarantined(t, r.ID); len(got) != 1 {
		t.Errorf("in quarantine are %q", got)
	}
}

func receiverOfDeleted(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	d := e.quarantine(t, r, "{}")
	e.beginDeletion(t)
	_, _, err := e.FindReceiver(t.Context(), r.ID)
	wantCode(t, err, atrium.CodeNotFound)
	d.ID = atrium.NewID[atrium.QuarantinedID]()
	wantCode(t, e.Quarantine(t.Context(), d), atrium.CodeNotFound)
}
