package storetest

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auditlog"
)

// exportedFault returns the fault of an exported audit log. If the log cannot be exported or read
// back, that counts as want.
func (c *tampered) exportedFault(t tb, known *auditlog.Head, want auditlog.Fault) *auditlog.Fault {
	t.Helper()
	var lines []byte
	if err := c.ExportAudit(t.Context(), c.tenant, 1, func(row *atrium.AuditRow) (err error) {
		lines, err = auditlog.AppendLine(lines, row)
		return err
	}); err != nil {
		return &want
	}
	report, err := auditlog.VerifyLines(bytes.NewReader(lines), c.tenant, known)
	if err != nil {
		return &want
	}
	return report.Fault
}

// wantFound checks that a fault is found in the database and in an export.
func (c *tampered) wantFound(t tb, name string, want auditlog.Fault) {
	t.Helper()
	for head, known := range map[string]*auditlog.Head{"": nil, ", with a head": &c.early} {
		c.wantFault(t, name+head, known, want)
		if fault := c.exportedFault(t, known, want); fault == nil || *fault != want {
			t.Errorf("%s%s, exported: %v, want %v", name, head, fault, want)
		}
	}
}

func numbersAreChecked(t *testing.T, e *env) {
	fault := func(f auditlog.Flaw, number int64) auditlog.Fault { return auditlog.Fault{Flaw: f, Number: number} }
	forge := func(number int64) func(tb, *tampered) {
		return func(t tb, c *tampered) {
			row := c.rows[9]
			row.Number = number
			row.Seal(c.tenant, c.rows[9].Hash)
			c.insert(t, &row)
		}
	}
	for name, f := range map[string]struct {
		want   auditlog.Fault
		tamper func(t tb, c *tampered)
	}{
		"row 0":                       {fault(auditlog.Misplaced, 0), forge(0)},
		"row -1":                      {fault(auditlog.Misplaced, -1), forge(-1)},
		"the lowest number":           {fault(auditlog.Misplaced, math.MinInt64), forge(math.MinInt64)},
		"the number after the head":   {fault(auditlog.OtherHead, 10), forge(11)},
		"a number far after the head": {fault(auditlog.Missing, 11), forge(1000)},
		"the highest number":          {fault(auditlog.Missing, 11), forge(math.MaxInt64)},
		"the highest number in the head too": {fault(auditlog.Missing, 11), func(t tb, c *tampered) {
			forge(math.MaxInt64)(t, c)
			c.setHead(t, math.MaxInt64, c.rows[9].Hash)
		}},
		"another hash in the head":   {fault(auditlog.OtherHead, 10), func(t tb, c *tampered) { c.setHead(t, 10, make([]byte, 32)) }},
		"another number in the head": {fault(auditlog.OtherHead, 9), func(t tb, c *tampered) { c.setHead(t, 9, c.rows[9].Hash) }},
		"a missing row":              {fault(auditlog.Missing, 6), func(t tb, c *tampered) { c.remove(t, 6) }},
		"the first, missing":         {fault(auditlog.Missing, 1), func(t tb, c *tampered) { c.remove(t, 1) }},
		"the last, missing":          {fault(auditlog.Cut, 9), func(t tb, c *tampered) { c.remove(t, 10) }},
		"all rows but row 0":         {fault(auditlog.Misplaced, 0), onlyRow(0)},
		"all rows but row 12":        {fault(auditlog.Missing, 1), onlyRow(12)},
	} {
		c := &tampered{env: e.as(e.newTenant(t))}
		c.fill(t)
		f.tamper(t, c)
		c.wantFound(t, name, f.want)
		for _, limit := range []int{1, 3, 100} {
			if !c.listIsRefused(t, limit) {
				t.Errorf("%s: it is listed, %d rows a page", name, limit)
			}
		}
	}
}

// onlyRow deletes all rows of a chain but one, and changes its number.
func onlyRow(number int64) func(tb, *tampered) {
	return func(t tb, c *tampered) {
		for n := int64(2); n <= 10; n++ {
			c.remove(t, n)
		}
		c.set(t, 1, "number", number)
	}
}

// listIsRefused reports whether a page of a list returns the error of a broken log.
func (c *tampered) listIsRefused(t tb, limit int) bool {
	t.Helper()
	for next, first := int64(0), true; first || next != 0; first = false {
		var err error
		if _, next, err = c.AuditRows(t.Context(), c.tenant, atrium.AuditFilter{}, next, limit); err != nil {
			if atrium.CodeOf(err) != atrium.CodeInternal || !strings.Contains(err.Error(), "atrium audit verify") {
				t.Errorf("error %v", err)
			}
			return true
		}
	}
	return false
}

func endOfAListIsChecked(t *testing.T, e *env) {
	c := &tampered{env: e.as(e.newTenant(t))}
	c.fill(t)
	_, next, err := c.AuditRows(t.Context(), c.tenant, atrium.AuditFilter{}, 0, 6)
	if err != nil || next != 5 {
		t.Fatalf("the first page ends before row %d, %v", next, err)
	}
	for n := int64(1); n < 5; n++ {
		c.remove(t, n)
	}
	if rows, _, err := c.AuditRows(t.Context(), c.tenant, atrium.AuditFilter{}, next, 6); atrium.CodeOf(err) != atrium.CodeInternal {
		t.Errorf("the last page has the rows %v, %v", numbersOf(rows), err)
	}
}

func filteredListsAreChecked(t *testing.T, e *env) {
	for _, number := range []int64{0, 11} {
		c := &tampered{env: e.as(e.newTenant(t))}
		c.fill(t)
		row := c.rows[9]
		row.Number = number
		row.Seal(c.tenant, c.rows[9].Hash)
		c.insert(t, &row)
		for _, f := range []atrium.AuditFilter{{Subject: row.Subject}, {Actor: row.Actor}, {Subject: "page_other"}} {
			if rows, _, err := c.AuditRows(t.Context(), c.tenant, f, 0, 100); atrium.CodeOf(err) != atrium.CodeInternal {
				t.Errorf("with row %d, %+v lists %v, %v", number, f, numbersOf(rows), err)
			}
		}
	}
}
