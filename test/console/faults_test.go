package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"atrium"
)

// A refusedForm is a form with something wrong in a field.
type refusedForm struct {
	path  string // after that of the tenant, unless it has that of the console; it begins with "?GET " for a page
	form  url.Values
	field string // the name of the field that has the fault; "" for none
	fault string // a part of its text
}

// hostileName has more characters than a name may have, and breaks out of a page that does not escape it.
var hostileName = `"'></textarea><script>alert(1)</script>` + strings.Repeat("x", 300)

// refusedForms are forms of all kinds with something wrong.
var refusedForms = map[string]refusedForm{
	"account, a name as the domain":     {"/accounts", url.Values{"domain": {"Acme Inc."}, "name": {"Acme"}}, "domain", "Domain needs a dot and no spaces, as in example.com"},
	"account, no dot":                   {"/accounts", url.Values{"domain": {"acme"}, "name": {"Acme"}}, "domain", "Domain needs a dot and no spaces, as in example.com"},
	"account, name":                     {"/accounts", url.Values{"domain": {"long.example"}, "name": {hostileName}}, "name", "Name"},
	"account, taken":                    {"/accounts", url.Values{"domain": {"acme.example"}, "name": {"Taken"}}, "", ""},
	"rename, a name as the domain":      {"/accounts/account_000000000000000000000000a1", seen("name", "Acme", "domain", "acme"), "domain", "Domain needs a dot and no spaces, as in example.com"},
	"rename, name":                      {"/accounts/account_000000000000000000000000a1", seen("name", hostileName, "domain", "acme.example"), "name", "Name"},
	"new prospect":                      {"/accounts/account_000000000000000000000000a1/prospects", url.Values{"name": {hostileName + strings.Repeat("x", 5000)}, "email": {"kim@acme.example"}}, "name", "Name"},
	"link a prospect":                   {"/accounts/account_000000000000000000000000a1/link", url.Values{"prospect": {"nobody@acme.example"}}, "prospect", "No prospect has this email address or ID."},
	"erase an account":                  {"/accounts/account_000000000000000000000000a1/erase", seen("domain", "beta.example"), "domain", "You typed"},
	"merge":                             {"/accounts/account_000000000000000000000000a1/merge", seen("into", "account_000000000000000000000000a1"), "", ""},
	"split":                             {"/accounts/account_000000000000000000000000a1/split", seen("accountId", "x"), "", ""},
	"prospect":                          {"/prospects/prospect_000000000000000000000000a1", url.Values{"seen:name": {"Kim"}, "name": {"Kim"}, "email": {strings.Repeat("x", 5000)}, "tag": {"*"}}, "email", "Email"},
	"prospect, link":                    {"/prospects/prospect_000000000000000000000000a1/link", url.Values{"account": {"nobody.example"}}, "account", "No account has the domain or name nobody.example."},
	"entry, move":                       {"/activity/prospectlog_000000000000000000000000a1/move", url.Values{"account": {"nobody.example"}}, "account", "No account has the domain or name nobody.example."},
	"moves":                             {"/moves", url.Values{"to": {"nobody.example"}, "source": {"crm"}}, "to", "No account has the domain or name nobody.example."},
	"moves, pointer":                    {"/moves", url.Values{"to": {"beta.example"}, "pointer": {"form"}, "equals": {"1"}}, "pointer", "Field of the payload must begin with /, such as /form"},
	"moves, rule":                       {"/moves", url.Values{"to": {"beta.example"}, "source": {hostileName}}, "source", "Source"},
	"page":                              {"/pages", url.Values{"brandId": {"brand_000000000000000000000000a1"}, "name": {hostileName}, "title": {"Title"}}, "name", "Name"},
	"page, edit":                        {"/pages/page_000000000000000000000000a1/edit", url.Values{"name": {hostileName}, "seen:name": {"Spring"}, "tag": {"*"}}, "name", "Name"},
	"page, JSON":                        {"/pages/page_000000000000000000000000a1/edit", url.Values{"actions": {"[{"}, "seen:actions": {"[]"}, "tag": {"*"}}, "actions", "Actions is not valid JSON: line 1, column 3: it ends too early"},
	"page, number":                      {"/pages/page_000000000000000000000000a1/edit", url.Values{"maxAgeSeconds": {"a"}, "seen:maxAgeSeconds": {"60"}, "tag": {"*"}}, "maxAgeSeconds", "Cache time in seconds must be a whole number"},
	"page, schedule":                    {"/pages/page_000000000000000000000000a1/schedule", url.Values{"publishAt": {"2999-01-02T00:00"}, "unpublishAt": {"2999-01-01T00:00"}}, "unpublishAt", "Unpublish at must be after Publish at"},
	"audience":                          {"/pages/page_000000000000000000000000a1/audiences", url.Values{"name": {hostileName}}, "name", "New audience"},
	"audience, rename":                  {"/pages/page_000000000000000000000000a1/audiences/audience_000000000000000000000000a1/rename", url.Values{"name": {hostileName}, "tag": {"*"}}, "name", "Name"},
	"version, JSON":                     {"/pages/page_000000000000000000000000a1/audiences/audience_000000000000000000000000a1/versions", url.Values{"content": {"{"}, "note": {"A note"}}, "content", "Content is not valid JSON"},
	"version, note":                     {"/pages/page_000000000000000000000000a1/audiences/audience_000000000000000000000000a1/versions", url.Values{"content": {"{}"}, "note": {strings.Repeat("x", 2000)}}, "note", "Note"},
	"brand":                             {"/brands", url.Values{"name": {hostileName}}, "name", "Name"},
	"brand, rename":                     {"/brands/brand_000000000000000000000000a1/rename", url.Values{"name": {hostileName}, "seen:name": {"Acme"}}, "name", "Name of Acme"},
	"key, scopes":                       {"/keys", url.Values{"name": {"A key"}}, "scopes", "Scopes"},
	"key, last day":                     {"/keys", url.Values{"name": {"A key"}, "scopes": {"accounts:read"}, "lastDay": {"2020-01-01"}}, "lastDay", "Last day has passed"},
	"key of a site":                     {"/keys?for=site", url.Values{"name": {"A key"}, "origins": {"https://a.example/path"}}, "origins", "Sites"},
	"person":                            {"/people", url.Values{"name": {hostileName}, "role": {"editor"}}, "name", "Name"},
	"group":                             {"/people/groups", url.Values{"group": {hostileName}, "role": {"editor"}}, "group", "Group"},
	"webhook, address":                  {"/webhooks", url.Values{"url": {"http://192.0.2.1/"}, "description": {"Kept"}, "eventTypes": {"page.published"}, "ordered": {"yes"}}, "url", "URL"},
	"webhook, condition":                {"/webhooks", url.Values{"url": {"http://127.0.0.1:1/"}, "filter": {"data."}}, "filter", "Condition"},
	"webhook, headers":                  {"/webhooks", url.Values{"url": {"http://127.0.0.1:1/"}, "headers": {"Authorization"}}, "headers", "Line 1 of the headers must be a name, a colon and a value."},
	"webhook, rate":                     {"/webhooks", url.Values{"url": {"http://127.0.0.1:1/"}, "rateLimit": {"fast"}}, "rateLimit", "Requests a second must be a number"},
	"receiver, mapping":                 {"/receivers", url.Values{"name": {"Issues"}, "provider": {"github"}, "mapping:type": {"body."}}, "mapping:type", "Type"},
	"receiver, tolerance":               {"/receivers", url.Values{"name": {"Issues"}, "provider": {"hmac"}, "verification:tolerance": {"long"}}, "verification:tolerance", "Tolerance must be a number of seconds"},
	"summary":                           {"/activity/summaries", url.Values{"source": {"web"}, "template": {"{name"}}, "template", "Template"},
	"summary, preview":                  {"/activity/summaries", url.Values{"source": {"web"}, "template": {"{name"}, "preview": {"yes"}}, "template", "Template"},
	"retention, days":                   {"/privacy/retention", url.Values{"source:0": {"crm"}, "days:0": {"5"}, "source:1": {"web"}, "days:1": {"soon"}}, "days:1", "Days of rule 2 must be a number"},
	"retention, rule":                   {"/privacy/retention", url.Values{"source:0": {"crm"}, "source:1": {"web"}, "days:1": {"0"}}, "days:1", "Days of rule 2"},
	"person, text":                      {"/privacy/person", url.Values{"textContains": {"a"}}, "textContains", "Part of a text"},
	"person, account":                   {"/privacy/person", url.Values{"text": {"kim"}, "account": {"nobody.example"}}, "account", "No account has the domain or name nobody.example."},
	"person, confirmation":              {"/privacy/person", url.Values{"claimedDomain": {"acme.example"}, "confirm": {"no"}}, "confirm", "Type erase to confirm."},
	"tenant":                            {"/console/tenants", url.Values{"name": {hostileName}}, "name", "Name"},
	"tenant, rename":                    {"/tenant/rename", url.Values{"name": {hostileName}, "tag": {"*"}}, "name", "Name"},
	"tenant, delete":                    {"/tenant/delete", url.Values{"confirmName": {"Another"}, "tag": {"*"}}, "confirmName", "You typed"},
	"page of moves, account":            {"?GET /moves/new", url.Values{"to": {"nobody.example"}, "source": {"crm"}}, "to", "No account has the domain or name nobody.example."},
	"page of a merge, account":          {"?GET /accounts/account_000000000000000000000000a1/merge", url.Values{"into": {"acme.example"}}, "into", "That is the same account."},
	"activity, account":                 {"?GET /activity", url.Values{"account": {"nobody.example"}, "source": {"crm"}}, "account", "No account has the domain or name nobody.example."},
	"activity, a time that is not one":  {"?GET /activity", url.Values{"since": {"yesterday"}}, "since", "From"},
	"audit log, a time that is not one": {"?GET /audit", url.Values{"since": {"yesterday"}}, "since", "From"},
}

