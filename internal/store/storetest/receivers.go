package storetest

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

var tenantReceivers = []guarantee{
	{"a receiver is stored, changed, disabled and deleted", receiverStored},
	{"a request finds a receiver by its identifier alone, with the secrets that are valid", receiverFound},
	{"secrets of receivers are encrypted, and two are valid after a rotation", receiverSecrets},
	{"a repeated creation returns the same receiver, and there are at most so many", receiverCreatedOnce},
	{"a receiver is created only after the upgrade is finished", receiverAfterUpgrade},
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
