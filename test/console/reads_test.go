package console

import (
	"net/http"
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
		want := map[string]bool{
			"account:" + account: true, "prospect:" + prospect: true, "entry:" + entry: true, "list:": true,
		}
		got := map[string]bool{}
		for began := time.Now(); len(got) < len(want) && time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
			reads, _, err := s.store.Reads(t.Context(), s.tenants[0], atrium.ReadFilter{Actor: string(user)}, nil, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range reads {
				got[string(r.Kind)+":"+r.Subject] = true
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
