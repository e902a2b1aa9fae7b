package console

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"atrium"
)

// The message after a change names what was changed, in the page after it only.
func TestMessagesNameWhatWasChanged(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		const hostile = `<b>"Brand" & {title}.`
		cookie, of := s.signIn(atrium.RoleOperator), "/console/"+string(s.tenants[0])
		robin := "/people/" + string(s.user(s.tenants[0], atrium.RoleViewer))
		for _, c := range []struct {
			path string
			form url.Values
			want string
		}{
			{"/accounts", url.Values{"domain": {"northwind.example"}}, "Account northwind.example created."},
			{"/accounts/account_000000000000000000000000a1", seen("name", "Acme Inc.", "domain", "acme.example"), "Account Acme Inc. changed."},
			{"/accounts/account_000000000000000000000000a1/prospects", url.Values{"name": {"Jane"}}, "Prospect Jane created and linked to the account."},
			{"/accounts/account_000000000000000000000000a2/merge", url.Values{"seen:domain": {"beta.example"}, "into": {"account_000000000000000000000000a1"}}, "Account beta.example merged into this one. To undo this, split it off below."},
			{"/brands", url.Values{"name": {hostile}}, "Brand " + hostile + " created."},
			{"/brands/brand_000000000000000000000000a1/rename", url.Values{"name": {"New"}, "seen:name": {"Acme"}}, "Brand New renamed."},
			{"/pages", url.Values{"brandId": {"brand_000000000000000000000000a1"}, "name": {"Fair"}, "title": {"Fair"}}, "Page Fair created. Visitors do not see it until it is published."},
			{"/pages/page_000000000000000000000000a1/publish", url.Values{"tag": {"*"}}, "Page Spring published."},
			{"/pages/page_000000000000000000000000a1/audiences", url.Values{"name": {"Partners"}}, "Audience Partners created."},
			{"/pages/page_000000000000000000000000a1/audiences/audience_000000000000000000000000a1/versions/1/publish", nil, "Version 1 published. Visitors see it now."},
			{"/activity/summaries", url.Values{"source": {"web"}, "type": {"form"}, "template": {"{/name}"}}, "Template for web form saved."},
			{"/activity/summaries", url.Values{"source": {"web"}, "type": {"form"}, "delete": {"yes"}}, "Template for web form deleted."},
			{"/prospects/prospect_000000000000000000000000a1/delete", url.Values{"tag": {"*"}}, "Prospect Kim deleted."},
			{robin + "/remove", url.Values{"tag": {"*"}}, "User Robin removed."},
			{"/tenant/rename", url.Values{"name": {"Northwind"}, "tag": {"*"}}, "Tenant Northwind renamed."},
		} {
			a := s.ask(http.MethodPost, of+c.path, c.form, cookie)
			to := a.Header.Get("Location")
			if a.StatusCode != http.StatusSeeOther {
				t.Errorf("%s: %s", c.path, a.Status)
				continue
			}
			with := []string{cookie}
			for _, set := range a.Cookies() {
				with = append(with, set.Name+"="+set.Value)
			}
			page := s.ask(http.MethodGet, to, nil, strings.Join(with, "; "))
			if want := `<p class="done" role="status">` + html.EscapeString(c.want) + "</p>"; !strings.Contains(page.body, want) {
				at := max(0, strings.Index(page.body, `class="done"`))
				t.Errorf("%s: %s lacks %q: %s", c.path, to, c.want, page.body[at:min(len(page.body), at+300)])
			}
			if strings.Contains(to, url.QueryEscape(c.form.Get("name"))) && c.form.Get("name") != "" {
				t.Errorf("%s: the address %s has the name", c.path, to)
			}
			for _, forget := range page.Cookies() {
				if forget.MaxAge >= 0 {
					t.Errorf("%s: the browser keeps %s", c.path, forget.Name)
				}
			}
		}
		for name, with := range map[string]string{"without a name": cookie, "of another message": cookie + "; atrium-done=branddeleted.QWNtZQ", "not base64": cookie + "; atrium-done=brandcreated.%%%"} {
			if a := s.ask(http.MethodGet, of+"/brands?done=brandcreated", nil, with); !strings.Contains(a.body, ">Brand created.</p>") {
				t.Errorf("%s: %s", name, a.Status)
			}
		}
	})
}
