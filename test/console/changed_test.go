package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"atrium"
)

// formOf returns the form of a page that is sent to an address, and what a browser would send.
func formOf(t *testing.T, page, action string) (*html.Node, url.Values) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	has := func(n *html.Node, key string) bool {
		return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
	}
	for form := range root.Descendants() {
		if form.DataAtom != atom.Form || attribute(form, "method") != "post" || attribute(form, "action") != action {
			continue
		}
		fields := url.Values{}
		for n := range form.Descendants() {
			name := attribute(n, "name")
			switch {
			case name == "" || n.DataAtom == atom.Button:
			case n.DataAtom == atom.Textarea:
				fields.Set(name, textOf(n))
			case n.DataAtom == atom.Select:
				for o := range n.Descendants() {
					if has(o, "selected") {
						fields.Set(name, attribute(o, "value"))
					}
				}
			case attribute(n, "type") != "checkbox" || has(n, "checked"):
				fields.Add(name, attribute(n, "value"))
			}
		}
		return form, fields
	}
	t.Fatalf("no form is sent to %q", action)
	return nil, nil
}

// When two people change the same thing, the second sees what the first has stored, and what the second has entered stays.
func TestTheSecondOfTwoChangesSeesTheFirst(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		s.withProvider(jane(), withEncryption(t))
		cookie := s.signIn(atrium.RoleOperator)
		own := "/console/" + string(s.tenants[0])
		create := func(path string, form url.Values) string {
			a := s.ask(http.MethodPost, own+path, form, cookie)
			made := regexp.MustCompile(own + path + `/[a-z]+_[0-9a-z]+`).FindString(a.body)
			if made == "" {
				t.Fatalf("%s: %s %s", path, a.Status, a.body)
			}
			return made
		}
		webhook := create("/webhooks", url.Values{"url": {"http://127.0.0.1:1/"}, "description": {"Old"}, "headers": {"Authorization: Bearer x"}})
		receiver := create("/receivers", url.Values{"name": {"Old"}, "provider": {"github"}})
		person := own + "/people/" + string(s.user(s.tenants[0], atrium.RoleSupport))
		account, prospect := own+"/accounts/account_000000000000000000000000a1", own+"/prospects/prospect_000000000000000000000000a1"
		for name, c := range map[string]struct {
			page, action  string // of the form
			field         string // that both change
			first, second string
			stored        string     // of the first, as the second sees it
			other         url.Values // that the first changes
			unstored      url.Values // that the second enters, and no page shows
		}{
			"account":        {page: account, action: account, field: "name", first: "First", second: "Second", stored: "First", other: url.Values{"domain": {"first.example"}}},
			"brand":          {page: own + "/brands", action: own + "/brands/brand_000000000000000000000000a1/rename", field: "name", first: "First", second: "Second", stored: "First"},
			"prospect":       {page: prospect, field: "name", first: "First", second: "Second", stored: "First", other: url.Values{"email": {"first@acme.example"}}},
			"emptied":        {page: webhook + "/edit", action: webhook + "/edit", field: "description", first: "", second: "Third", stored: "nothing"},
			"audience":       {page: s.audiencePath(), action: s.audiencePath() + "/rename", field: "name", first: "First", second: "Second", stored: "First"},
			"tenant":         {page: own + "/tenant", action: own + "/tenant/rename", field: "name", first: "First", second: "Second", stored: "First"},
			"role":           {page: person, action: person + "/role", field: "role", first: "viewer", second: "editor", stored: "viewer"},
			"webhook":        {page: webhook + "/edit", action: webhook + "/edit", field: "description", first: "First", second: "Second", stored: "First", unstored: url.Values{"headers": {"X-A: b"}, "removeHeaders": {"yes"}}},
			"webhook, order": {page: webhook + "/edit", action: webhook + "/edit", field: "ordered", first: "yes", second: "", stored: "checked"},
			"receiver":       {page: receiver + "/edit", action: receiver + "/edit", field: "name", first: "First", second: "Second", stored: "First"},
		} {
			t.Run(name, func(t *testing.T) {
				s.t = t
				open := func() url.Values {
					_, fields := formOf(t, s.ask(http.MethodGet, c.page, nil, cookie).body, c.action)
					return fields
				}
				send := func(form url.Values) answer { return s.ask(http.MethodPost, cmp.Or(c.action, c.page), form, cookie) }
				first, second := open(), open()
				first.Set(c.field, c.first)
				maps.Copy(first, c.other)
				if a := send(first); a.StatusCode != http.StatusSeeOther {
					t.Fatalf("the first: %s %s", a.Status, a.body)
				}
				if second.Set(c.field, c.second); c.second == "" {
					second.Del(c.field)
				}
				maps.Copy(second, c.unstored)
				a := send(second)
				if a.StatusCode != http.StatusPreconditionFailed || !strings.Contains(a.body, "The data has changed since") {
					t.Fatalf("the second: %s %s", a.Status, a.body)
				}
				if linked := regexp.MustCompile(`role="alert".*<a href="#([^"]+)">`).FindStringSubmatch(a.body); linked == nil || !strings.Contains(a.body, `id="`+linked[1]+`"`) {
					t.Errorf("no link leads to the field: %q", linked)
				}
				form, again := formOf(t, a.body, c.action)
				if notes := strings.Count(a.body, "Stored now: "); notes != 1 || !strings.Contains(textOf(form), "Stored now: "+c.stored+".") {
					t.Errorf("%d notes about what is stored: %s", notes, textOf(form))
				}
				for field, values := range c.other {
					second[field] = values // the second has not changed it
				}
				for field, values := range second {
					if hidden := strings.HasPrefix(field, "seen:") || field == "tag"; !hidden && !slices.Equal(again[field], values) {
						t.Errorf("%s is %q, not %q", field, again[field], values)
					}
				}
				if a := send(again); a.StatusCode != http.StatusSeeOther {
					t.Errorf("sent again: %s %s", a.Status, a.body)
				}
				if stored := open(); stored.Get(c.field) != c.second {
					t.Errorf("%s is stored as %q", c.field, stored.Get(c.field))
				}
			})
		}
	})
}

// What was entered stays, too, when somebody else has set retention rules.
func TestTheSecondOfTwoSetsOfRetentionRulesSeesTheFirst(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleOperator)
		path := "/console/" + string(s.tenants[0]) + "/privacy/retention"
		send := func(tag, days string) answer {
			return s.ask(http.MethodPost, path, url.Values{"tag": {tag}, "source:0": {"crm"}, "days:0": {days}, "confirm": {"yes"}}, cookie)
		}
		_, seen := formOf(t, s.ask(http.MethodGet, path, nil, cookie).body, path)
		if a := send(seen.Get("tag"), "10"); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("the first: %s %s", a.Status, a.body)
		}
		a := send(seen.Get("tag"), "20")
		if a.StatusCode != http.StatusPreconditionFailed || !strings.Contains(a.body, "after 10 days") {
			t.Errorf("the second: %s %s", a.Status, a.body)
		}
		_, again := formOf(t, a.body, path)
		if again.Get("days:0") != "20" {
			t.Errorf("entered: %v", again)
		}
		if a := send(again.Get("tag"), "20"); a.StatusCode != http.StatusSeeOther {
			t.Errorf("sent again: %s %s", a.Status, a.body)
		}
	})
}
