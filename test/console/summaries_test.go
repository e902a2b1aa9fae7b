package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/transfer"
)

// A summary is what its template makes of the payload, as text, in the timeline and in the list of activity.
func TestSummariesAreMadeByTheMostSpecificTemplate(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		of, cookie := "/console/"+string(s.tenants[0]), s.signIn(atrium.RoleSupport)
		const account = "/accounts/account_000000000000000000000000a1"
		entry := func(source, entryType, payload string) string {
			return `{"kind":"accountLog","accountId":"account_000000000000000000000000a1","source":"` + source + `","type":"` + entryType + `","payload":` + payload + `,"createdAt":"2026-03-03T09:00:00.000Z"}` + "\n"
		}
		more := entry("web", "form", `{"name":"<b>Jane</b>","note":"{/secret}\u202e","secret":"hidden-1"}`) +
			entry("web", "visit", `{"path":"/pricing","secret":"hidden-2"}`) + entry("app", "form", `{"plan":"team"}`)
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(more), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, template := range []summaryForm{{"web", "form", "<i>{/name}</i> {/note}  {/none}"}, {"web", "", "saw {/path}"}} {
			if a := s.ask(http.MethodPost, of+"/activity/summaries", template.values("save"), cookie); a.StatusCode != http.StatusSeeOther {
				t.Fatalf("save: %s %s", a.Status, a.body)
			}
		}
		for _, path := range []string{account, "/activity"} {
			a := s.ask(http.MethodGet, of+path, nil, cookie)
			for _, want := range []string{"&lt;i&gt;&lt;b&gt;Jane&lt;/b&gt;&lt;/i&gt; {/secret}\uFFFD<", "saw /pricing<", "plan team<"} {
				if !strings.Contains(a.body, want) {
					t.Errorf("%s lacks %s", path, want)
				}
			}
			if strings.Contains(a.body, "hidden-") || strings.Contains(a.body, "\u202e") {
				t.Errorf("%s shows what no template names", path)
			}
		}
		other := s.ask(http.MethodGet, "/console/"+string(s.tenants[1])+"/activity", nil, s.signIn(atrium.RoleOperator))
		if other.StatusCode != http.StatusOK || strings.Contains(other.body, "saw ") {
			t.Error("another tenant has the templates")
		}
	})
}

// summaryForm is the form of a template.
type summaryForm struct{ source, entryType, template string }

func (f summaryForm) values(button string, more ...string) url.Values {
	form := url.Values{"source": {f.source}, "type": {f.entryType}, "template": {f.template}, button: {"yes"}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

func TestATemplateIsPreviewedOnTheLatestEntryAndStoredOnlyWhenSaved(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		path, cookie := "/console/"+string(s.tenants[0])+"/activity/summaries", s.signIn(atrium.RoleSupport)
		post := func(form url.Values, status int, wanted ...string) {
			t.Helper()
			a := s.ask(http.MethodPost, path, form, cookie)
			if a.StatusCode != status {
				t.Errorf("%v: %s, want %d", form, a.Status, status)
			}
			for _, want := range wanted {
				if !strings.Contains(a.body, want) {
					t.Errorf("%v: the page lacks %q", form, want)
				}
			}
		}
		before := s.changes()
		post(summaryForm{"crm", "", "a is {/a}"}.values("preview"), http.StatusOK, ">a is 1<", "\na is {/a}</textarea>", "&#34;a&#34;: 1", "There is no template yet.")
		post(summaryForm{"crm", "deal", "a is {/a}"}.values("preview"), http.StatusOK, ">a is 1<")
		post(summaryForm{"crm", "none", "a is {/a}"}.values("preview"), http.StatusOK, "There is no entry with this source and type.")
		post(summaryForm{"crm", "", "{a} <b>"}.values("preview"), http.StatusBadRequest, "Template must have a JSON Pointer", ">{a} &lt;b&gt;</textarea>", ">a 1<")
		post(summaryForm{"crm", "", "{a}"}.values("save"), http.StatusBadRequest, "must have a JSON Pointer", ">{a}</textarea>")
		post(summaryForm{"", "", "a"}.values("save"), http.StatusBadRequest, "must be 1 to 100 characters long")
		post(summaryForm{"crm", "", "a"}.values("save", "tag", `"other"`), http.StatusPreconditionFailed, "The templates have changed since", ">a</textarea>")
		post(summaryForm{"crm", "", ""}.values("delete"), http.StatusNotFound)
		post(summaryForm{"crm", "", ""}.values("delete", "question", "Delete?"), http.StatusOK, "Delete?")
		if s.changes() != before {
			t.Error("something was changed")
		}
		post(summaryForm{"crm", "", "a is {/a}"}.values("save"), http.StatusSeeOther)
		for _, role := range []atrium.Role{atrium.RoleViewer, atrium.RoleSupport} {
			a := s.ask(http.MethodGet, path+"?source=crm", nil, s.signIn(role))
			if may := role == atrium.RoleSupport; strings.Contains(a.body, "</textarea>") != may || !strings.Contains(a.body, ">a is 1<") || !strings.Contains(a.body, "all others") {
				t.Errorf("as %s, the page is %s", role, a.body)
			}
		}
		post(summaryForm{"crm", "", ""}.values("delete"), http.StatusSeeOther)
		if a := s.ask(http.MethodGet, path, nil, cookie); !strings.Contains(a.body, "There is no template yet.") {
			t.Error("the template is still there")
		}
	})
}
