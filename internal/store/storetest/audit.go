package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store/engine"
)

var audits = []guarantee{
	{"every change has an audit row with the values before and after", changesAreRecorded},
	{"a request that changes nothing has no audit row", nothingIsNotRecorded},
	{"an imported chunk has one audit row with the number of new records of each kind", importIsRecorded},
	{"audit rows are filtered by action, actor, subject and time, each once, at any page size", rowsListed},
	{"a page of the audit log reads a bounded number of rows and continues after them", rowsListedInParts},
	{"the rows of a page are those of it, its audiences, their versions, also retired ones, and its previews, at any page size", rowsOfAPage},
	{"the operators have their own audit log", chainsApart},
	{concurrent + "changes on several nodes form one chain", oneChain},
	{"a chain verifies from its first row to its head, and with every earlier head", chainIsRight},
	{"an exported audit log verifies like the stored one", exportIsRight},
	{"every kind of tampering is found at the first affected row", tamperingIsFound},
	{"a row without detail is valid only if another row records its redaction", redactionIsExplained},
	{"an erasure keeps the audit rows of earlier erasures", erasuresStayRecorded},
	{"moving bytes between the detail and the salt of a row is found", detailsAreNotHidden},
	{"seals of version 1 are valid only before those of version 2, and only with a salt of 16 bytes", formerSealsHold},
	{"missing rows, and rows with numbers below 1 or above the head, are found and not listed", numbersAreChecked},
	{"rows that are deleted between two pages of a list are missed", endOfAListIsChecked},
	{"a filtered list is refused too while rows are outside of 1 to the head", filteredListsAreChecked},
}

// auditRows returns all rows of a list.
func (e *env) auditRows(t tb, f atrium.AuditFilter, limit int) (rows []atrium.AuditRow) {
	t.Helper()
	for next, first := int64(0), true; first || next != 0; first = false {
		found, below, err := e.AuditRows(t.Context(), e.tenant, f, next, limit)
		if err != nil || len(found) > limit {
			t.Fatalf("list rows: %d of %d, %v", len(found), limit, err)
		}
		rows, next = append(rows, found...), below
	}
	return rows
}

func numbersOf(rows []atrium.AuditRow) (numbers []int64) {
	for i := range rows {
		numbers = append(numbers, rows[i].Number)
	}
	return numbers
}

func changesAreRecorded(t *testing.T, e *env) {
	b := e.brand(t, "Hearth")
	e.clock.step(time.Second)
	c := e.change()
	c.Actor, c.RequestID = atrium.ActorCommandLine, ""
	if _, err := e.UpdateBrand(t.Context(), c, b.ID, pointer("Home"), accept); err != nil {
		t.Fatal(err)
	}
	rows := e.auditRows(t, atrium.AuditFilter{}, 10)
	if len(rows) != 2 {
		t.Fatalf("rows %+v", rows)
	}
	second, first := rows[0], rows[1]
	if first.Number != 1 || first.Actor != "key_test" || first.RequestID != "req_test" || first.Action != "brand.create" || first.Subject != string(b.ID) ||
		first.At != b.CreatedAt || string(first.Detail) != `{"after":{"name":"Hearth"}}` {
		t.Errorf("the first is %+v, %s", first, first.Detail)
	}
	if second.Number != 2 || second.Actor != "command line" || second.RequestID != "" || second.Action != "brand.update" || second.At != e.clock.instant() ||
		string(second.Detail) != `{"after":{"name":"Home"},"before":{"name":"Hearth"}}` {
		t.Errorf("the second is %+v, %s", second, second.Detail)
	}
}

