package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"atrium"
)

// A file of CSV is previewed, checked and imported, each time from an upload; nothing is kept in between.
func TestCSVIsPreviewedCheckedAndImported(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0])
		var file strings.Builder
		file.WriteString("\uFEFFWebsite;Company Name;Notes\r\n")
		const rows = 3000
		for i := range rows {
			fmt.Fprintf(&file, "https://www.org%d.example/;\"Org; \"\"%d\"\"\r\nsecond line\";'=1+1\r\n", i, i)
		}
		a := s.upload(of+"/import/columns", url.Values{"kind": {"accounts"}}, file.String(), cookie)
		for _, want := range []string{"<h1>file.csv: columns</h1>", `<option value="0:Website" selected>`, `<option value="1:Company Name" selected>`, "https://www.org4.example/", "<button>Import file</button>"} {
			if !strings.Contains(a.body, want) {
				t.Errorf("the preview lacks %q", want)
			}
		}
		if strings.Contains(a.body, "org5.example") {
			t.Error("the preview has more than five rows")
		}
		fields := url.Values{"kind": {"accounts"}, "column:domain": {"0:Website"}, "column:name": {"1:Company Name"}, "skip": {"true"}}
		before := s.changes()
		if a := s.upload(of+"/import?check=true", fields, file.String(), cookie); !strings.Contains(a.body, "no faults. 3,000 records would be added, 0 exist already. Nothing is stored yet.") || !strings.Contains(a.body, `<button class="primary">Import file</button>`) {
			t.Errorf("the check: %s", a.body)
		}
		if s.changes() != before {
			t.Error("a check has changed something")
		}
		if a := s.upload(of+"/import", fields, file.String(), cookie); !strings.Contains(a.body, "3,000 records added, 0 exist already.") {
			t.Errorf("the import: %s", a.body)
		}
		if a := s.upload(of+"/import", fields, file.String(), cookie); !strings.Contains(a.body, "0 records added, 3,000 exist already.") {
			t.Errorf("the second import: %s", a.body)
		}
		if a := s.ask(http.MethodGet, of+"/accounts?q=org2999.example", nil, cookie); !strings.Contains(a.body, "Org; &#34;2999&#34;\nsecond line") {
			t.Errorf("the account: %s", a.body)
		}
	})
}

func TestEveryFaultOfAFileIsShownWithItsLine(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0])
		fields := url.Values{"kind": {"accounts"}, "column:domain": {"0:domain"}, "column:name": {"1:name"}}
		file := "domain,name\n,Nobody\nacme.example,Again\na.example,\"B\"C\n<script>,D\nnew.example,New\n"
		a := s.upload(of+"/import?check=true", fields, file, cookie)
		for _, want := range []string{`<td class="number">2</td><td>domain <small class="quiet">Domain</small></td><td>is empty</td>`, `<td class="number">3</td><td>domain <small class="quiet">Domain</small></td><td>another account has it</td>`, `<td class="number">4</td><td></td><td>is not CSV`} {
			if !strings.Contains(a.body, want) {
				t.Errorf("the check lacks %q: %s", want, a.body)
			}
		}
		// An import that is refused leaves the user where the columns are, with the faults of all rows.
		a = s.upload(of+"/import", fields, file, cookie)
		for _, want := range []string{
			"<h1>file.csv: columns</h1>", "This file has faults. Nothing was stored. Correct these lines", `<option value="1:name" selected>`, `name="kept"`,
			`<td class="number">2</td><td>domain <small class="quiet">Domain</small></td><td>is empty</td>`, `<td class="number">4</td><td></td><td>is not CSV`,
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("the import lacks %q: %s", want, a.body)
			}
		}
		if strings.Contains(a.body, `value="true" checked`) {
			t.Error("the page has changed what the user chose about existing rows")
		}
		a = s.upload(of+"/import", nil, `{"kind":"account","domain":"ok.example"}`+"\n"+`{"kind":"account","domain":""}`+strings.Repeat("\n", 4<<20), cookie)
		if !strings.Contains(a.body, `<td class="number">2</td><td>domain</td><td>must not be empty</td>`) || strings.Contains(a.body, "fromLine") {
			t.Errorf("an NDJSON file with a fault and much after it: %s", a.body)
		}
		for name, c := range map[string]struct {
			path   string
			fields url.Values
			file   string
			status int
		}{
			"another file":     {"/import", fields, "name,domain\nA,a.example\n", http.StatusBadRequest},
			"no such kind":     {"/import", url.Values{"kind": {"pages"}}, file, http.StatusBadRequest},
			"no column":        {"/import", url.Values{"kind": {"accounts"}}, file, http.StatusBadRequest},
			"UTF-16":           {"/import/columns", url.Values{"kind": {"accounts"}}, "\xff\xfea\x00", http.StatusBadRequest},
			"too many fields":  {"/import", url.Values{"x": make([]string, 100)}, file, http.StatusBadRequest},
			"no kind, preview": {"/import/columns", nil, file, http.StatusBadRequest},
		} {
			if a := s.upload(of+c.path, c.fields, c.file, cookie); a.StatusCode != c.status || name == "UTF-16" && !strings.Contains(a.body, "save it as CSV UTF-8") {
				t.Errorf("%s: %s %s", name, a.Status, a.body)
			}
		}
		if a := s.ask(http.MethodPost, of+"/import", url.Values{"file": {"x"}}, cookie); a.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("a form without a file: %s", a.Status)
		}
	})
}

