package transfer_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"atrium/internal/csvrows"
	"atrium/internal/transfer"
)

// table returns the lines of a table of prospects.
func table(t *testing.T, text string) *csvrows.Lines {
	t.Helper()
	kind, _ := csvrows.KindOf("prospects")
	file, err := csvrows.NewFile(strings.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csvrows.NewLines(file, kind, kind.Guess(file.Header))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestReimportedCSVMatchesOnlyInItsTenant(t *testing.T) {
	p := newPlace(t)
	p.put(t, `{"kind":"account","domain":"a.example"}`)
	imported := func(p *place, text string, o transfer.Options, added, same int) {
		t.Helper()
		for _, o.Check = range []bool{true, false} {
			report, err := p.importFrom(t, table(t, text), o)
			if err != nil || report.Added != added || report.Same != same {
				t.Errorf("with check %v: %+v, %v, want %d added, %d stored already", o.Check, report, err, added, same)
			}
		}
	}
	const first = "name,email,phone,account domain\nKim,Kim@A.example,,a.example\nLee,,1,\nJo,jo@a.example,2,\n"
	imported(p, first, transfer.Options{}, 3, 0)
	imported(p, first, transfer.Options{}, 0, 3)
	// A column that is not chosen changes nothing, and the order of columns and rows does not matter.
	imported(p, "phone,notes,name,email,account domain\n2,x,Jo,jo@a.example,\n1,y,Lee,,\n,z,Kim,Kim@A.example,a.example\n", transfer.Options{}, 0, 3)
	// Other values of the same address are refused or skipped, also if they are in one table.
	imported(p, "name,email\nKimberly,kim@a.example\nNew,new@a.example\nNewer,NEW@a.example\n", transfer.Options{SkipExisting: true}, 1, 2)
	for _, check := range []bool{true, false} {
		_, err := p.importFrom(t, table(t, "name,email\nKimberly,Kim@A.example\n"), transfer.Options{Check: check})
		wantStopped(t, err, 2, 2, "/name")
	}
	imported(p, "name,phone\nLee,2\n", transfer.Options{}, 1, 0)

	other := p.empty(t)
	other.put(t, `{"kind":"account","domain":"a.example"}`)
	imported(other, first, transfer.Options{}, 3, 0)
	ids := regexp.MustCompile(`prospect_\w{26}`)
	theirs := other.export(t)
	for _, id := range ids.FindAllString(p.export(t), -1) {
		if strings.Contains(theirs, id) {
			t.Errorf("two tenants have a prospect %s", id)
		}
	}
	if n := len(ids.FindAllString(theirs, -1)); n != 3 || strings.Contains(theirs, "matchBy") {
		t.Errorf("the export has %d identifiers: %s", n, theirs)
	}
}

// A check would otherwise tell, without storing anything, whether a guess has the identifier of an erased prospect.
func TestIdentifiersAreNotComparedWithGuesses(t *testing.T) {
	p := newPlace(t)
	const guess = `{"kind":"prospect","email":"a@b.example","matchBy":"email"}` + "\n"
	const named = `{"kind":"prospect","prospectId":"prospect_00000000000000000000000001","name":"x"}` + "\n"
	for _, file := range []string{guess + named, named + guess, guess + strings.Repeat(`{"kind":"prospect"}`+"\n", 600) + named} {
		for _, o := range []transfer.Options{{Check: true}, {Check: true, AllFaults: true}, {}} {
			_, err := p.importFrom(t, strings.NewReader(file), o)
			line := strings.Count(file, "\n")
			resume := 1
			if line > 500 && !o.Check {
				resume = 501
			}
			if stop, ok := errors.AsType[*transfer.LineError](err); !ok || stop.Line != line || !o.Check && stop.ResumeFrom != resume || stop.Faults[0].Where != "/matchBy" {
				t.Errorf("%d lines with %+v: %v", line, o, err)
			}
		}
	}
}
