package csvrows

import (
	"io"
	"strings"
	"testing"
)

func TestPartsOfANameAreJoined(t *testing.T) {
	for in, want := range map[string]string{
		"First Name,Last Name,Email\nKim,Lee,kim@a.example\n":          `"name":"Kim Lee"`,
		"Last name;First name\nLee;Kim\n":                              `"name":"Kim Lee"`,
		"firstname,lastname\nKim,\n":                                   `"name":"Kim"`,
		"Given Name,Surname\n,Lee\n":                                   `"name":"Lee"`,
		"Vorname;Nachname\nKim;Lee\n":                                  `"name":"Kim Lee"`,
		"Full name,First name,Last name\nDr. Kim Lee,Kim,Lee\n":        `"name":"Dr. Kim Lee"`,
		"Name,First name,Last name\n,Kim,Lee\n":                        `"name":"Kim Lee"`,
		"First Name,Middle,Last Name\n\"Kim\nA.\",x,\"L \"\"e\"\"\"\n": `"name":"Kim\nA. L \"e\""`,
		"Name,Surname\nKim,Lee\n":                                      `"name":"Kim Lee"`,
		"Full name,Surname\nKim Lee,Lee\n":                             `"name":"Kim Lee"`,
	} {
		out, faults, err := convert(in, "prospects")
		if err != nil || len(faults) > 0 || !strings.Contains(out, want) || strings.Contains(out, "irstName") {
			t.Errorf("%q becomes %s, %v, %v", in, out, faults, err)
		}
	}
	// The same person has the same line, whatever columns have the name.
	whole, _, _ := convert("name,email\nKim Lee,kim@a.example\n", "prospects")
	if parts, _, err := convert("first name,last name,email\nKim,Lee,kim@a.example\n", "prospects"); err != nil || parts != whole {
		t.Errorf("%s is not %s: %v", parts, whole, err)
	}
}

func TestAnAddressThatIsNoneIsAFaultOfItsRow(t *testing.T) {
	in := "name,email\nA,a@b.example\nB,b\nC,\nD,d@@b.example\nE,e@\nF,\"f@a.example, g@b.example\"\nG,g@localhost\n"
	out, faults, err := convert(in, "prospects")
	if err != nil || strings.Count(out, `"kind"`) != 2 || len(faults) != 5 {
		t.Fatalf("%s, %v, %v", out, faults, err)
	}
	for i, line := range []int{3, 5, 6, 7, 8} {
		if f := faults[i]; f.Line != line || f.Member != "email" || f.Detail != "is not an email address, such as jane@example.com" {
			t.Errorf("%v", f)
		}
	}
}

// What is copied of a row is small, however long the row is.
func TestLongTextsOfPersonsAreFaults(t *testing.T) {
	long := strings.Repeat("a", 500_000)
	out, faults, err := convert("first name,last name,email\n"+long+","+long+",\nKim,Lee,"+long+"@a.example\nJo,Roe,\n", "prospects")
	if err != nil || len(faults) != 2 || faults[0].Member != "name" || faults[1].Member != "email" || strings.Count(out, `"kind"`) != 1 {
		t.Errorf("%s, %v, %v", out, faults, err)
	}
}

func TestRowsWithoutANameAreCounted(t *testing.T) {
	k, _ := KindOf("prospects")
	f, err := NewFile(strings.NewReader("first name,email\nKim,kim@a.example\n,a@a.example\n,\n,wrong\n,b@a.example\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLines(f, k, k.Guess(f.Header))
	if err != nil {
		t.Fatal(err)
	}
	l.Refuse = func(Fault) error { return nil }
	if _, err := io.ReadAll(l); err != nil || l.Nameless != 2 {
		t.Errorf("%d rows, %v", l.Nameless, err)
	}
}

func TestThePersonsOfATableNameTheirAccounts(t *testing.T) {
	out, faults, err := convert("email,account domain,website\na@b.example,https://www.b.example/x,c.example\nd@e.example,,\nf@g.example,G Inc.,\n", "prospects")
	if err != nil || strings.Count(out, "accountDomain") != 1 || !strings.Contains(out, `"accountDomain":"b.example","domain":"c.example"`) {
		t.Errorf("%s, %v", out, err)
	}
	if want := (Fault{4, "accountDomain", "needs a dot and no spaces, as in example.com"}); len(faults) != 1 || faults[0] != want {
		t.Errorf("the faults are %v", faults)
	}
}

// The server derives the identifier, so that a row has nothing that only its values determine.
func TestAPersonIsMatchedByTheirEmailAddress(t *testing.T) {
	for table, want := range map[string]string{
		"name,email\nA,a@b.example\n":         `{"kind":"prospect","name":"A","email":"a@b.example","matchBy":"email"}`,
		"name,email\nA,\n":                    `{"kind":"prospect","name":"A","matchBy":"values"}`,
		"phone,account domain\n1,c.example\n": `{"kind":"prospect","accountDomain":"c.example","phoneNumber":"1","matchBy":"values"}`,
	} {
		if out, faults, err := convert(table, "prospects"); err != nil || len(faults) > 0 || strings.TrimSpace(out) != want {
			t.Errorf("%q becomes %s, %v, %v", table, out, faults, err)
		}
	}
}

// A column that a sales system names after the organization is a link. The own domain of a person is hardly ever in a table.
func TestAColumnOfTheOrganizationIsALinkOfThePerson(t *testing.T) {
	for _, heading := range []string{
		"Company domain", "Company Domain Name", "company_website", "Company website URL", "Account domain", "Account Website",
		"Organization website", "accountDomain",
	} {
		out, faults, err := convert("Email,"+heading+"\na@b.example,https://www.c.example/\n", "prospects")
		if err != nil || len(faults) > 0 || !strings.Contains(out, `"accountDomain":"c.example"`) || strings.Contains(out, `"domain"`) {
			t.Errorf("%q: %s, %v, %v", heading, out, faults, err)
		}
	}
	k, _ := KindOf("prospects")
	columns := k.Guess([]string{"Account", "Company domain", "domain"}) // the first one can have names
	if columns["accountDomain"] != 1 || columns["domain"] != 2 || len(columns) != 2 {
		t.Errorf("the columns are %v", columns)
	}
}

func TestSourcesAreTheColumnsOfAMember(t *testing.T) {
	k, _ := KindOf("prospects")
	for member, want := range map[string]string{"accountDomain": "accountDomain", "name": "name firstName lastName", "prospectId": "", "": ""} {
		var found []string
		for _, f := range k.Sources(member) {
			found = append(found, f.Member)
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("the sources of %s are %q, want %q", member, got, want)
		}
	}
}
