package test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestListResponseIsBounded(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		const entries, size = 8, 700 << 10
		domain := strings.Repeat("d", size)
		var account string
		for i := range entries {
			a := s.send(t, post(s.north.key, fmt.Sprintf(`{"source":"crm","domain":%q,"payload":{"n":%d}}`, domain, i)))
			var made struct{ AccountID string }
			if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 {
				t.Fatalf("%d: %v", a.status, err)
			}
			account = made.AccountID
		}
		for _, target := range []string{
			"/manage/v0/accounts/" + account + "/activity?limit=100", "/manage/v0/account_logs?limit=100&accountId=" + account,
			"/manage/v0/account_logs?limit=100&claimedDomain=" + domain[:200], // matches none: no response is large
		} {
			met, cursor := 0, ""
			for {
				a := s.send(t, get(target+cursor, "x-api-key: "+s.north.manage))
				var l struct {
					Items      []struct{ Claimed struct{ Domain string } }
					HasMore    bool
					NextCursor string
				}
				if err := json.Unmarshal(a.body, &l); err != nil || a.status != 200 {
					t.Fatalf("%d: %v", a.status, err)
				}
				if most := 1<<20 + size + 4<<10; len(a.body) > most {
					t.Errorf("a response has %d bytes, want at most %d", len(a.body), most)
				}
				for _, item := range l.Items {
					if met++; item.Claimed.Domain != domain {
						t.Errorf("a claimed domain has %d bytes, want %d", len(item.Claimed.Domain), size)
					}
				}
				if !l.HasMore {
					break
				}
				cursor = "&cursor=" + url.QueryEscape(l.NextCursor)
			}
			if want := entries * (1 - strings.Count(target, "claimedDomain")); met != want {
				t.Errorf("met %d entries, want %d", met, want)
			}
		}
	})
}

func TestLargeVersionsAreNotCompared(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		const page, audience = "page_00000000000000000000large1", "audience_00000000000000000000large1"
		content := strings.Repeat("x", 2<<20)
		s.load(t, s.north, `{"kind":"page","pageId":"`+page+`","brandId":"b","name":"n","pageContext":"","title":"","status":"draft","actions":[],"scripts":[],"footerLinks":[]}
{"kind":"audience","audienceId":"`+audience+`","pageId":"`+page+`"}
{"kind":"audienceVersion","audienceId":"`+audience+`","versionNumber":1,"content":"`+content+`"}
{"kind":"audienceVersion","audienceId":"`+audience+`","versionNumber":2,"content":"`+content[:100]+`"}
{"kind":"audienceVersion","audienceId":"`+audience+`","versionNumber":3,"content":"`+content+`"}`)
		for to, want := range map[int]int{2: 200, 3: 409} {
			target := fmt.Sprintf("/manage/v0/pages/%s/audiences/%s/versions/1/diff?to=%d", page, audience, to)
			if a := s.send(t, get(target, "x-api-key: "+s.north.manage)); a.status != want {
				t.Errorf("compared with %d: %d, want %d: %.200s", to, a.status, want, a.body)
			}
		}
	})
}
