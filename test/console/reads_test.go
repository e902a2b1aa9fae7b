package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"atrium"
)

func TestReadsOfPersonalDataByUsersAreListed(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		user := s.user(s.tenants[0], atrium.RoleAdmin)
		cookie := s.login(s.link(s.tenants[0], user))
		of := "/console/" + string(s.tenants[0])
		const account, prospect, entry = "account_000000000000000000000000a1", "prospect_000000000000000000000000a1", "prospectlog_000000000000000000000000a1"
		for _, path := range []string{"/accounts/" + account, "/prospects/" + prospect, "/activity/" + entry, "/activity", "/pages"} {
			if a := s.ask(http.MethodGet, of+path, nil, cookie); a.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", path, a.Status)
			}
		}
		// What an erasure would erase is shown first: that is a read, too.
		if a := s.ask(http.MethodPost, of+"/privacy/person", url.Values{"text": {"nobody"}}, cookie); a.StatusCode != http.StatusOK {
			t.Fatalf("a search before an erasure: %s", a.Status)
		}
		const api = "/manage/v0"
		want := map[string]bool{
			"account:" + account + " " + api + "/accounts/{account_id}":          true,
			"prospect:" + prospect + " " + api + "/prospects/{prospect_id}":      true,
			"entry:" + entry + " " + api + "/account_logs/{account_log_id}":      true,
			"list: " + api + "/account_logs":                                     true,
			"account:" + account + " " + api + "/accounts/{account_id}/activity": true,
			"list: " + api + "/prospects":                                        true,
			"list: " + api + "/erasures":                                         true,
		}
		got := map[string]bool{}
		for began := time.Now(); len(got) < len(want) && time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
			reads, _, err := s.store.Reads(t.Context(), s.tenants[0], atrium.ReadFilter{Actor: string(user)}, nil, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range reads {
				got[string(r.Kind)+":"+r.Subject+" "+r.Route] = true
			}
		}
		for read := range want {
			if !got[read] {
				t.Errorf("%q is not recorded: %v", read, got)
			}
		}
		if len(got) > len(want) {
			t.Errorf("recorded are %v, want %v", got, want)
		}
		page := s.ask(http.MethodGet, of+"/reads?subject="+account, nil, cookie)
		if page.StatusCode != http.StatusOK || !strings.Contains(page.body, "/manage/v0/accounts/{account_id}") || strings.Contains(page.body, prospect) {
			t.Errorf("the page shows %s", page.body)
		}
		if a := s.ask(http.MethodGet, of+"/accounts/"+account, nil, cookie); !strings.Contains(a.body, "Who read this") {
			t.Error("the account has no link to its reads")
		}
	})
}
