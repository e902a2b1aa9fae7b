package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"atrium"
)

// A verification in the console says which rows are sound, and which one is wrong.
func TestTheAuditLogIsVerifiedInTheConsole(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleViewer)
		of := "/console/" + string(s.tenants[0]) + "/audit"
		head, err := s.store.AuditHead(t.Context(), s.tenants[0])
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%d:%x", head.Number, head.Hash)
		sound := fmt.Sprintf("The audit log is sound from row 1 to row %d.", head.Number)
		if a := s.ask(http.MethodGet, of+"/verify", nil, cookie); !strings.Contains(a.body, sound) || !strings.Contains(a.body, text) {
			t.Errorf("%s %s", a.Status, a.body)
		}
		s.user(s.tenants[0], atrium.RoleViewer) // one more row
		if a := s.ask(http.MethodGet, of+"/verify?head="+text, nil, cookie); !strings.Contains(a.body, "It contains the head that you entered.") {
			t.Errorf("%s %s", a.Status, a.body)
		}
		forged := fmt.Sprintf("%d:%064d", head.Number, 0)
		if a := s.ask(http.MethodGet, of+"/verify?head="+forged, nil, cookie); !strings.Contains(a.body, fmt.Sprintf("The audit log is not sound: the head at row %d does not match the chain.", head.Number)) {
			t.Errorf("%s %s", a.Status, a.body)
		}
		if a := s.ask(http.MethodGet, of+"/verify", nil, cookie); strings.Contains(a.body, "/audit/verify?cursor") || !strings.Contains(a.body, of+".csv\"") {
			t.Errorf("the links of the page verify again: %s", a.body)
		}
		if a := s.ask(http.MethodGet, of+"/verify?head=1", nil, cookie); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s", a.Status, a.body)
		}
	})
}

func TestAuditRecordsAreFoundByTime(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleViewer)
		of := "/console/" + string(s.tenants[0]) + "/audit"
		tomorrow := time.Now().UTC().Add(24 * time.Hour).Format("2006-01-02T15:04")
		for query, want := range map[string]bool{"since=" + tomorrow: false, "until=" + tomorrow: true, "since=2026-01-01T00:00:00Z": true} {
			for _, path := range []string{"", ".csv"} {
				a := s.ask(http.MethodGet, of+path+"?"+strings.Replace(query, "+", url.QueryEscape("+"), 1), nil, cookie)
				if a.StatusCode != http.StatusOK || strings.Contains(a.body, "user.create") != want {
					t.Errorf("%s?%s: %s, want records %v", path, query, a.Status, want)
				}
			}
		}
	})
}

// Who published a text is a question about a page, to which people go by name.
func TestTheAuditLogShowsWhoPublishedATextOfAPage(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		editor, _, err := s.store.CreateUser(t.Context(), atrium.CommandLine(s.tenants[0]), atrium.User{ID: atrium.NewID[atrium.UserID](), Name: "Kim Editor", Role: atrium.RoleEditor})
		if err != nil {
			t.Fatal(err)
		}
		cookie, of := s.login(s.link(s.tenants[0], editor.ID)), "/console/"+string(s.tenants[0])
		const page = "/pages/page_000000000000000000000000a1"
		for path, form := range map[string]url.Values{
			page + "/audiences/audience_000000000000000000000000a1/versions/1/publish": nil, "/pages": {"brandName": {"Other"}, "name": {"Other"}},
		} {
			if a := s.ask(http.MethodPost, of+path, form, cookie); a.StatusCode != http.StatusSeeOther {
				t.Fatalf("%s: %s %s", path, a.Status, a.body)
			}
		}
		cookie = s.signIn(atrium.RoleViewer)
		link := of + "/audit?page=page_000000000000000000000000a1"
		if a := s.ask(http.MethodGet, of+page, nil, cookie); !strings.Contains(a.body, `href="`+link+`"`) {
			t.Errorf("the page has no link to its changes: %s", a.body)
		}
		records := func(query string) string {
			t.Helper()
			a := s.ask(http.MethodGet, link+query, nil, cookie)
			_, rows, _ := strings.Cut(a.body, "<tbody>")
			if a.StatusCode != http.StatusOK || !strings.Contains(a.body, `name="page" value="page_000000000000000000000000a1"`) {
				t.Errorf("%s: %s %s", query, a.Status, a.body)
			}
			return rows
		}
		for query, want := range map[string]bool{"": true, "&actor=kim+editor": true, "&actor=" + string(editor.ID): true, "&actor=Robin": false, "&actor=nobody": false} {
			rows := records(query)
			if strings.Contains(rows, "version.publish") != want || strings.Contains(rows, "Kim Editor") != want || strings.Contains(rows, "page.create") {
				t.Errorf("%s: %s", query, rows)
			}
		}
		if a := s.ask(http.MethodGet, of+"/audit.csv?actor=Kim+Editor", nil, cookie); !strings.Contains(a.body, "page.create") || strings.Contains(a.body, "user.create") {
			t.Errorf("as CSV: %s", a.body)
		}
		s.user(s.tenants[0], atrium.RoleViewer) // a second Robin
		if a := s.ask(http.MethodGet, of+"/audit?actor=robin", nil, cookie); !strings.Contains(a.body, "Several users are called robin") || !strings.Contains(a.body, `name="actor" value="robin"`) {
			t.Errorf("a name of two users: %s", a.body)
		}
	})
}

func TestAuditRecordsAboutASubjectLeadToIt(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleViewer)
		of := "/console/" + string(s.tenants[0])
		const open = "Open the subject"
		for query, want := range map[string]string{
			"?subject=page_000000000000000000000000a1":     `href="` + of + `/pages/page_000000000000000000000000a1">` + open,
			"?subject=account_000000000000000000000000a1":  `href="` + of + `/accounts/account_000000000000000000000000a1">` + open,
			"?subject=audience_000000000000000000000000a1": "",
			"?subject=page_":               "",
			"?subject=javascript:alert(1)": "",
			"?action=page.update":          "",
			"":                             "",
		} {
			a := s.ask(http.MethodGet, of+"/audit"+query, nil, cookie)
			if want != "" && !strings.Contains(a.body, want) || want == "" && strings.Contains(a.body, open) {
				t.Errorf("%s does not have %q:\n%s", query, want, a.body)
			}
			if all := strings.Contains(a.body, ">Show all</a>"); all != (query != "") {
				t.Errorf("%q: Show all: %v", query, all)
			}
		}
		audience := of + "/pages/page_000000000000000000000000a1/audiences/audience_000000000000000000000000a1"
		for path, subject := range map[string]string{audience: "audience_000000000000000000000000a1", audience + "/versions/1": "version_000000000000000000000000a1"} {
			if a := s.ask(http.MethodGet, path, nil, cookie); !strings.Contains(a.body, `href="`+of+"/audit?subject="+subject+`"`) {
				t.Errorf("%s does not lead to its changes:\n%s", path, a.body)
			}
		}
	})
}
