package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
)

// Somebody who corrects a form of the console has nothing to do about it: only what programs sent needs attention.
func TestTheOverviewReportsRequestsOfPrograms(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		own, cookie := "/console/"+string(s.tenants[0]), s.signIn(atrium.RoleAdmin)
		if a := s.ask(http.MethodGet, own, nil, cookie); !strings.Contains(a.body, "Nothing needs attention.") {
			t.Errorf("at first: %s", a.body)
		}
		refuse := func(user atrium.UserID, count int64) {
			t.Helper()
			f := atrium.RefusedRequest{ID: atrium.NewID[atrium.RefusedRequestID](), TenantID: s.tenants[0], At: atrium.At(time.Now()), Count: count, Method: "POST", Route: "/v0/account_logs", Status: 400, Code: atrium.CodeInvalidRequest, UserID: user}
			if err := s.store.StoreRefusedRequests(t.Context(), []atrium.RefusedRequest{f}); err != nil {
				t.Fatal(err)
			}
		}
		refuse(atrium.NewID[atrium.UserID](), 5)
		if a := s.ask(http.MethodGet, own, nil, cookie); !strings.Contains(a.body, "Nothing needs attention.") || !strings.Contains(a.body, "<b>0</b> requests refused in 24 hours") {
			t.Errorf("after forms were refused: %s", a.body)
		}
		refuse("", 1)
		refuse("", 2)
		a := s.ask(http.MethodGet, own, nil, cookie)
		if want := `<li>3 requests were refused in 24 hours. <a href="` + own + `/refused?sentBy=programs&amp;since=`; !strings.Contains(a.body, want) || !strings.Contains(a.body, `class="attention"`) {
			t.Errorf("the overview does not have %s:\n%s", want, a.body)
		}
		for sender, rows := range map[string]int{"programs": 2, "people": 1, "": 3} {
			if a := s.ask(http.MethodGet, own+"/refused?sentBy="+sender, nil, cookie); strings.Count(a.body, `<span class="when">`) != rows {
				t.Errorf("sent by %q: want %d requests:\n%s", sender, rows, a.body)
			}
		}
	})
}

// The overview has what needs attention in its tenant, and nothing of another one.
func TestTheOverviewLeadsToWhatNeedsAttention(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		in := func(d time.Duration) *atrium.Time { at := atrium.At(time.Now().Add(d)); return &at }
		for i, tenant := range s.tenants {
			name := []string{"own", "foreign"}[i]
			for suffix, ends := range map[string]*atrium.Time{" ending": in(10 * 24 * time.Hour), " lasting": in(40 * 24 * time.Hour), " endless": nil} {
				k := atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: name + suffix, Scopes: atrium.ExternalScopes(), ExpiresAt: ends}
				if _, _, err := s.store.CreateKey(t.Context(), atrium.CommandLine(tenant), k, make([]byte, 32)); err != nil {
					t.Fatal(err)
				}
			}
			page := atrium.PageID("page_000000000000000000000000" + string(rune('a'+i)) + "1")
			if _, err := s.store.SchedulePage(t.Context(), atrium.CommandLine(tenant), page, atrium.Schedule{PublishAt: in(time.Hour)}, func(atrium.ScheduledPage) error { return nil }); err != nil {
				t.Fatal(err)
			}
			for range 2 - i {
				d, err := canonical.Draft(tenant, atrium.Submission{Source: "crm", Type: "deal", Payload: []byte("{}"), Claim: atrium.Claim{Name: "Nobody"}})
				if err != nil {
					t.Fatal(err)
				}
				d.ID = atrium.NewID[atrium.EntryID]()
				if outcomes, err := s.store.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
					t.Fatal(outcomes, err)
				}
			}
		}
		own := "/console/" + string(s.tenants[0])
		a := s.ask(http.MethodGet, own, nil, s.signIn(atrium.RoleViewer))
		for _, want := range []string{
			`<li>2 entries have no account. <a href="` + own + `/activity?unattributed=true">See them</a>`, `<li>The key own ending expires <time`, `<a href="` + own + `/keys?state=active">See it</a>`,
			`href="` + own + `/activity?unattributed=true"><b>2</b> entries without an account</a>`,
			`href="` + own + `/pages/page_000000000000000000000000a1">Spring</a>`, `href="` + own + `/accounts/account_000000000000000000000000a1">Acme</a>`,
			`href="` + own + `?range=7d">7 days</a>`,
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("the overview does not have %s:\n%s", want, a.body)
			}
		}
		for _, not := range []string{"lasting", "endless", "foreign", "000000000b1", string(s.tenants[1]), "not ready", "Nothing needs attention", "Entries without an account", "refused in 24 hours. "} {
			if strings.Contains(a.body, not) {
				t.Errorf("the overview has %s", not)
			}
		}
	})
}