// What is wrong with a form is said at its field and in a list that leads there, and what was entered stays.
func TestFaultsAreShownAtTheirFields(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		s.withProvider(jane(), withEncryption(t))
		cookie := s.signIn(atrium.RoleOperator)
		before := s.changes()
		for name, f := range refusedForms {
			t.Run(name, func(t *testing.T) {
				s.t = t
				path, isGet := strings.CutPrefix(f.path, "?GET ")
				at := path
				if !strings.HasPrefix(at, "/console/") {
					at = "/console/" + string(s.tenants[0]) + path
				}
				a := s.ask(http.MethodPost, at, f.form, cookie)
				if isGet {
					a = s.ask(http.MethodGet, at+"?"+f.form.Encode(), nil, cookie)
				} else if a.StatusCode != http.StatusBadRequest && a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusConflict && f.form.Get("preview") == "" {
					t.Errorf("status %s", a.Status)
				}
				checkRefusal(t, a.body, f)
			})
		}
		s.t = t
		if s.changes() != before {
			t.Errorf("%d changes", s.changes()-before)
		}
	})
}

// checkRefusal checks a page with a form that was refused.
func checkRefusal(t *testing.T, page string, f refusedForm) {
	t.Helper()
	if strings.Contains(page, "<script>alert") {
		t.Error("the page has a script of the form")
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var invalid []*html.Node
	byID := map[string]*html.Node{}
	var focused []string
	links := map[string]string{}
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			if byID[id] != nil {
				t.Errorf("two elements have the ID %s", id)
			}
			byID[id] = n
		}
		if attribute(n, "aria-invalid") == "true" {
			invalid = append(invalid, n)
		}
		if slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "autofocus" }) {
			focused = append(focused, attribute(n, "role")+attribute(n, "tabindex"))
		}
		if slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-fault" }) {
			links[attribute(n, "href")] = textOf(n)
		}
	}
	if !slices.Equal(focused, []string{"alert-1"}) {
		t.Errorf("the list of faults has not the focus: %q", focused)
	}
	if f.field == "" {
		if len(invalid) > 0 {
			t.Errorf("%d fields have a fault", len(invalid))
		}
		return
	}
	if len(invalid) == 0 {
		t.Fatalf("no field has a fault: %v", links)
	}
	field := invalid[0]
	if attribute(field, "name") != f.field {
		t.Errorf("the field %s has the fault", attribute(field, "name"))
	}
	text := byID[attribute(field, "aria-describedby")]
	if text == nil {
		t.Fatalf("the fault %s is not there", attribute(field, "aria-describedby"))
	}
	if !strings.Contains(textOf(text), f.fault) {
		t.Errorf("the fault is %q, not %q", textOf(text), f.fault)
	}
	if link := links["#"+attribute(field, "id")]; link != textOf(text) {
		t.Errorf("the list has %q, the field %q", link, textOf(text))
	}
	for n := range field.Ancestors() {
		if n.DataAtom == atom.Details && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "open" }) {
			t.Error("the field is hidden")
		}
	}
	form := field
	for form.DataAtom != atom.Form {
		form = form.Parent
	}
	checkEntered(t, form, f.form)
}

// checkEntered checks that a form has what was entered.
func checkEntered(t *testing.T, form *html.Node, entered url.Values) {
	t.Helper()
	for n := range form.Descendants() {
		name := attribute(n, "name")
		if !entered.Has(name) || strings.HasPrefix(name, "seen:") || name == "tag" || name == "confirm" || name == "confirmName" {
			continue
		}
		has := attribute(n, "value")
		switch {
		case n.DataAtom == atom.Textarea:
			has = textOf(n)
		case n.DataAtom == atom.Select:
			for o := range n.Descendants() {
				if slices.ContainsFunc(o.Attr, func(a html.Attribute) bool { return a.Key == "selected" }) {
					has = attribute(o, "value")
				}
			}
		case attribute(n, "type") == "checkbox":
			if checked := slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "checked" }); checked != slices.Contains(entered[name], has) {
				t.Errorf("%s %s is checked: %v", name, has, checked)
			}
			continue
		case n.DataAtom == atom.Button:
			continue
		}
		if has != entered.Get(name) {
			t.Errorf("%s has %q, not what was entered", name, has)
		}
	}
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for inner := range n.Descendants() {
		if inner.Type == html.TextNode {
			b.WriteString(inner.Data)
		}
	}
	return b.String()
}
