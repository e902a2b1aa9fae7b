package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"atrium/internal/transfer"
)

func TestACheckReportsEveryFaultAndSkipsWhatExists(t *testing.T) {
	p := newPlace(t)
	account := func(domain, more string) string {
		return fmt.Sprintf(`{"kind":"account","domain":%q%s}`, domain, more)
	}
	prospect := func(name string) string {
		return fmt.Sprintf(`{"kind":"prospect","prospectId":"prospect_00000000000000000000000001","name":%q}`, name)
	}
	if _, err := p.importFrom(t, strings.NewReader(account("stored.example", "")+"\n"+prospect("Kim")), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	before := p.export(t)
	file := strings.Join([]string{
		account("a.example", ""), account("", `,"size":1`), "no JSON", account("stored.example", `,"name":"New"`), prospect("Dana"),
		account("a.example", ""), `{"kind":"accountLog","accountId":"account_00000000000000000000000009","source":"crm","payload":{}}`, account("b.example", ""),
	}, "\n")
	check := transfer.Options{Check: true, AllFaults: true}
	report, err := p.importFrom(t, strings.NewReader(file), check)
	var found []string
	for _, f := range report.Faults {
		found = append(found, fmt.Sprintf("%d%s", f.Line, f.Pointer))
	}
	if want := "2/domain 2/size 3 "; err != nil || !strings.HasPrefix(strings.Join(found, " ")+" ", want) {
		t.Errorf("%v %v, want first %s", found, err, want)
	}
	for _, want := range []string{"4/domain", "5/name", "6/domain", "7/accountId"} {
		if !strings.Contains(strings.Join(found, " "), want) {
			t.Errorf("%v lacks %s", found, want)
		}
	}
	if len(found) != 7 || report.Lines != 8 || report.Added != 2 || report.MoreFaults {
		t.Errorf("%+v", report)
	}
	check.SkipExisting = true
	report, err = p.importFrom(t, strings.NewReader(file), check)
	if err != nil || len(report.Faults) != 4 || report.Same != 3 || report.Added != 2 {
		t.Errorf("%+v %v", report, err)
	}
	if after := p.export(t); after != before {
		t.Errorf("the checks stored\n%s", after)
	}
}

func TestAnImportSkipsWhatExists(t *testing.T) {
	p := newPlace(t)
	var lines []string
	for i := range 1500 {
		lines = append(lines, fmt.Sprintf(`{"kind":"account","domain":"d%d.example","name":"N"}`, i))
	}
	if _, err := p.importFrom(t, strings.NewReader(strings.Join(lines[700:], "\n")), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	before := p.export(t)
	report, err := p.importFrom(t, strings.NewReader(strings.Join(lines, "\n")), transfer.Options{SkipExisting: true})
	if err != nil || report.Added != 700 || report.Same != 800 || report.Lines != 1500 {
		t.Errorf("%+v %v", report, err)
	}
	after := p.export(t)
	for line := range strings.Lines(before) {
		if !strings.Contains(after, line) {
			t.Fatalf("%s was changed", line)
		}
	}
}

func TestACheckForAllFaultsIsBounded(t *testing.T) {
	p := newPlace(t)
	var accounts strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&accounts, `{"kind":"account","domain":"d%d.example"}`+"\n", i)
	}
	if _, err := p.importFrom(t, strings.NewReader(accounts.String()), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"lines that are no records": strings.Repeat("no JSON\n", 3000), "records that exist": accounts.String(),
		"records that refer to nothing": strings.Repeat(`{"kind":"accountLog","accountId":"account_00000000000000000000000009","source":"crm","payload":{}}`+"\n", 3000),
	} {
		report, err := p.importFrom(t, strings.NewReader(file), transfer.Options{Check: true, AllFaults: true})
		if err != nil || len(report.Faults) != 1000 || !report.MoreFaults {
			t.Errorf("%s: %d faults, more %v, %v", name, len(report.Faults), report.MoreFaults, err)
		}
	}
}

// A skipped prospect gets no new link, so it does not count.
func TestTheReportCountsTheLinksOfNewProspects(t *testing.T) {
	p := newPlace(t)
	p.put(t, `{"kind":"account","accountId":"account_00000000000000000000000001","domain":"a.example"}`,
		`{"kind":"prospect","prospectId":"prospect_00000000000000000000000001","name":"A"}`)
	file := strings.Join([]string{
		`{"kind":"prospect","prospectId":"prospect_00000000000000000000000001","name":"A","accountDomain":"a.example"}`,
		`{"kind":"prospect","prospectId":"prospect_00000000000000000000000002","name":"B","accountDomain":"a.example"}`,
		`{"kind":"prospect","prospectId":"prospect_00000000000000000000000003","name":"C","accountIds":["account_00000000000000000000000001"]}`,
		`{"kind":"prospect","name":"D"}`,
	}, "\n")
	for _, check := range []bool{true, false} {
		report, err := p.importFrom(t, strings.NewReader(file), transfer.Options{Check: check, SkipExisting: true})
		if err != nil || report.Added != 3 || report.Same != 1 || report.LinkedProspects != 2 || report.UnlinkedProspects != 1 {
			t.Errorf("with check %v: %+v, %v", check, report, err)
		}
	}
	wrong := strings.ReplaceAll(file, `"B","accountDomain":"a.example"`, `"B","accountDomain":"none.example"`)
	report, err := newPlace(t).importFrom(t, strings.NewReader(wrong), transfer.Options{Check: true, AllFaults: true, SkipExisting: true})
	if err != nil || len(report.Faults) != 3 || report.LinkedProspects != 0 || report.UnlinkedProspects != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}
