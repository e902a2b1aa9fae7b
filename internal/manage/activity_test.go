package manage_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/api"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/manage"
	"atrium/internal/rest"
	"atrium/internal/rest/resttest"
	"atrium/internal/store"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/strictjson"
)

func FuzzCreateAccountLogsBody(f *testing.F) {
	entry := `{"source":"crm","payload":{}}`
	fuzz(f, "createAccountLogs", http.StatusOK, `{"entries":[`+entry+`]}`, `{"entries":[1,null,{"source":""},`+entry+`]}`,
		`{"entries":[]}`, `{"entries":{}}`, `{"entries":null}`, `{"entries":[`+strings.Repeat("1,", 999)+`1]}`, `{"entries":[`+strings.Repeat("1,", 1000)+`1]}`)
}

func FuzzMoveAccountLogBody(f *testing.F) {
	fuzz(f, "moveAccountLog", http.StatusNotFound, `{"accountId":"account_01kghg01ftes8r65rzyjka792g"}`, `{"accountId":"x"}`)
}

// The document cannot describe which cursors are valid, so bodies with one are skipped.
func FuzzCreateMoveBody(f *testing.F) {
	const to = `{"to":"account_01kghg01ftes8r65rzyjka792g",`
	resttest.AddBodies(f, to+`"rule":{"claimedName":"a"}}`, to+`"rule":{}}`, to+`"rule":{"claimedDomain":" "},"limit":1000,"check":true}`,
		to+`"rule":{"payload":{"pointer":"/a~1b/0","equals":null}},"from":"account_01kghg01ftes8r65rzyjka792g"}`,
		to+`"rule":{"payload":{"pointer":"a","equals":[]}},"limit":1001}`, to+`"rule":{"payload":{"pointer":"/","equals":1.5,"x":1}},"limit":0}`)
	o := resttest.New(f, api.Manage, "createMove", routes(f), http.StatusNotFound)
	f.Fuzz(func(t *testing.T, body []byte) {
		if object, err := strictjson.Parse(body); err == nil && object.Has("cursor") {
			return
		}
		o.Check(t, body)
	})
}

func TestCursorOfCountsKeepsItsRangePastMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "atrium.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := store.New(db, time.Now)
		defer func() { _ = s.Close() }()
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
		if err != nil {
			t.Fatal(err)
		}
		var account atrium.AccountID
		for i := range 30 { // the first is on the first day of the range, until midnight
			if i > 0 {
				time.Sleep(24 * time.Hour)
			}
			draft, err := canonical.Draft(tenant.ID, atrium.Submission{Source: "crm", Claim: atrium.Claim{Domain: "a.example"}, Payload: []byte(`{}`)})
			if err != nil {
				t.Fatal(err)
			}
			draft.ID = atrium.NewID[atrium.EntryID]()
			outcomes, err := s.Append(t.Context(), []*atrium.Draft{draft})
			if err != nil || outcomes[0].Err != nil {
				t.Fatalf("%+v, %v", outcomes, err)
			}
			account = outcomes[0].AccountID
		}
		server := &rest.API{Keys: tenantKey(tenant.ID), Log: slog.New(slog.DiscardHandler)}
		h := server.Handler((&manage.API{Store: s, Cursors: rest.CursorKey("k")}).Routes(), nil)
		days, cursor := 0, ""
		for more := true; more; time.Sleep(24 * time.Hour) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/manage/v0/accounts/"+string(account)+"/activity/counts?limit=20"+cursor, http.NoBody))
			var list rest.List[any]
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			days, more, cursor = days+len(list.Items), list.HasMore, "&cursor="+list.NextCursor
		}
		if days != 30 {
			t.Errorf("%d days were counted, want 30", days)
		}
	})
}

func TestCountsStayInTheYearsOfTheirFormat(t *testing.T) {
	s, webhook := newCheckedWebhook(t, 1)
	server := &rest.API{Keys: tenantKey(webhook.TenantID), Log: slog.New(slog.DiscardHandler)}
	h := server.Handler((&manage.API{Store: s, Cursors: rest.CursorKey("k")}).Routes(), nil)
	for query, want := range map[string]string{
		"until=9999-12-31T23:00:00Z":                              `"until":"9999-12-31T23:00:00.000Z"`,
		"until=9999-12-31T23:00:00.001Z":                          "after the year 9999",
		"until=9999-12-31T00:00:00Z&interval=day":                 `"until":"9999-12-31T00:00:00.000Z"`,
		"until=9999-12-31T12:00:00Z&interval=day":                 "after the year 9999",
		"until=0000-01-02T00:00:00Z":                              `"since":"0000-01-01T00:00:00.000Z"`,
		"until=0000-01-01T23:00:00Z":                              "before the year 0000",
		"until=0000-01-02T00:00:00Z&interval=day":                 "before the year 0000",
		"since=0000-01-01T00:00:00Z&until=0000-01-01T00:00:00.1Z": `"until":"0000-01-01T01:00:00.000Z"`,
		"since=9999-12-31T22:59:59Z&until=9999-12-31T23:59:59Z":   "after the year 9999",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/manage/v0/activity/counts?"+query, http.NoBody))
		if body := w.Body.String(); !strings.Contains(body, want) || (w.Code == http.StatusOK) != strings.HasPrefix(want, `"`) {
			t.Errorf("%s: %d %s, want %s", query, w.Code, body, want)
		}
	}
}

// tenantKey is a principal with every scope in a tenant.
type tenantKey atrium.TenantID

func (k tenantKey) Authenticate(context.Context, netip.Addr, string) (auth.Principal, error) {
	return auth.Principal{TenantID: atrium.TenantID(k), KeyID: atrium.NewID[atrium.KeyID](), Scopes: atrium.ManageScopes()}, nil
}

func FuzzUndoMoveBody(f *testing.F) {
	fuzz(f, "undoMove", http.StatusNotFound, `{}`)
}
