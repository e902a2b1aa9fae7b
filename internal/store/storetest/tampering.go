package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"atrium"
	"atrium/internal/auditlog"
)

// tampered is a chain of ten rows to tamper with.
type tampered struct {
	*env
	rows  []atrium.AuditRow // number 1 first
	early auditlog.Head     // of row 5
}

func (c *tampered) set(t tb, number int64, column string, value any) {
	t.Helper()
	c.sql(t, "UPDATE audit SET "+column+" = $1 WHERE tenant_id = $2 AND number = $3", value, idBytes(c.tenant), number)
}

func (c *tampered) remove(t tb, number int64) {
	t.Helper()
	c.sql(t, "DELETE FROM audit WHERE tenant_id = $1 AND number = $2", idBytes(c.tenant), number)
}

// reseal replaces the rows from a number on by the result of alter, with valid seals, and updates
// the head.
func (c *tampered) reseal(t tb, from int64, alter func(*atrium.AuditRow)) {
	t.Helper()
	previous := c.rows[from-2].Hash
	for i := from - 1; i < int64(len(c.rows)); i++ {
		row := c.rows[i]
		alter(&row)
		row.Seal(c.tenant, previous)
		c.remove(t, row.Number)
		c.insert(t, &row)
		previous = row.Hash
	}
	c.setHead(t, int64(len(c.rows)), previous)
}

func tamperingIsFound(t *testing.T, e *env) {
	type flaw = auditlog.Fault
	fault := func(f auditlog.Flaw, number int64) flaw { return flaw{Flaw: f, Number: number} }
	altered := func(column string, value any) func(t tb, c *tampered) {
		return func(t tb, c *tampered) { c.set(t, 6, column, value) }
	}
	for name, c := range map[string]struct {
		want   flaw
		tamper func(t tb, c *tampered)
	}{
		"the number":                   {fault(auditlog.Missing, 10), func(t tb, c *tampered) { c.set(t, 10, "number", int64(11)) }},
		"the time":                     {fault(auditlog.Altered, 6), altered("at", int64(1))},
		"the time, by one microsecond": {fault(auditlog.Altered, 6), func(t tb, c *tampered) { c.set(t, 6, "at", int64(c.rows[5].At)+1) }},
		"the actor":                    {fault(auditlog.Altered, 6), altered("actor", "someone else")},
		"the action":                   {fault(auditlog.Altered, 6), altered("action", "thing.other")},
		"the subject":                  {fault(auditlog.Altered, 6), altered("subject", "thing_other")},
		"the request":                  {fault(auditlog.Altered, 6), altered("request_id", "req_other")},
		"the detail":                   {fault(auditlog.Altered, 6), altered("detail", []byte(`{"n":7}`))},
		"the salt":                     {fault(auditlog.Altered, 6), altered("salt", make([]byte, 16))},
		"the hash of the detail":       {fault(auditlog.Altered, 6), altered("detail_hash", make([]byte, 32))},
		"the hash":                     {fault(auditlog.Altered, 6), altered("hash", make([]byte, 32))},
		"the detail with what belongs to it": {fault(auditlog.Altered, 6), func(t tb, c *tampered) {
			forged := atrium.AuditRow{Detail: []byte(`{"n":7}`)}
			forged.Seal(c.tenant, nil)
			c.set(t, 6, "detail", forged.Detail)
			c.set(t, 6, "salt", forged.Salt)
			c.set(t, 6, "detail_hash", forged.DetailHash)
		}},
		"a row, sealed again": {fault(auditlog.Altered, 7), func(t tb, c *tampered) {
			row := c.rows[5]
			row.Actor = "someone else"
			row.Seal(c.tenant, c.rows[4].Hash)
			c.remove(t, 6)
			c.insert(t, &row)
		}},
		"two rows, swapped": {fault(auditlog.Altered, 6), func(t tb, c *tampered) {
			c.remove(t, 6)
			c.remove(t, 7)
			one, other := c.rows[5], c.rows[6]
			one.Number, other.Number = other.Number, one.Number
			c.insert(t, &one)
			c.insert(t, &other)
		}},
		"the detail taken out": {fault(auditlog.Unrecorded, 6), func(t tb, c *tampered) {
			c.set(t, 6, "detail", nil)
			c.set(t, 6, "salt", nil)
		}},
		"the detail taken out, the salt left": {fault(auditlog.Altered, 6), altered("detail", nil)},
		"a row deleted":                       {fault(auditlog.Missing, 6), func(t tb, c *tampered) { c.remove(t, 6) }},
		"the first row deleted":               {fault(auditlog.Missing, 1), func(t tb, c *tampered) { c.remove(t, 1) }},
		"the last rows deleted": {fault(auditlog.Cut, 8), func(t tb, c *tampered) {
			c.remove(t, 9)
			c.remove(t, 10)
		}},
		"all rows deleted": {fault(auditlog.Cut, 0), func(t tb, c *tampered) {
			for n := range c.rows {
				c.remove(t, int64(n+1))
			}
		}},
		"a row after the head": {fault(auditlog.OtherHead, 10), func(t tb, c *tampered) {
			row := c.rows[9]
			row.Number = 11
			row.Seal(c.tenant, c.rows[9].Hash)
			c.insert(t, &row)
		}},
		"the hash of the head": {fault(auditlog.OtherHead, 10), func(t tb, c *tampered) { c.setHead(t, 10, make([]byte, 32)) }},
		"no head": {fault(auditlog.OtherHead, 0), func(t tb, c *tampered) {
			c.sql(t, "DELETE FROM audit_heads WHERE tenant_id = $1", idBytes(c.tenant))
		}},
		"a row of another tenant": {fault(auditlog.Altered, 6), func(t tb, c *tampered) {
			other := &tampered{env: c.as(c.newTenant(t))}
			other.fill(t)
			row := other.rows[5]
			c.remove(t, 6)
			c.insert(t, &row)
		}},
	} {
		chain := &tampered{env: e.as(e.newTenant(t))}
		chain.fill(t)
		c.tamper(t, chain)
		chain.wantFault(t, name, nil, c.want)
	}
	// A consistent change of all rows is found only with a head that is stored elsewhere.
	for name, c := range map[string]struct {
		want   flaw
		tamper func(t tb, c *tampered)
	}{
		"cut, and the head with it": {fault(auditlog.Cut, 4), func(t tb, c *tampered) {
			for number := int64(5); number <= 10; number++ {
				c.remove(t, number)
			}
			c.setHead(t, 4, c.rows[3].Hash)
		}},
		"all rows sealed again": {fault(auditlog.OtherHead, 5), func(t tb, c *tampered) {
			c.reseal(t, 4, func(row *atrium.AuditRow) { row.Actor = "someone else" })
		}},
	} {
		chain := &tampered{env: e.as(e.newTenant(t))}
		chain.fill(t)
		c.tamper(t, chain)
		chain.wantSound(t, nil)
		chain.wantFault(t, name, &chain.early, c.want)
	}
}

