package browser_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"atrium"
)

// choose chooses a file in a form.
func (b *tab) choose(selector, name, content string) {
	b.t.Helper()
	get[int](b, fmt.Sprintf(`(() => { const chosen = new DataTransfer(); chosen.items.add(new File([%q], %q)); document.querySelector(%q).files = chosen.files; return 0 })()`, content, name, selector))
}

func TestAnImportOfCSVAsksForItsFileOnce(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	scripting(t, o, func(t *testing.T, b *tab) {
		host := "northstar.example"
		if b.scriptsOff {
			host = "delta.example"
		}
		of := "/console/" + string(o.tenant)
		b.signIn(o, atrium.RoleAdmin)
		b.open(of + "/transfer")
		b.choose(`form[action$="/columns"] input[name="file"]`, "organizations.csv", "Company,Website\nWrong,no domain\n\"Two\nlines \u00e9+/\",https://www."+host+"/about\n")
		b.submit(`form[action$="/columns"] button`)
		b.heading("organizations.csv: columns")
		b.checkLook("the columns of a file")
		b.screenshot("console-columns")
		b.submit(`button[formaction$="check=true"]`)
		if found := b.seen("main"); !strings.Contains(found, "needs a dot and no spaces") {
			t.Errorf("the check says %q", found)
		}
		b.checkLook("the faults of a file")
		b.screenshot("console-faults")
		b.choose(`input[name="file"]`, "corrected.csv", "Company,Website\n\"Two\nlines \u00e9+/\",https://www."+host+"/about\n")
		b.submit(`button[formaction$="check=true"]`)
		if done := b.seen(".done"); !strings.HasPrefix(done, "corrected.csv: no faults. 1 record would be added") {
			t.Errorf("the check says %q", done)
		}
		b.screenshot("console-checked")
		b.submit(`button.primary:not([formaction])`)
		if done := b.seen(".done"); !strings.HasPrefix(done, "corrected.csv: 1 record added") {
			t.Errorf("the import says %q", done)
		}
		b.open(of + "/accounts?q=" + host)
		b.follow(get[string](b, `document.querySelector("main table a").getAttribute("href")`))
		if heading := b.seen("h1"); !strings.Contains(heading, "Two") || !strings.Contains(heading, "lines \u00e9+/") {
			t.Errorf("the account is %q", heading)
		}
	})
}

// A refused import leaves the user with the columns, the file and all its faults.
func TestARefusedImportKeepsItsColumnsAndFile(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	scripting(t, o, func(t *testing.T, b *tab) {
		of := "/console/" + string(o.tenant)
		b.signIn(o, atrium.RoleAdmin)
		b.open(of + "/transfer")
		b.choose(`form[action$="/columns"] input[name="file"]`, "people.csv",
			"First name,Last name,Email,Company website\nKim,Lee,kim@new.example,new.example\nJo,Roe,jo.example,\nWren,Moss,wren@b.example,\n")
		get[int](b, `(document.querySelector('select[name="kind"]').value = "prospects", 0)`)
		b.submit(`form[action$="/columns"] button`)
		b.heading("people.csv: columns")
		b.screenshot("console-columns-people")
		b.submit(`.actions button:not([formaction])`)
		b.heading("people.csv: columns")
		found := b.seen("main")
		for _, want := range []string{"This file has faults. Nothing was stored.", "Company website Account, by its domain", "matches no account", "is not an email address"} {
			if !strings.Contains(found, want) {
				t.Errorf("the page lacks %q: %q", want, found)
			}
		}
		b.checkLook("a refused import")
		b.screenshot("console-refused-import")
		b.choose(`input[name="file"]`, "corrected.csv", "First name,Last name,Email,Company website\nWren,Moss,wren@b.example,\n")
		b.submit(`button[formaction$="check=true"]`)
		if found := b.seen("main"); !strings.Contains(found, "Of the new prospects, 0 are linked to an account, and 1 is not.") {
			t.Errorf("the check says %q", found)
		}
		b.checkLook("a check of persons")
		b.screenshot("console-checked-people")
	})
}
