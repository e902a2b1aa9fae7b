package csvrows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// A Kind is a kind of record that rows can become.
type Kind struct {
	Name   string // of the records, in plural
	Record string // the kind of the lines of an import
	Fields []Field
}

// A Field is a member of the records that a column can have.
type Field struct {
	Member, Title string
	Required      bool

	partOf   string   // the member that the parts are joined into; "" if the records have the member itself
	headings []string // which columns have it, in normal form
}

// Kinds are all kinds.
var Kinds = []Kind{
	{"accounts", "account", []Field{
		{"domain", "Domain", true, "", []string{"domain", "domainname", "website", "websiteurl", "web", "url", "site", "homepage", "companydomain", "companydomainname"}},
		{"name", "Name", false, "", []string{"name", "company", "companyname", "organization", "organizationname", "account", "accountname"}},
	}},
	{"prospects", "prospect", []Field{
		{"name", "Name", false, "", []string{"name", "fullname", "contact", "contactname", "person"}},
		{memberFirstName, "First name", false, "name", []string{"firstname", "first", "givenname", "forename", "vorname", "prénom", "prenom"}},
		{memberLastName, "Last name", false, "name", []string{"lastname", "last", "surname", "familyname", "nachname", "familienname"}},
		{memberEmail, "Email", false, "", []string{"email", "emailaddress", "mail"}},
		{memberAccount, "Account, by its domain", false, "", []string{
			"accountdomain", "companydomain", "companydomainname", "organizationdomain", "accountwebsite", "companywebsite", "organizationwebsite",
			"accountwebsiteurl", "companywebsiteurl", "accounturl", "companyurl",
		}},
		{"domain", "Domain of the person (rarely used)", false, "", []string{"domain", "website", "url"}},
		{"phoneNumber", "Phone", false, "", []string{"phonenumber", "phone", "telephone", "tel", "mobile"}},
		{"slug", "Slug", false, "", []string{"slug"}},
		{"linkedinProfileUrl", "LinkedIn", false, "", []string{"linkedinprofileurl", "linkedin", "linkedinurl", "linkedinprofile"}},
	}},
}

// KindOf returns the kind with a name.
func KindOf(name string) (k Kind, ok bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return k, false
	}
	return Kinds[i], true
}

// Columns are the columns of members, by index from 0.
type Columns map[string]int

// normal returns the letters and digits of a heading in lower case and American spelling.
func normal(heading string) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, heading)
	return strings.ReplaceAll(text, "isation", "ization")
}

// Guess returns the columns that usual headings name. A column becomes one member.
func (k Kind) Guess(header []string) Columns {
	names := make([]string, len(header))
	for i, text := range header {
		names[i] = normal(text)
	}
	columns, used := Columns{}, map[int]bool{}
	for _, f := range k.Fields {
	headings:
		for _, heading := range f.headings {
			for i, name := range names {
				if name == heading && !used[i] {
					columns[f.Member], used[i] = i, true
					break headings
				}
			}
		}
	}
	// With a surname, a column that is just called name has the other part.
	if i, ok := columns[memberName]; ok && names[i] == memberName {
		_, first := columns[memberFirstName]
		if _, last := columns[memberLastName]; last && !first {
			columns[memberFirstName] = i
			delete(columns, memberName)
		}
	}
	return columns
}

// Find returns the columns with the headings that members have in a map.
func (k Kind) Find(header []string, headings map[string]string) (Columns, error) {
	columns := Columns{}
	for _, member := range slices.Sorted(maps.Keys(headings)) {
		i := slices.IndexFunc(header, func(text string) bool { return strings.EqualFold(text, headings[member]) })
		if i < 0 {
			return nil, fmt.Errorf("there is no column %q: the columns are %s", headings[member], quoted(header))
		}
		columns[member] = i
	}
	return columns, nil
}

// Check returns what is wrong with the columns of a kind, or nil.
func (k Kind) Check(columns Columns) error {
	for member := range columns {
		if !slices.ContainsFunc(k.Fields, func(f Field) bool { return f.Member == member }) {
			return fmt.Errorf("%s have no %q: they have %s", k.Name, member, k.members())
		}
	}
	if len(columns) == 0 {
		return fmt.Errorf("no column is chosen: %s have %s", k.Name, k.members())
	}
	for _, f := range k.Fields {
		if _, ok := columns[f.Member]; f.Required && !ok {
			return fmt.Errorf("no column is chosen for %s", f.Member)
		}
	}
	return nil
}

// Sources returns the fields whose columns make a member of the records: the field of the member, and those of its parts;
// none for "".
func (k Kind) Sources(member string) (fields []Field) {
	for _, f := range k.Fields {
		if f.Member == member || f.partOf == member && member != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

func (k Kind) members() string {
	var names []string
	for _, f := range k.Fields {
		names = append(names, f.Member)
	}
	return strings.Join(names, ", ")
}

// Columns returns the headings for a message.
func (f *File) Columns() string { return quoted(f.Header) }

// shownColumns is the number of headings in a message.
const shownColumns = 20

func quoted(header []string) string {
	var texts []string
	for _, text := range header[:min(len(header), shownColumns)] {
		texts = append(texts, fmt.Sprintf("%q", text))
	}
	return strings.Join(texts, ", ")
}
