package auditlog_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auditlog"
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