func nothingIsNotRecorded(t *testing.T, e *env) {
	b := e.brand(t, "Hearth")
	_, _ = e.UpdateBrand(t.Context(), e.change(), b.ID, pointer("Hearth"), accept)
	_, _ = e.UpdateBrand(t.Context(), e.change(), atrium.NewID[atrium.BrandID](), pointer("x"), accept)
	if _, _, err := e.CreateBrand(t.Context(), e.keyed("once", "Other"), "Other"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.CreateBrand(t.Context(), e.keyed("once", "Other"), "Other"); err != nil {
		t.Fatal(err)
	}
	if rows := e.auditRows(t, atrium.AuditFilter{}, 10); len(rows) != 2 {
		t.Errorf("two changes have %d rows", len(rows))
	}
	if head, err := e.as(e.newTenant(t)).head(t), error(nil); head.Number != 0 || err != nil {
		t.Errorf("a new tenant has the head %v", head)
	}
}

func importIsRecorded(t *testing.T, e *env) {
	records := e.oneOfEach()
	c := e.change()
	for range 2 { // the second import adds nothing
		if _, err := e.Import(t.Context(), c, items(records...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Import(t.Context(), c, items(append(records, e.newAccount("other.example", ""), e.newPage(atrium.PageDraft), e.newAccount("third.example", ""))...)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Import(t.Context(), c, items(e.newAccount("lost.example", ""), e.newAccount("acme.example", ""))); err == nil {
		t.Fatal("two accounts have one domain")
	}
	rows := e.auditRows(t, atrium.AuditFilter{}, 10)
	if len(rows) != 2 || rows[0].Action != "import" || rows[0].Subject != string(e.tenant) || rows[0].Actor != "key_test" || rows[0].RequestID != "req_test" ||
		string(rows[0].Detail) != `{"accounts":2,"pages":1}` || string(rows[1].Detail) != `{"accounts":1,"audiences":1,"entries":1,"pages":1,"prospects":1,"versions":1}` {
		t.Errorf("rows %+v", rows)
	}
	e.wantSound(t, nil)
}

// head returns the head of the tenant's audit log.
func (e *env) head(t tb) auditlog.Head {
	t.Helper()
	head, err := e.AuditHead(t.Context(), e.tenant)
	if err != nil {
		t.Fatalf("read a head: %v", err)
	}
	return head
}

func rowsListed(t *testing.T, e *env) {
	first := e.brand(t, "first") // row 1
	began := e.clock.instant()
	for i := range 3 { // rows 2 to 7: a brand by one key, a key by another
		e.clock.step(time.Second)
		e.brand(t, strconv.Itoa(i))
		c := e.change()
		c.Actor = "key_other"
		if _, _, err := e.CreateKey(t.Context(), c, atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "key"}, secretHash(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.DeleteBrand(t.Context(), e.change(), first.ID, accept); err != nil { // row 8
		t.Fatal(err)
	}
	second := pointer(began + 1_000_000)
	for name, c := range map[string]struct {
		filter atrium.AuditFilter
		want   []int64
	}{
		"all":                      {atrium.AuditFilter{}, []int64{8, 7, 6, 5, 4, 3, 2, 1}},
		"of a subject":             {atrium.AuditFilter{Subject: string(first.ID)}, []int64{8, 1}},
		"of a subject and one act": {atrium.AuditFilter{Subject: string(first.ID), Action: "brand.create"}, []int64{1}},
		"by an actor":              {atrium.AuditFilter{Actor: "key_other"}, []int64{7, 5, 3}},
		"of an action":             {atrium.AuditFilter{Action: "brand.create"}, []int64{6, 4, 2, 1}},
		"of the actions on brands": {atrium.AuditFilter{Action: "brand."}, []int64{8, 6, 4, 2, 1}},
		"of no such action":        {atrium.AuditFilter{Action: "bran."}, nil},
		"since":                    {atrium.AuditFilter{Since: second}, []int64{8, 7, 6, 5, 4, 3, 2}},
		"until":                    {atrium.AuditFilter{Until: second}, []int64{1}},
		"all of these":             {atrium.AuditFilter{Actor: "key_test", Action: "brand.", Since: second, Until: pointer(began + 3_000_000)}, []int64{4, 2}},
	} {
		for _, limit := range []int{1, 2, 3, 9} {
			if got := numbersOf(e.auditRows(t, c.filter, limit)); !slices.Equal(got, c.want) {
				t.Errorf("%s, %d a page: %v, want %v", name, limit, got, c.want)
			}
		}
	}
}

func rowsListedInParts(t *testing.T, e *env) {
	b := e.brand(t, "Hearth")
	for range 1005 { // in SQL: lists do not verify the chain
		e.forge(t, atrium.AuditRow{Action: "brand.update", Subject: string(b.ID), Actor: "key_test", Detail: []byte("{}")})
	}
	for name, f := range map[string]atrium.AuditFilter{
		"all": {Action: "brand.create"}, "of a subject": {Subject: string(b.ID), Action: "brand.create"},
	} {
		none, next, err := e.AuditRows(t.Context(), e.tenant, f, 0, 10)
		if err != nil || len(none) != 0 || next != 7 {
			t.Errorf("%s: the first page has %d rows and continues below %d, %v", name, len(none), next, err)
		}
		one, next, err := e.AuditRows(t.Context(), e.tenant, f, next, 10)
		if err != nil || len(one) != 1 || next != 0 {
			t.Errorf("%s: the second page has %d rows and continues below %d, %v", name, len(one), next, err)
		}
	}
}

func rowsOfAPage(t *testing.T, e *env) {
	first, audience := e.publishedPage(t)
	second, other := e.publishedPage(t)
	e = e.keeping(1)
	e.createVersion(t, audience, `{"n":2}`)
	e.createVersion(t, audience, `{"n":3}`) // retires version 2
	e.createVersion(t, other, `{"n":2}`)
	for _, p := range []atrium.Preview{{PageID: first.ID, AudienceID: audience.ID, Number: 3}, {PageID: second.ID, AudienceID: other.ID, Number: 2}} {
		p.ID, p.ExpiresAt = atrium.NewID[atrium.PreviewID](), e.clock.instant()+3_600_000_000
		if _, _, err := e.CreatePreview(t.Context(), e.change(), p, []byte(p.ID)); err != nil {
			t.Fatal(err)
		}
	}
	c := e.change()
	c.Actor = "key_other"
	if _, err := e.PublishVersion(t.Context(), c, first.ID, audience.ID, 3, accept); err != nil {
		t.Fatal(err)
	}
	all := []string{"version.publish", "preview.create", "version.retire", "version.create", "version.create", "page.publish", "version.publish", "version.create", "audience.create", "page.create"}
	for name, c := range map[string]struct {
		filter atrium.AuditFilter
		want   []string
	}{
		"all":       {atrium.AuditFilter{}, all},
		"an actor":  {atrium.AuditFilter{Actor: "key_other"}, all[:1]},
		"an action": {atrium.AuditFilter{Action: "page."}, []string{"page.publish", "page.create"}},
		"a subject": {atrium.AuditFilter{Subject: string(audience.ID)}, []string{"version.retire", "audience.create"}},
		"another":   {atrium.AuditFilter{Subject: string(other.ID)}, nil},
	} {
		c.filter.PageID = first.ID
		for _, limit := range []int{1, 3, 100} {
			var got []string
			for _, r := range e.auditRows(t, c.filter, limit) {
				got = append(got, r.Action)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %d a page: %v, want %v", name, limit, got, c.want)
			}
		}
	}
	if rows := e.as(e.newTenant(t)).auditRows(t, atrium.AuditFilter{PageID: first.ID}, 10); len(rows) > 0 {
		t.Errorf("another tenant has %v", rows)
	}
	for range 1005 { // in SQL: lists do not verify the chain
		e.forge(t, atrium.AuditRow{Action: "brand.update", Subject: "brand", Actor: "key_test", Detail: []byte("{}")})
	}
	if rows, next, err := e.AuditRows(t.Context(), e.tenant, atrium.AuditFilter{PageID: first.ID}, 0, 10); err != nil || len(rows) != 0 || next == 0 {
		t.Errorf("the first page has %d rows and continues below %d, %v", len(rows), next, err)
	}
	if rows := e.auditRows(t, atrium.AuditFilter{PageID: first.ID}, 100); len(rows) != len(all) {
		t.Errorf("%d rows after others", len(rows))
	}
}

func chainsApart(t *testing.T, e *env) {
	ops := e.as(atrium.OperatorChain)
	made, _, err := e.CreateTenant(t.Context(), ops.change(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	if rows := ops.auditRows(t, atrium.AuditFilter{Subject: string(made.ID)}, 10); len(rows) != 1 || rows[0].Action != "tenant.create" {
		t.Errorf("the operators have %+v", rows)
	}
	if rows := e.as(made.ID).auditRows(t, atrium.AuditFilter{}, 10); len(rows) != 0 {
		t.Errorf("the tenant has %+v", rows)
	}
	ops.wantSound(t, nil)
}

func oneChain(t *testing.T, e *env) {
	e.onTwoNodes(t, func(e *env, i int) {
		for n := range 5 {
			if _, _, err := e.CreateBrand(t.Context(), e.change(), fmt.Sprint(i, n)); err != nil {
				t.Error(err)
			}
		}
	})
	if report := e.wantSound(t, nil); report.Head.Number != 2*writers*5 {
		t.Errorf("%d changes have %d rows", 2*writers*5, report.Head.Number)
	}
}

// wantSound fails the test unless the tenant's chain verifies.
func (e *env) wantSound(t tb, known *auditlog.Head) auditlog.Report {
	t.Helper()
	report, err := e.VerifyAudit(t.Context(), e.tenant, known)
	if err != nil || report.Fault != nil {
		t.Errorf("the chain: %v, %v", report.Fault, err)
	}
	return report
}

func chainIsRight(t *testing.T, e *env) {
	if report := e.wantSound(t, nil); report.Head.Number != 0 || report.First != 0 {
		t.Errorf("an empty chain is %+v", report)
	}
	for i := range 450 { // several chunks
		e.forge(t, atrium.AuditRow{At: atrium.Time(i) * 1000, Action: "thing.change", Subject: fmt.Sprint("thing_", i%7), Actor: "key", Detail: []byte(`{"a":1.0}`)})
		if i%100 == 99 {
			head := e.head(t)
			defer e.wantSound(t, &head)
		}
	}
	e.brand(t, "after them")
	report := e.wantSound(t, nil)
	if report.First != 1 || report.Redacted != 0 || !reflect.DeepEqual(report.Head, e.head(t)) || report.Head.Number != 451 {
		t.Errorf("it is %+v, and its head %v", report, e.head(t))
	}
}

// exportedAudit returns the tenant's audit log from a number, as JSON lines.
func (e *env) exportedAudit(t tb, from int64) (lines []byte) {
	t.Helper()
	if err := e.ExportAudit(t.Context(), e.tenant, from, func(row *atrium.AuditRow) (err error) {
		lines, err = auditlog.AppendLine(lines, row)
		return err
	}); err != nil {
		t.Fatalf("export the audit log: %v", err)
	}
	return lines
}

func exportIsRight(t *testing.T, e *env) {
	for i := range 5 {
		e.brand(t, fmt.Sprint("Brücke ", i, " <&>\u2028 \"\\"))
	}
	early := e.head(t)
	for i := range 5 {
		e.brand(t, strconv.Itoa(i))
	}
	for from, known := range map[int64]*auditlog.Head{1: nil, 6: &early} {
		report, err := auditlog.VerifyLines(bytes.NewReader(e.exportedAudit(t, from)), e.tenant, known)
		if err != nil || report.Fault != nil || report.First != from || !reflect.DeepEqual(report.Head, e.head(t)) {
			t.Errorf("from %d: %+v, %v, %v", from, report, report.Fault, err)
		}
	}
	joined := slices.Concat(e.exportedAudit(t, 1), []byte{})
	if report, err := auditlog.VerifyLines(bytes.NewReader(joined), e.newTenant(t), nil); err != nil || report.Fault == nil || *report.Fault != (auditlog.Fault{Flaw: auditlog.Altered, Number: 1}) {
		t.Errorf("as another tenant's it is %+v, %v", report, err)
	}
}

// idBytes returns the stored form of an identifier.
func idBytes[T atrium.Identifier](id T) []byte {
	digits := string(id[len(id.Prefix()):])
	var b []byte
	for _, part := range []string{digits[:2], digits[2:14], digits[14:]} {
		n, _ := strconv.ParseUint(part, 36, 64)
		var eight [8]byte
		for i := range eight {
			eight[7-i] = byte(n >> (8 * i))
		}
		b = append(b, eight[:]...)
	}
	return b[6:] // the first group of bits fills two bytes
}

// sql runs a statement directly on the database.
func (e *env) sql(t tb, sql string, args ...any) {
	t.Helper()
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec(sql, args...)
		return err
	}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// forge appends a row to the tenant's chain like a change does, and updates the head.
func (e *env) forge(t tb, row atrium.AuditRow) {
	t.Helper()
	head := e.head(t)
	row.Number = head.Number + 1
	row.Seal(e.tenant, head.Hash)
	e.insert(t, &row)
	e.setHead(t, row.Number, row.Hash)
}

func (e *env) insert(t tb, r *atrium.AuditRow) {
	t.Helper()
	e.sql(t, `INSERT INTO audit (tenant_id, number, at, actor, action, subject, request_id, detail, salt, detail_hash, hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		idBytes(e.tenant), r.Number, int64(r.At), r.Actor, r.Action, r.Subject, r.RequestID, r.Detail, r.Salt, r.DetailHash, r.Hash)
}

func (e *env) setHead(t tb, number int64, hash []byte) {
	t.Helper()
	e.sql(t, "INSERT INTO audit_heads (tenant_id, number, hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", idBytes(e.tenant), number, hash)
	e.sql(t, "UPDATE audit_heads SET number = $1, hash = $2 WHERE tenant_id = $3", number, hash, idBytes(e.tenant))
}