func (c *tampered) fill(t tb) {
	t.Helper()
	for i := range 10 {
		c.forge(t, atrium.AuditRow{
			At: c.clock.instant(), Actor: "key_test", Action: "thing.change", Subject: fmt.Sprint("account_", i), RequestID: "req_test",
			Detail: fmt.Appendf(nil, `{"n":%d}`, i),
		})
		if i == 4 {
			c.early = c.head(t)
		}
	}
	if err := c.ExportAudit(t.Context(), c.tenant, 1, func(row *atrium.AuditRow) error {
		c.rows = append(c.rows, *row)
		return nil
	}); err != nil {
		t.Fatalf("read the chain: %v", err)
	}
}

func (c *tampered) wantFault(t tb, name string, known *auditlog.Head, want auditlog.Fault) {
	t.Helper()
	report, err := c.VerifyAudit(t.Context(), c.tenant, known)
	if err != nil || report.Fault == nil || *report.Fault != want {
		t.Errorf("%s: %v, %v, want %v", name, report.Fault, err, want)
	}
}

func redactionIsExplained(t *testing.T, e *env) {
	const account = "account_5"
	row := func(action, subject, detail string) atrium.AuditRow {
		return atrium.AuditRow{Action: action, Subject: subject, Detail: []byte(detail)}
	}
	erase := func(subject, detail string) atrium.AuditRow { return row(atrium.ActionEraseAccount, subject, detail) }
	remove := func(subject, detail string) atrium.AuditRow {
		return row(atrium.ActionDeleteProspect, subject, detail)
	}
	unrecorded := &auditlog.Fault{Flaw: auditlog.Unrecorded, Number: 11}
	for name, c := range map[string]struct {
		subject string // of row 11, whose detail is redacted
		erase   atrium.AuditRow
		want    *auditlog.Fault
	}{
		"by its erasure":                       {account, erase("account_5", "{}"), nil},
		"by one that names it":                 {account, erase("account_1", `{"redacted":["account_0","account_5"]}`), nil},
		"by one that names others":             {account, erase("account_1", `{"redacted":["account_0"]}`), unrecorded},
		"by one that names it elsewhere":       {account, erase("account_1", `{"redacted":"account_5"}`), unrecorded},
		"by one that names it by another name": {account, erase("account_1", `{"Redacted":["account_5"]}`), unrecorded},
		"by one that names it among others":    {account, erase("account_1", `{"redacted":["account_5",5]}`), unrecorded},
		"by the deletion of it":                {account, remove("account_5", "{}"), unrecorded},
		"by the deletion of a prospect":        {account, remove("prospect_1", `{"redacted":["account_5"]}`), unrecorded},
		"by an action that is not an erasure":  {account, row("account.update", account, "{}"), unrecorded},
		"a prospect, by its deletion":          {"prospect_5", remove("prospect_5", "{}"), nil},
		"a prospect, by an erasure":            {"prospect_5", erase("account_1", `{"redacted":["prospect_5"]}`), unrecorded},
		"a move, by an erasure":                {"move_5", erase("account_1", `{"redacted":["move_5"]}`), nil},
		"a key, by an erasure":                 {"key_5", erase("account_1", `{"redacted":["key_5"]}`), unrecorded},
		"a page, by its own erasure":           {"page_5", erase("page_5", "{}"), unrecorded},
		"a page, by its own deletion":          {"page_5", remove("page_5", "{}"), unrecorded},
	} {
		chain := &tampered{env: e.as(e.newTenant(t))}
		chain.fill(t)
		chain.forge(t, row("thing.change", c.subject, `{"n":11}`))
		chain.set(t, 11, "detail", nil)
		chain.set(t, 11, "salt", nil)
		chain.forge(t, c.erase)
		for known, head := range map[string]*auditlog.Head{"none": nil, "an early one": &chain.early} {
			stored, err := chain.VerifyAudit(t.Context(), chain.tenant, head)
			if err != nil || (stored.Fault == nil) != (c.want == nil) || c.want != nil && *stored.Fault != *c.want {
				t.Errorf("%s, with the known head %s: %v, %v, want %v", name, known, stored.Fault, err, c.want)
			}
		}
		lines, err := auditlog.VerifyLines(bytes.NewReader(chain.exportedAudit(t, 1)), chain.tenant, nil)
		if err != nil || (lines.Fault == nil) != (c.want == nil) || lines.Redacted != 1 {
			t.Errorf("%s, exported: %+v, %v", name, lines, err)
		}
	}
	// An erasure whose own row has no detail explains no redaction.
	chain := &tampered{env: e.as(e.newTenant(t))}
	chain.fill(t)
	chain.forge(t, atrium.AuditRow{Action: atrium.ActionEraseAccount, Subject: "account_5", Detail: []byte("{}")})
	for _, number := range []int64{6, 11} {
		chain.set(t, number, "detail", nil)
		chain.set(t, number, "salt", nil)
	}
	chain.wantFault(t, "by one without detail", nil, auditlog.Fault{Flaw: auditlog.Unrecorded, Number: 6})
}

func erasuresStayRecorded(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.rename(t, a.ID, "Secret")
	e.merge(t, a.ID, b.ID)
	e.erase(t, a.ID)
	again := e.newAccount("again.example", "")
	again.ID = b.ID
	if _, err := e.Import(t.Context(), e.change(), items(again)); err != nil {
		t.Fatal(err)
	}
	e.rename(t, b.ID, "Secret")
	e.erase(t, b.ID)
	if report := e.wantSound(t, nil); report.Redacted == 0 {
		t.Error("no row was redacted")
	}
}
