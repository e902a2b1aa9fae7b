package auditlog_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/auditlog/auditlogtest"
)

const tenant = atrium.TenantID("tenant_01kerkhc50emq8k9w39qsaekf4")

// chain returns a chain of n rows of the tenant.
func chain(n int) (rows []*atrium.AuditRow) {
	var previous []byte
	for i := range n {
		row := &atrium.AuditRow{
			Number: int64(i + 1), At: atrium.Time(i) * 1000,
			Actor: "key_x", Action: "thing.change", Subject: fmt.Sprint("thing_", i),
			Detail: []byte(`{"text":"\u00e9<é>\u2028","n":1.50,"a":[]}`),
		}
		row.Seal(tenant, previous)
		previous = row.Hash
		rows = append(rows, row)
	}
	return rows
}

func lines(t *testing.T, rows ...*atrium.AuditRow) (all []byte) {
	t.Helper()
	for _, row := range rows {
		var err error
		if all, err = auditlog.AppendLine(all, row); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestALineRoundTripsARowWithItsDetailByteForByte(t *testing.T) {
	full := chain(1)[0]
	redacted := *full
	redacted.Detail, redacted.Salt = nil, nil
	bare := *full
	bare.RequestID = "req_x"
	for _, row := range []*atrium.AuditRow{full, &redacted, &bare} {
		line := lines(t, row)
		if got, err := auditlog.ParseLine(line); err != nil || !reflect.DeepEqual(got, row) {
			t.Errorf("%s is parsed as %+v, %v, want %+v", line, got, err, row)
		}
		if row.Detail != nil && !bytes.HasSuffix(line, append([]byte(`"detail":`+string(row.Detail)), "}\n"...)) {
			t.Errorf("%s does not end with the detail %s", line, row.Detail)
		}
	}
	for _, detail := range []string{"", "{", "{}{}", "{\n}", "\xff"} {
		row := *full
		row.Detail = []byte(detail)
		if line, err := auditlog.AppendLine(nil, &row); err == nil {
			t.Errorf("the detail %q is written as %s", detail, line)
		}
	}
}

func TestLinesMustBeInOrder(t *testing.T) {
	rows := chain(4)
	head := func(row *atrium.AuditRow) *auditlog.Head { return &auditlog.Head{Number: row.Number, Hash: row.Hash} }
	fault := func(flaw auditlog.Flaw, row int64) *auditlog.Fault { return &auditlog.Fault{Flaw: flaw, Number: row} }
	wrong := &auditlog.Head{Number: 2, Hash: rows[0].Hash}
	for name, c := range map[string]struct {
		rows  []*atrium.AuditRow
		known *auditlog.Head
		want  *auditlog.Fault
	}{
		"all rows":                    {rows, nil, nil},
		"no rows":                     {nil, nil, nil},
		"all rows, with a head":       {rows, head(rows[2]), nil},
		"rows after a head":           {rows[2:], head(rows[1]), nil},
		"rows after a wrong head":     {rows[2:], wrong, fault(auditlog.Altered, 3)},
		"later rows without a head":   {rows[2:], nil, fault(auditlog.Missing, 1)},
		"rows after an earlier head":  {rows[2:], head(rows[0]), fault(auditlog.Missing, 1)},
		"a duplicate row":             {[]*atrium.AuditRow{rows[0], rows[1], rows[1]}, nil, fault(auditlog.Misplaced, 2)},
		"two rows in reverse order":   {[]*atrium.AuditRow{rows[1], rows[0]}, nil, fault(auditlog.Missing, 1)},
		"without the last row":        {rows[:3], head(rows[3]), fault(auditlog.Cut, 3)},
		"no rows, with a head":        {nil, head(rows[0]), fault(auditlog.Cut, 0)},
		"all rows, with a wrong head": {rows, wrong, fault(auditlog.OtherHead, 2)},
	} {
		report, err := auditlog.VerifyLines(bytes.NewReader(lines(t, c.rows...)), tenant, c.known)
		if err != nil || !reflect.DeepEqual(report.Fault, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, report.Fault, err, c.want)
		}
	}
}

func TestLinesOutsideAChainAreDetected(t *testing.T) {
	rows := chain(4)
	numbered := func(number int64) *atrium.AuditRow {
		row := *rows[3]
		row.Number = number
		row.Seal(tenant, rows[3].Hash)
		return &row
	}
	fault := func(flaw auditlog.Flaw, row int64) auditlog.Fault { return auditlog.Fault{Flaw: flaw, Number: row} }
	last := &auditlog.Head{Number: 4, Hash: rows[3].Hash}
	highest := &auditlog.Head{Number: math.MaxInt64, Hash: rows[3].Hash}
	for name, c := range map[string]struct {
		rows  []*atrium.AuditRow
		known *auditlog.Head
		want  auditlog.Fault
	}{
		"row 0, first": {[]*atrium.AuditRow{numbered(0), rows[0]}, nil, fault(auditlog.Misplaced, 0)},
		"row 0, last":  {append(slices.Clone(rows), numbered(0)), nil, fault(auditlog.Misplaced, 0)},
		"row -1":       {[]*atrium.AuditRow{numbered(-1), rows[0]}, nil, fault(auditlog.Misplaced, -1)},
		"a gap":        {append(slices.Clone(rows), numbered(6)), nil, fault(auditlog.Missing, 5)},
		"a row after the highest number": {
			[]*atrium.AuditRow{numbered(math.MinInt64)}, highest, fault(auditlog.Misplaced, math.MinInt64),
		},
		"a forged row with the number of the head": {
			[]*atrium.AuditRow{rows[0], rows[1], rows[2], numbered(4)}, last, fault(auditlog.Altered, 4),
		},
	} {
		report, err := auditlog.VerifyLines(bytes.NewReader(lines(t, c.rows...)), tenant, c.known)
		if err != nil || report.Fault == nil || *report.Fault != c.want {
			t.Errorf("%s: %v, %v, want %v", name, report.Fault, err, c.want)
		}
	}
}

// Deleted last rows are detected only with a head that covers them.
func TestDeletedLastRowsAreDetectedOnlyWithAHead(t *testing.T) {
	rows := chain(4)
	head := auditlog.Head{Number: 4, Hash: rows[3].Hash}
	cut := lines(t, rows[:2]...)
	report, err := auditlog.VerifyLines(bytes.NewReader(cut), tenant, &head)
	if err != nil || report.Fault == nil || *report.Fault != (auditlog.Fault{Flaw: auditlog.Cut, Number: 2}) {
		t.Errorf("with the head: %v, %v", report.Fault, err)
	}
	report, err = auditlog.VerifyLines(bytes.NewReader(cut), tenant, nil)
	if err != nil || report.Fault != nil || report.Head.Number != 2 {
		t.Errorf("without a head: %+v, %v, %v", report, report.Fault, err)
	}
}

// version1 returns an export whose rows all have seals of version 1.
func version1(t testing.TB) (export []byte, head auditlog.Head) {
	t.Helper()
	export, err := os.ReadFile("testdata/version1.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	head, ok := auditlog.ParseHead("7:b5f7f25d21ce75c093212af70666796ca1e37e828a8f094aeb6cc2c555ba2c4f")
	if !ok {
		t.Fatal("invalid head")
	}
	return export, head
}

func TestAnExportOfVersion1IsVerified(t *testing.T) {
	export, head := version1(t)
	report, err := auditlog.VerifyLines(bytes.NewReader(export), tenant, &head)
	if err != nil || report.Fault != nil || report.Redacted != 3 || !reflect.DeepEqual(report.Head, head) {
		t.Errorf("%+v, %v, %v", report, report.Fault, err)
	}
	next := &atrium.AuditRow{
		Number: 8, Actor: "key_x", Action: "thing.change", Subject: "thing_8", Detail: []byte("{}"),
	}
	next.Seal(tenant, head.Hash)
	export = append(export, lines(t, next)...)
	report, err = auditlog.VerifyLines(bytes.NewReader(export), tenant, nil)
	if err != nil || report.Fault != nil || report.Head.Number != 8 {
		t.Errorf("with a row of version 2: %+v, %v, %v", report, report.Fault, err)
	}
	last := &atrium.AuditRow{
		Number: 9, Actor: "key_x", Action: "thing.change", Subject: "thing_9", Detail: []byte("{}"), Salt: make([]byte, 16),
	}
	auditlogtest.Seal1(last, tenant, next.Hash)
	export = append(export, lines(t, last)...)
	downgraded := auditlog.Fault{Flaw: auditlog.Downgraded, Number: 9}
	for name, c := range map[string]struct {
		known *auditlog.Head
		want  *auditlog.Fault
	}{
		"without a head":       {nil, &downgraded},
		"with an earlier head": {&head, &downgraded},
		"with a head after it": {&auditlog.Head{Number: 9, Hash: last.Hash}, nil},
	} {
		report, err := auditlog.VerifyLines(bytes.NewReader(export), tenant, c.known)
		if err != nil || !reflect.DeepEqual(report.Fault, c.want) {
			t.Errorf("with a later row of version 1, %s: %v, %v, want %v", name, report.Fault, err, c.want)
		}
	}
}

func TestARowHasBothSaltAndDetailOrNeither(t *testing.T) {
	row := chain(1)[0]
	row.Detail = nil
	row.Seal(tenant, nil)
	if v := row.SealVersion(tenant, nil); v != 0 {
		t.Errorf("the seal of a row without a detail is accepted as version %d", v)
	}
	good := string(lines(t, chain(1)...))
	salt := good[strings.Index(good, `,"salt"`):strings.Index(good, `,"detailHash"`)]
	detail := good[strings.Index(good, `,"detail":`) : len(good)-2]
	without := func(parts ...string) string {
		bad := good
		for _, part := range parts {
			bad = strings.Replace(bad, part, "", 1)
		}
		return bad
	}
	with := func(line, member string) string {
		return strings.Replace(line, `,"detailHash"`, ","+member+`,"detailHash"`, 1)
	}
	for name, bad := range map[string]string{
		"neither, not redacted":                         without(salt, detail),
		"both, redacted":                                with(good, `"redacted":true`),
		"only a salt":                                   without(detail),
		"only a salt, redacted":                         with(without(detail), `"redacted":true`),
		"only a detail":                                 without(salt),
		"only a detail, redacted":                       with(without(salt), `"redacted":true`),
		"an empty salt, redacted":                       with(without(salt, detail), `"salt":"","redacted":true`),
		"a null detail, redacted":                       with(without(salt, detail), `"detail":null,"redacted":true`),
		"an empty salt and a null detail, not redacted": with(without(salt, detail), `"salt":"","detail":null`),
	} {
		report, err := auditlog.VerifyLines(strings.NewReader(bad), tenant, nil)
		if err == nil && (report.Fault == nil || *report.Fault != auditlog.Fault{Flaw: auditlog.Altered, Number: 1}) {
			t.Errorf("%s: %s passes verification: %+v", name, bad, report)
		}
	}
}

func TestAParseErrorNamesTheLine(t *testing.T) {
	good := string(lines(t, chain(1)...))
	for _, bad := range []string{
		"", "[]", "{", good[:len(good)-3],
		strings.Replace(good, `"at"`, `"then"`, 1), strings.Replace(good, `"hash":"`, `"hash":"x`, 1),
	} {
		_, err := auditlog.VerifyLines(strings.NewReader(good+bad+"\n"), tenant, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestDuplicateMembersOfALineAreRejected(t *testing.T) {
	row := chain(1)[0]
	row.RequestID = "req_x"
	good := string(lines(t, row))
	for _, c := range []struct{ member, other string }{
		{`"number":1`, `"number":2`},
		{`"at":`, `"at":"2026-03-02T09:14:07.321Z"`},
		{`"actor":"key_x"`, `"actor":"key_y"`},
		{`"actor":"key_x"`, `"\u0061ctor":"key_x"`},
		{`"requestId":"req_x"`, `"requestId":null`},
		{`"hash":`, `"hash":""`},
		{`"detail":`, `"detail":{}`},
	} {
		bad := strings.Replace(good, c.member, c.other+","+c.member, 1)
		if got, err := auditlog.ParseLine([]byte(bad)); err == nil || bad == good {
			t.Errorf("%s is parsed as %+v", bad, got)
		}
	}
	row.Detail = []byte(`{"after":{"a":1,"a":2}}`) // duplicates in the detail are allowed
	row.Seal(tenant, nil)
	if got, err := auditlog.ParseLine(lines(t, row)); err != nil || !reflect.DeepEqual(got, row) {
		t.Errorf("%+v, %v, want %+v", got, err, row)
	}
}

func TestAHeadRoundTrips(t *testing.T) {
	row := chain(1)[0]
	head := auditlog.Head{Number: row.Number, Hash: row.Hash}
	if got, ok := auditlog.ParseHead(head.String()); !ok || !reflect.DeepEqual(got, head) {
		t.Errorf("%s is parsed as %v, %v", head, got, ok)
	}
	zeros := strings.Repeat("0", 64)
	for _, text := range []string{
		"", ":", "1", "1:", "0:" + zeros, "-1:" + zeros, "1:" + zeros[2:], "1:" + strings.Repeat("g", 64), "1:" + zeros + " ",
	} {
		if head, ok := auditlog.ParseHead(text); ok {
			t.Errorf("%q is parsed as %v", text, head)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, row := range chain(2) {
		line, err := auditlog.AppendLine(nil, row)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"number":1,"at":"2026-03-02T09:14:07.321Z","actor":"","action":"","subject":"",` +
		`"redacted":true,"detailHash":"","hash":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := auditlog.ParseLine(b)
		if err != nil {
			return
		}
		line, err := auditlog.AppendLine(nil, row)
		if err != nil {
			return // the detail has line breaks or is null
		}
		again, err := auditlog.ParseLine(line)
		if err != nil || !reflect.DeepEqual(again, row) {
			t.Fatalf("%s is parsed as %+v, and %s as %+v, %v", b, row, line, again, err)
		}
	})
}

// A file that passes verification with the head of a chain is that chain, except for details that
// it declares as redacted.
func FuzzVerifyLines(f *testing.F) {
	export, head := version1(f)
	var sealed []*atrium.AuditRow
	for line := range bytes.Lines(export) {
		row, err := auditlog.ParseLine(line)
		if err != nil {
			f.Fatal(err)
		}
		sealed = append(sealed, row)
	}
	f.Add(export)
	f.Fuzz(func(t *testing.T, file []byte) {
		report, err := auditlog.VerifyLines(bytes.NewReader(file), tenant, &head)
		if err != nil || report.Fault != nil {
			return
		}
		if report.First != 1 && report.First != head.Number+1 || report.First == 1 && report.Head.Number < head.Number {
			t.Fatalf("the report is %+v", report)
		}
		n := 0
		for line := range bytes.Lines(file) {
			row, err := auditlog.ParseLine(line)
			if err != nil || row.Number != report.First+int64(n) {
				t.Fatalf("line %d is row %+v, %v", n+1, row, err)
			}
			n++
			if row.Number > head.Number {
				continue
			}
			want := *sealed[row.Number-1]
			if row.Redacted() {
				want.Detail, want.Salt = nil, nil
			}
			if !reflect.DeepEqual(row, &want) {
				t.Fatalf("row %d is %+v, want %+v", n, row, &want)
			}
		}
	})
}
