package test

import (
	"fmt"
	"strings"
	"testing"
)

var activityResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		has := map[string]string{}
		for _, name := range []string{"account", "other"} { // two entries in each, so that there are cursors
			entry := fmt.Sprintf(`{"source":"matrix","payload":{},"domain":"%s.activity.example"}`, name)
			s.made(t, tn, "/v0/account_logs", strings.Replace(entry, "{", `{"type":"other",`, 1), "accountLogId")
			has[name+" log"] = s.made(t, tn, "/v0/account_logs", entry, "accountLogId")
			has[name] = s.made(t, tn, "/v0/account_logs", entry, "accountId")
		}
		move := fmt.Sprintf(`{"accountId":%q}`, has["account"])
		has["move"] = s.made(t, tn, "/manage/v0/account_logs/"+has["other log"]+"/move", move, "moveId")
		s.made(t, tn, "/manage/v0/account_logs/"+has["other log"]+"/move", fmt.Sprintf(`{"accountId":%q}`, has["other"]), "moveId")
		has["cursor"] = s.firstCursor(t, tn, "/manage/v0/moves")
		has["counts cursor"] = s.firstCursor(t, tn, "/manage/v0/accounts/"+has["account"]+"/activity/counts")
		has["found cursor"] = s.firstCursor(t, tn, "/manage/v0/account_logs")
		has["activity cursor"] = s.firstCursor(t, tn, "/manage/v0/accounts/"+has["account"]+"/activity")
		return has
	},
	places: func(own, of map[string]string) map[string]request {
		post := func(target, body string) request { return request{method: "POST", target: target, body: []byte(body)} }
		requests := map[string]request{
			"account of entries":      post("/manage/v0/account_logs", fmt.Sprintf(`{"entries":[{"source":"matrix","payload":{},"accountId":%q}]}`, of["account"])),
			"entry to move":           post("/manage/v0/account_logs/"+of["account log"]+"/move", fmt.Sprintf(`{"accountId":%q}`, own["other"])),
			"account to move to":      post("/manage/v0/account_logs/"+own["account log"]+"/move", fmt.Sprintf(`{"accountId":%q}`, of["other"])),
			"account of a rule":       post("/manage/v0/moves", fmt.Sprintf(`{"from":%q,"to":%q,"rule":{"claimedName":"x"}}`, of["account"], own["other"])),
			"account of a rule to":    post("/manage/v0/moves", fmt.Sprintf(`{"from":%q,"to":%q,"rule":{"claimedName":"x"}}`, own["account"], of["other"])),
			"account of a rule to to": post("/manage/v0/moves", fmt.Sprintf(`{"to":%q,"rule":{"claimedName":"x"},"check":true}`, of["other"])),
			"move to undo":            post("/manage/v0/moves/"+of["move"]+"/undo", `{}`),
		}
		requests["account of entries found"] = get("/manage/v0/account_logs?accountId=" + of["account"])
		reads(requests, map[string]string{
			"account of activity":     "/manage/v0/accounts/" + of["account"] + "/activity",
			"account of counts":       "/manage/v0/accounts/" + of["account"] + "/activity/counts",
			"cursor of activity":      "/manage/v0/accounts/" + own["account"] + "/activity?cursor=" + of["activity cursor"],
			"cursor of entries found": "/manage/v0/account_logs?cursor=" + of["found cursor"],
			"explained entry":         "/manage/v0/account_logs/" + of["account log"] + "/explanation",
			"cursor of counts":        "/manage/v0/accounts/" + own["account"] + "/activity/counts?cursor=" + of["counts cursor"],
			"entry":                   "/manage/v0/account_logs/" + of["account log"],
			"entry with a payload":    "/manage/v0/account_logs/" + of["account log"] + "/payload",
			"move":                    "/manage/v0/moves/" + of["move"],
			"cursor of moves":         "/manage/v0/moves?cursor=" + of["cursor"],
			"account with payloads":   "/manage/v0/accounts/" + of["account"] + "/activity?include=payload",
			"account with summaries":  "/manage/v0/accounts/" + of["account"] + "/activity?include=summary",
		})
		return requests
	},
}
