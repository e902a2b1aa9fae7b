package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"atrium/internal/transfer"
)

// checkThenImport verifies that a check predicts the result of the import, and stores nothing.
func checkThenImport(t tb, p *place, file string) {
	t.Helper()
	before := p.export(t)
	checked, faults := p.importFrom(t, strings.NewReader(file), transfer.Options{Check: true})
	if after := p.export(t); after != before {
		t.Errorf("after the check of\n%s\nthe tenant has\n%s\nwant\n%s", file, after, before)
	}
	imported, err := p.importFrom(t, strings.NewReader(file), transfer.Options{})
	if fmt.Sprint(checked, faults) != fmt.Sprint(imported, err) {
		t.Errorf("of\n%s\nthe check said %+v, %v, the import %+v, %v", file, checked, faults, imported, err)
	}
}

func TestACheckPredictsTheImport(t *testing.T) {
	p := newPlace(t)
	second := func(line, member, id string) string { return with(line, member, `"`+id+`00000000000000000000000002"`) }
	third := with(with(prospectLine, "accountIds", ""), "prospectId", `"prospect_00000000000000000000000003"`)
	for _, lines := range [][]string{
		oneOfEach,
		{entryLine, versionLine, audienceLine, pageLine, prospectLine, accountLine},
		{with(accountLine, "name", `"Other"`)},
		{second(accountLine, "accountId", "account_")},
		{with(second(accountLine, "accountId", "account_"), "domain", `"b.example"`), second(entryLine, "accountLogId", "prospectlog_")},
		{second(versionLine, "id", "version_")},
		{with(second(versionLine, "id", "version_"), "versionNumber", ""), with(with(versionLine, "id", ""), "versionNumber", "2")},
		{with(second(versionLine, "id", "version_"), "versionNumber", "9007199254740991"), with(with(versionLine, "id", ""), "versionNumber", "")},
		{second(audienceLine, "pageId", "page_")},
		{second(prospectLine, "prospectId", "prospect_"), second(with(prospectLine, "prospectId", ""), "name", "Dana")},
		{with(prospectLine, "accountIds", `["account_00000000000000000000000009"]`)},
		{with(with(prospectLine, "prospectId", ""), "accountIds", `["account_00000000000000000000000009"]`)},
		{with(with(prospectLine, "prospectId", ""), "accountDomain", `"nobody.example"`)},
		{with(with(with(prospectLine, "prospectId", ""), "accountIds", ""), "accountDomain", `"new.example"`), `{"kind":"account","domain":"new.example"}`},
		{`{"kind":"account","domain":"new.example"}`, with(third, "accountDomain", `"NEW.example"`)},
		{with(third, "accountDomain", `"new.example"`), with(prospectLine, "accountDomain", `"new.example"`)},
		{`{"kind":"account"}`},
		append(numbered(100, 600), "not JSON"),
		append(numbered(1000, 600), with(numbered(5000, 1)[0], "domain", `"d1000.example"`)),
		append(numbered(1000, 600), numbered(2000, 600)...),
	} {
		checkThenImport(t, p, strings.Join(lines, "\n"))
	}
}

func TestACheckOfAnyTenantPredictsTheImport(t *testing.T) {
	type drawn struct{ stored, shuffled []string }
	draw := rapid.Custom(func(t *rapid.T) drawn {
		var lines []string
		for _, l := range tenantLines(t) {
			lines = append(lines, l.exported())
		}
		stored := rapid.IntRange(0, len(lines)).Draw(t, "stored")
		return drawn{lines[:stored], rapid.Permutation(lines).Draw(t, "order")}
	})
	p := newPlace(t)
	for seed := range 12 { // each check creates a database
		d := draw.Example(seed)
		p := p.empty(t)
		p.put(t, d.stored...)
		checkThenImport(t, p, strings.Join(d.shuffled, "\n"))
	}
}

func TestACheckLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	p := newPlace(t)
	for _, file := range []string{strings.Join(oneOfEach, "\n"), "not JSON", entryLine} {
		_, _ = p.importFrom(t, strings.NewReader(file), transfer.Options{Check: true}) // whatever the result
		left, err := filepath.Glob(filepath.Join(dir, "atrium*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
