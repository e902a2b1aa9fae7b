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

// chain makes so many rows of the tenant.
func chain(n int) (rows []*atrium.AuditRow) {
	var previous []byte
	for i := range n {
		row := &atrium.AuditRow{
			Number: int64(i + 1), At: atrium.Time(i) * 1000, Actor: "key_x", Action: "thing.change", Subject: fmt.Sprint("thing_", i),
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

func TestALineHasAllOfARowTheDetailByteForByte(t *testing.T) {
	full := chain(1)[0]
	redacted := *full
	redacted.Detail, redacted.Salt = nil, nil
	bare := *full
	bare.RequestID = "req_x"
	for _, row := range []*atrium.AuditRow{full, &redacted, &bare} {
		line := lines(t, row)
		if got, err := auditlog.ParseLine(line); err != nil || !reflect.DeepEqual(got, row) {
			t.Errorf("%s is read as %+v, %v, want %+v", line, got, err, row)
		}
		if row.Detail != nil && !bytes.HasSuffix(line, append([]byte(`"detail":`+string(row.Detail)), "}\n"...)) {
			t.Errorf("%s has not the detail %s", line, row.Detail)
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

func TestLinesAreVerifiedInTheirOrderAlone(t *testing.T) {
	rows := chain(4)
	head := func(row *atrium.AuditRow) *auditlog.Head { return &auditlog.Head{Number: row.Number, Hash: row.Hash} }
	for name, c := range map[string]struct {
		rows  []*atrium.AuditRow
		known *auditlog.Head
		want  *auditlog.Fault
	}{
		"all":                          {rows, nil, nil},
		"none":                         {nil, nil, nil},
		"all, with a head":             {rows, head(rows[2]), nil},
		"those behind a head":          {rows[2:], head(rows[1]), nil},
		"those behind another head":    {rows[2:], &auditlog.Head{Number: 2, Hash: rows[0].Hash}, &auditlog.Fault{Flaw: auditlog.Altered, Number: 3}},
		"those behind no head":         {rows[2:], nil, &auditlog.Fault{Flaw: auditlog.Missing, Number: 1}},
		"those behind an earlier head": {rows[2:], head(rows[0]), &auditlog.Fault{Flaw: auditlog.Missing, Number: 1}},
		"one twice":                    {[]*atrium.AuditRow{rows[0], rows[1], rows[1]}, nil, &auditlog.Fault{Flaw: auditlog.Misplaced, Number: 2}},
		"two turned round":             {[]*atrium.AuditRow{rows[1], rows[0]}, nil, &auditlog.Fault{Flaw: auditlog.Missing, Number: 1}},
		"the last cut off":             {rows[:3], head(rows[3]), &auditlog.Fault{Flaw: auditlog.Cut, Number: 3}},
		"none, with a head":            {nil, head(rows[0]), &auditlog.Fault{Flaw: auditlog.Cut, Number: 0}},
		"not those of the head":        {rows, &auditlog.Head{Number: 2, Hash: rows[0].Hash}, &auditlog.Fault{Flaw: auditlog.OtherHead, Number: 2}},
	} {
		report, err := auditlog.VerifyLines(bytes.NewReader(lines(t, c.rows...)), tenant, c.known)
		if err != nil || !reflect.DeepEqual(report.Fault, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, report.Fault, err, c.want)
		}
	}
}

func TestLinesOutsideOfAChainAreFound(t *testing.T) {
	rows := chain(4)
	numbered := func(number int64) *atrium.AuditRow {
		row := *rows[3]
		row.Number = number
		row.Seal(tenant, rows[3].Hash)
		return &row
	}
	highest := &auditlog.Head{Number: math.MaxInt64, Hash: rows[3].Hash}
	for name, c := range map[string]struct {
		rows  []*atrium.AuditRow
		known *auditlog.Head
		want  auditlog.Fault
	}{
		"row 0, first":                  {[]*atrium.AuditRow{numbered(0), rows[0]}, nil, auditlog.Fault{Flaw: auditlog.Misplaced, Number: 0}},
		"row 0, last":                   {append(slices.Clone(rows), numbered(0)), nil, auditlog.Fault{Flaw: auditlog.Misplaced, Number: 0}},
		"row -1":                        {[]*atrium.AuditRow{numbered(-1), rows[0]}, nil, auditlog.Fault{Flaw: auditlog.Misplaced, Number: -1}},
		"one left out":                  {append(slices.Clone(rows), numbered(6)), nil, auditlog.Fault{Flaw: auditlog.Missing, Number: 5}},
		"after the highest number":      {[]*atrium.AuditRow{numbered(math.MinInt64)}, highest, auditlog.Fault{Flaw: auditlog.Misplaced, Number: math.MinInt64}},
		"one with the number of a head": {[]*atrium.AuditRow{rows[0], rows[1], rows[2], numbered(4)}, &auditlog.Head{Number: 4, Hash: rows[3].Hash}, auditlog.Fault{Flaw: auditlog.Altered, Number: 4}},
	} {
		report, err := auditlog.VerifyLines(bytes.NewReader(lines(t, c.rows...)), tenant, c.known)
		if err != nil || report.Fault == nil || *report.Fault != c.want {
			t.Errorf("%s: %v, %v, want %v", name, report.Fault, err, c.want)
		}
	}
}

// A tail that was cut off is found with a head that has it, and not without one.
func TestACutTailIsFoundWithAHeadAlone(t *testing.T) {
	rows := chain(4)
	head := auditlog.Head{Number: 4, Hash: rows[3].Hash}
	cut := lines(t, rows[:2]...)
	if report, err := auditlog.VerifyLines(bytes.NewReader(cut), tenant, &head); err != nil || report.Fault == nil || *report.Fault != (auditlog.Fault{Flaw: auditlog.Cut, Number: 2}) {
		t.Errorf("with the head: %v, %v", report.Fault, err)
	}
	if report, err := auditlog.VerifyLines(bytes.NewReader(cut), tenant, nil); err != nil || report.Fault != nil || report.Head.Number != 2 {
		t.Errorf("without one: %+v, %v, %v", report, report.Fault, err)
	}
}

// version1 is an export in which all rows have seals of version 1.
func version1(t testing.TB) (export []byte, head auditlog.Head) {
	t.Helper()
	export, err := os.ReadFile("testdata/version1.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	head, ok := auditlog.ParseHead("7:b5f7f25d21ce75c093212af70666796ca1e37e828a8f094aeb6cc2c555ba2c4f")
	if !ok {
		t.Fatal("no head")
	}
	return export, head
}

func TestAnExportOfVersion1IsVerified(t *testing.T) {
	export, head := version1(t)
	report, err := auditlog.VerifyLines(bytes.NewReader(export), tenant, &head)
	if err != nil || report.Fault != nil || report.Redacted != 3 || !reflect.DeepEqual(report.Head, head) {
		t.Errorf("%+v, %v, %v", report, report.Fault, err)
	}
	next := &atrium.AuditRow{Number: 8, Actor: "key_x", Action: "thing.change", Subject: "thing_8", Detail: []byte("{}")}
	next.Seal(tenant, head.Hash)
	export = append(export, lines(t, next)...)
	if report, err := auditlog.VerifyLines(bytes.NewReader(export), tenant, nil); err != nil || report.Fault != nil || report.Head.Number != 8 {
		t.Errorf("with a row of version 2: %+v, %v, %v", report, report.Fault, err)
	}
	last := &atrium.AuditRow{Number: 9, Actor: "key_x", Action: "thing.change", Subject: "thing_9", Detail: []byte("{}"), Salt: make([]byte, 16)}
	auditlogtest.Seal1(last, tenant, next.Hash)
	export = append(export, lines(t, last)...)
	downgraded := auditlog.Fault{Flaw: auditlog.Downgraded, Number: 9}
	for name, c := range map[string]struct {
		known *auditlog.Head
		want  *auditlog.Fault
	}{
		"without a head":       {nil, &downgraded},
		"with an earlier head": {&head, &downgraded},
		"with a head of it":    {&auditlog.Head{Number: 9, Hash: last.Hash}, nil},
	} {
		if report, err := auditlog.VerifyLines(bytes.NewReader(export), tenant, c.known); err != nil || !reflect.DeepEqual(report.Fault, c.want) {
			t.Errorf("a row of version 1 after it, %s: %v, %v, want %v", name, report.Fault, err, c.want)
		}
	}
}

func TestARowHasASaltAndADetailOrNeither(t *testing.T) {
	row := chain(1)[0]
	row.Detail = nil
	row.Seal(tenant, nil)
	if v := row.SealVersion(tenant, nil); v != 0 {
		t.Errorf("a row that was sealed without a detail has a seal of version %d", v)
	}
	good := string(lines(t, chain(1)...))
	salt, detail := good[strings.Index(good, `,"salt"`):strings.Index(good, `,"detailHash"`)], good[strings.Index(good, `,"detail":`):len(good)-2]
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
		"neither, and not redacted":        without(salt, detail),
		"both, and redacted":               with(good, `"redacted":true`),
		"a salt alone":                     without(detail),
		"a salt alone, and redacted":       with(without(detail), `"redacted":true`),
		"a detail alone":                   without(salt),
		"a detail alone, and redacted":     with(without(salt), `"redacted":true`),
		"an empty salt, and redacted":      with(without(salt, detail), `"salt":"","redacted":true`),
		"a detail of null, and redacted":   with(without(salt, detail), `"detail":null,"redacted":true`),
		"an empty salt and a null, and no": with(without(salt, detail), `"salt":"","detail":null`),
	} {
		report, err := auditlog.VerifyLines(strings.NewReader(bad), tenant, nil)
		if err == nil && (report.Fault == nil || *report.Fault != auditlog.Fault{Flaw: auditlog.Altered, Number: 1}) {
			t.Errorf("%s: %s is verified: %+v", name, bad, report)
		}
	}
}

func TestWhatIsNoLineIsNamedByItsNumber(t *testing.T) {
	good := string(lines(t, chain(1)...))
	for _, bad := range []string{"", "[]", "{", good[:len(good)-3], strings.Replace(good, `"at"`, `"then"`, 1), strings.Replace(good, `"hash":"`, `"hash":"x`, 1)} {
		_, err := auditlog.VerifyLines(strings.NewReader(good+bad+"\n"), tenant, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestALineHasEachMemberOnce(t *testing.T) {
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
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
	row.Detail = []byte(`{"after":{"a":1,"a":2}}`) // as it was sealed
	row.Seal(tenant, nil)
	if got, err := auditlog.ParseLine(lines(t, row)); err != nil || !reflect.DeepEqual(got, row) {
		t.Errorf("%+v, %v, want %+v", got, err, row)
	}
}

func TestAHeadIsReadAsItIsWritten(t *testing.T) {
	row := chain(1)[0]
	head := auditlog.Head{Number: row.Number, Hash: row.Hash}
	if got, ok := auditlog.ParseHead(head.String()); !ok || !reflect.DeepEqual(got, head) {
		t.Errorf("%s is read as %v, %v", head, got, ok)
	}
	for _, text := range []string{"", ":", "1", "1:", "0:" + strings.Repeat("0", 64), "-1:" + strings.Repeat("0", 64), "1:" + strings.Repeat("0", 62), "1:" + strings.Repeat("g", 64), "1:" + strings.Repeat("0", 64) + " "} {
		if head, ok := auditlog.ParseHead(text); ok {
			t.Errorf("%q is read as %v", text, head)
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
	f.Add([]byte(`{"number":1,"at":"2026-03-02T09:14:07.321Z","actor":"","action":"","subject":"","redacted":true,"detailHash":"","hash":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := auditlog.ParseLine(b)
		if err != nil {
			return
		}
		line, err := auditlog.AppendLine(nil, row)
		if err != nil {
			return // the detail has line breaks, or is there and null
		}
		again, err := auditlog.ParseLine(line)
		if err != nil || !reflect.DeepEqual(again, row) {
			t.Fatalf("%s is read as %+v, and %s as %+v, %v", b, row, line, again, err)
		}
	})
}

// Whatever a file says, what is verified with the head of a chain is that chain, but for
// details that it says were redacted.
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
			t.Fatalf("what is verified is %+v", report)
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