// Lists of persons have the parts of names in columns of their own.
func TestACheckOfPersonsSaysWhatIsMissing(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, of := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		const file = "First Name,Last Name,Email\nKim,Lee,kim@a.example\n,,b@a.example\n,,c@a.example\nJo,Roe,jo.example\n"
		columns := s.upload(of+"/import/columns", url.Values{"kind": {"prospects"}}, file, cookie)
		for _, want := range []string{`<option value="0:First Name" selected>`, `<option value="1:Last Name" selected>`, `<option value="2:Email" selected>`} {
			if !strings.Contains(columns.body, want) {
				t.Errorf("the preview lacks %q", want)
			}
		}
		fields := url.Values{"kind": {"prospects"}, "column:firstName": {"0:First Name"}, "column:lastName": {"1:Last Name"}, "column:email": {"2:Email"}}
		a := s.upload(of+"/import?check=true", fields, file, cookie)
		for _, want := range []string{"2 rows have no name.", `<td class="number">5</td><td>Email <small class="quiet">Email</small></td><td>is not an email address, such as jane@example.com</td>`} {
			if !strings.Contains(a.body, want) {
				t.Errorf("the check lacks %q: %s", want, a.body)
			}
		}
		good, _, _ := strings.Cut(file, "Jo,")
		if a := s.upload(of+"/import", fields, good, cookie); !strings.Contains(a.body, "3 records added") {
			t.Errorf("the import: %s", a.body)
		}
		if a := s.ask(http.MethodGet, of+"/prospects?q=lee", nil, cookie); !strings.Contains(a.body, ">Kim Lee</a>") {
			t.Errorf("the prospects: %s", a.body)
		}
	})
}

