package manage

import (
	"strings"
	"testing"

	"atrium"
	"atrium/internal/transfer"
)

// What ends the body of an import is reported with its faults, what was stored, and where to resume.
func TestTheErrorOfABodyKeepsItsFaults(t *testing.T) {
	refused := atrium.Invalid(atrium.Fault{In: atrium.InBody, Where: "/11/domain", Detail: "needs a dot"})
	refused.Detail = "Line 11 was rejected."
	for stored, c := range map[int]struct {
		done transfer.Report
		want string
	}{
		0: {transfer.Report{}, "Line 11 was rejected. Nothing was stored. Resume with fromLine=2."},
		1: {transfer.Report{Added: 1}, "Line 11 was rejected. 1 record was stored. All lines before line 2 are stored: resume with fromLine=2."},
	} {
		err := importError(&transfer.StopError{ResumeFrom: 2, Reading: true, Err: refused}, c.done, false)
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/11/domain") {
			t.Errorf("%d stored: %v, want %q", stored, err, c.want)
		}
	}
}
