package console

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auditlog"
)

// auditAPI has an audit log with some rows, of which the second is what change makes of it.
func auditAPI(t *testing.T, tenant atrium.TenantID, change func(*atrium.AuditRow)) http.Handler {
	t.Helper()
	var lines, before []byte
	for number := int64(1); number <= 3; number++ {
		row := &atrium.AuditRow{Number: number, At: atrium.Time(number * 1_000_000), Actor: "command line", Action: "user.create", Detail: []byte(`{"a":1}`)}
		row.Seal(tenant, before)
		before = row.Hash
		if number == 2 {
			change(row)
		}
		var err error
		if lines, err = auditlog.AppendLine(lines, row); err != nil {
			t.Fatal(err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/export"):
			_, _ = w.Write(lines)
		case strings.HasSuffix(r.URL.Path, "/head"):
			_, _ = io.WriteString(w, `{"number":0,"hash":""}`)
		default:
			_, _ = io.WriteString(w, `{"items":[],"name":"Tenant"}`)
		}
	})
}

func TestAVerificationNamesTheRowThatIsWrong(t *testing.T) {
	c, _, tenant, token := newLimitedSession(t)
	for want, change := range map[string]func(*atrium.AuditRow){
		"The audit log is sound from row 1 to row 3.":                                                func(*atrium.AuditRow) {},
		"The audit log is not sound: row 2 was altered. The rows before it, from 1 to 1, are sound.": func(r *atrium.AuditRow) { r.Actor = "someone else" },
	} {
		c.API = auditAPI(t, tenant, change)
		if w, complete := download(t, c, token, prefix+"/"+string(tenant)+"/audit/verify"); !complete || !strings.Contains(w.Body.String(), want) {
			t.Errorf("complete %v: %s, want %s", complete, w.Body, want)
		}
	}
}