func TestPersonsOfATableAreLinkedToTheirAccounts(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, of := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		const file = "Email,Website\nwren@a.example,https://www.acme.example/\njo@b.example,nobody.example\n"
		if a := s.upload(of+"/import/columns", url.Values{"kind": {"prospects"}}, file, cookie); !strings.Contains(a.body, "Account, by its domain") {
			t.Errorf("the preview: %s", a.body)
		}
		fields := url.Values{"kind": {"prospects"}, "column:email": {"0:Email"}, "column:accountDomain": {"1:Website"}, "skip": {"true"}}
		if a := s.upload(of+"/import?check=true", fields, file, cookie); !strings.Contains(a.body, `<td class="number">3</td><td>Website <small class="quiet">Account, by its domain</small></td><td>matches no account: import the account first</td>`) {
			t.Errorf("the check: %s", a.body)
		}
		good, _, _ := strings.Cut(file, "jo@")
		good += "robin@b.example,\n"
		if a := s.upload(of+"/import?check=true", fields, good, cookie); !strings.Contains(a.body, "2 records would be added") || !strings.Contains(a.body, "Of the new prospects, 1 is linked to an account, and 1 is not.") {
			t.Errorf("the check: %s", a.body)
		}
		if a := s.upload(of+"/import", fields, good, cookie); !strings.Contains(a.body, "2 records added") || !strings.Contains(a.body, "Of the new prospects, 1 is linked to an account, and 1 is not.") {
			t.Errorf("the import: %s", a.body)
		}
		if a := s.upload(of+"/import?check=true", fields, good, cookie); !strings.Contains(a.body, "0 records would be added, 2 exist already.") {
			t.Errorf("the check again: %s", a.body)
		}
		if a := s.upload(of+"/import", fields, good, cookie); !strings.Contains(a.body, "0 records added, 2 exist already.") || strings.Contains(a.body, "Of the new prospects") || !strings.Contains(a.body, "get no new links") {
			t.Errorf("the import again: %s", a.body)
		}
		a := s.ask(http.MethodGet, of+"/prospects?q=wren", nil, cookie)
		_, path, _ := strings.Cut(a.body, of+"/prospects/prospect_")
		path, _, _ = strings.Cut(path, `"`)
		if a := s.ask(http.MethodGet, of+"/prospects/prospect_"+path, nil, cookie); !strings.Contains(a.body, `account_000000000000000000000000a1">Acme</a>`) {
			t.Errorf("the prospect: %s", a.body)
		}
	})
}

// What an export has, an import takes; neither is shown in the browser.
func TestExportsAreFiles(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0])
		for path, want := range map[string]string{"/export.ndjson": `"domain":"acme.example"`, "/audit.ndjson": `"action":"import"`} {
			a := s.ask(http.MethodGet, of+path, nil, cookie)
			if a.StatusCode != http.StatusOK || !strings.Contains(a.body, want) || a.Header.Get("Content-Disposition") != `attachment; filename="`+path[1:]+`"` || a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s %v", path, a.Status, a.Header)
			}
		}
		everything := s.ask(http.MethodGet, of+"/export.ndjson", nil, cookie).body
		if a := s.upload(of+"/import", nil, everything, cookie); !strings.Contains(a.body, "0 records added, 8 exist already.") {
			t.Errorf("the export is not what an import takes: %s", a.body)
		}
	})
}

// The fields before a file are held in memory. Their names and headers count as well.
func TestTheFieldsOfAnUploadAreBounded(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0])
		for name, fields := range map[string]url.Values{
			"a long name":     {strings.Repeat("n", 1<<20): {"x"}},
			"a long value":    {"kind": {strings.Repeat("v", 1<<20)}},
			"many long names": {strings.Repeat("a", 30<<10): {"x"}, strings.Repeat("b", 30<<10): {"x"}, strings.Repeat("c", 30<<10): {"x"}},
		} {
			if a := s.upload(of+"/import/columns", fields, "domain\na.example\n", cookie); a.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %s", name, a.Status)
			}
		}
		if a := s.upload(of+"/import/columns", url.Values{"kind": {"accounts"}}, "domain\n"+strings.Repeat("a.example\n", 100_000), cookie); a.StatusCode != http.StatusOK {
			t.Errorf("a large file: %s", a.Status)
		}
	})
}

