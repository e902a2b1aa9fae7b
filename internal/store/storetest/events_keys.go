package storetest

import (
	"testing"
	"time"

	"atrium"
)

var keyNotices = []guarantee{
	{concurrent + "a key that expires is reported once, by all nodes together", expiringKeys},
}

// reportKeys reports the keys of all tenants that expire.
func (e *env) reportKeys(t tb) {
	t.Helper()
	for after := e.before(); ; {
		next, err := e.ReportExpiringKeys(t.Context(), after)
		if err != nil {
			t.Errorf("report keys: %v", err)
		}
		if after = next; after == "" || after > e.tenant {
			return
		}
	}
}

func expiringKeys(t *testing.T, e *env) {
	create := func(e *env, life time.Duration) atrium.KeyID {
		k, _, err := e.CreateKey(t.Context(), e.change(), atrium.APIKey{
			ID: atrium.NewID[atrium.KeyID](), Name: "key", Scopes: atrium.ExternalScopes(), ExpiresAt: e.in(life),
		}, secretHash(1))
		if err != nil {
			t.Fatal(err)
		}
		return k.ID
	}
	off := create(e, time.Hour)
	e = e.withEvents(t)
	first, revoked, later := create(e, atrium.KeyExpiryNotice), create(e, time.Hour), create(e, atrium.KeyExpiryNotice+time.Hour)
	e.newKey(t, atrium.NewID[atrium.KeyID]()) // never expires
	if _, err := e.RevokeKey(t.Context(), e.change(), revoked, func(atrium.APIKey) error { return nil }); err != nil {
		t.Fatal(err)
	}
	report := func() { e.onTwoNodes(t, func(e *env, _ int) { e.reportKeys(t) }) }
	report()
	subject := func(ev atrium.Event, want atrium.KeyID) {
		t.Helper()
		if ev.Audit.Subject != string(want) || ev.Audit.Actor != atrium.ActorExpiry {
			t.Errorf("the event is about %+v, want %s", ev.Audit, want)
		}
	}
	subject(e.wantEvents(t, 0, atrium.EventKeyExpiring)[0], first)
	e.clock.step(2 * time.Hour)
	report()
	subject(e.wantEvents(t, 1, atrium.EventKeyExpiring)[0], later)
	e.clock.step(atrium.KeyExpiryNotice)
	report()
	e.wantEvents(t, 2)
	if rows := e.auditRows(t, atrium.AuditFilter{Subject: string(off)}, 10); len(rows) > 0 {
		t.Errorf("without events, records are %+v", rows)
	}
}