func TestARefusedImportSaysHowMuchIsStored(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, of := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		var file strings.Builder
		file.WriteString("domain\nacme.example\n")
		for i := range 899 {
			fmt.Fprintf(&file, "org%d.example\n", i)
		}
		fields := url.Values{"kind": {"accounts"}, "column:domain": {"0:domain"}, "skip": {"true"}}
		a := s.upload(of+"/import", fields, file.String()+"caf\xe9.example\n", cookie) // of Excel on Windows
		stored := strings.Count(s.ask(http.MethodGet, of+"/export.ndjson", nil, cookie).body, `"domain":"org`)
		for _, want := range []string{
			fmt.Sprintf("This file has faults. %d records were stored. Correct these lines", stored), `<td class="number">902</td>`, "in Excel, save the file as CSV UTF-8", `value="true" checked`,
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("the import lacks %q: %s", want, a.body)
			}
		}
		if stored == 0 || stored == 899 {
			t.Errorf("%d rows are stored, want some", stored)
		}
		if a := s.upload(of+"/import", fields, file.String(), cookie); !strings.Contains(a.body, fmt.Sprintf("%d records added, %d exist already.", 899-stored, stored+1)) {
			t.Errorf("the corrected file: %s", a.body)
		}
	})
}

// A wrong choice of columns is said at its field, with the other choices and the file kept.
func TestWrongColumnsAreChosenAgain(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, of := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		const file = "domain,name\nnew.example,New\n"
		before := s.changes()
		for name, c := range map[string]struct {
			kind           string
			domain, chosen string // the columns of domains and names
			has            []string
		}{
			"none":                {"accounts", "", "1:name", []string{`"#fault0"`, "Domain needs a column", `<option value="1:name" selected`}},
			"one of another file": {"accounts", "0:Website", "1:name", []string{`"#fault0"`, "is not a column of this file.", `<option value="1:name" selected`}},
			"beyond the last":     {"accounts", "0:domain", "7:name", []string{`"#fault0"`, "is not a column of this file.", `<option value="0:domain" selected`}},
			"no column at all":    {"prospects", "", "", []string{"Choose a column for at least one field."}},
		} {
			for _, path := range []string{"/import", "/import?check=true"} {
				a := s.upload(of+path, url.Values{"kind": {c.kind}, "column:domain": {c.domain}, "column:name": {c.chosen}}, file, cookie)
				for _, want := range append(c.has, "<h1>file.csv: columns</h1>", `name="kept" value="`) {
					if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, want) {
						t.Errorf("%s, %s: %s, without %q: %s", name, path, a.Status, want, a.body)
					}
				}
			}
		}
		if s.changes() != before {
			t.Error("a refused import has changed something")
		}
	})
}

func TestARowThatCannotBeShownIsNamed(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, of := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		a := s.upload(of+"/import/columns", url.Values{"kind": {"accounts"}}, "domain,name\na.example,Caf\xe9\nb.example,B\n", cookie)
		if !strings.Contains(a.body, "Line 2 is not UTF-8: in Excel, save the file as CSV UTF-8") || !strings.Contains(a.body, "<td>b.example</td>") {
			t.Errorf("the preview: %s", a.body)
		}
	})
}

func TestAFileOfAnotherFormatIsNamed(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, of := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		const workbook = "PK\x03\x04\x14\x00\x06\x00"
		const isWorkbook, isTable = "this is an Excel workbook: save it as CSV UTF-8.", "choose it under Import CSV."
		for _, c := range []struct {
			path, file, want string
			fields           url.Values
		}{
			{"/import/columns", workbook, isWorkbook, url.Values{"kind": {"prospects"}}},
			{"/import", workbook, isWorkbook, nil},
			{"/import?check=true", workbook, isWorkbook, nil},
			{"/import", "\uFEFFdomain,name\nnew.example,New\n", isTable, nil},
			{"/import?check=true", "domain,name\n", isTable, nil},
		} {
			a := s.upload(of+c.path, c.fields, c.file, cookie)
			if !strings.Contains(a.body, "file.csv cannot be imported: ") || !strings.Contains(a.body, c.want) || strings.Contains(a.body, "JSON value") || strings.Contains(a.body, `<td class="number">`) {
				t.Errorf("%q at %s: %s", c.file, c.path, a.body)
			}
		}
		for _, file := range []string{"", "\n\n{\"kind\":\"account\",\"domain\":\"new.example\"}\n"} {
			if a := s.upload(of+"/import?check=true", nil, file, cookie); !strings.Contains(a.body, "no faults.") {
				t.Errorf("%q: %s", file, a.body)
			}
		}
	})
}
