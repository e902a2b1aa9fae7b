package workload

import (
	"fmt"
	"math/rand/v2"
	"net/http"

	"atrium/bench/load"
	"atrium/bench/server"
)

// PocketBaseKinds are the closest equivalents of the six operations on a PocketBase that
// has the records of Write. Where there is a choice, it is the one that costs PocketBase
// least: an account lists its prospects, so that one query expands them; a list does not
// count the excluded items; an entry names its account by identifier.
func PocketBaseKinds(p *server.PocketBase, accounts, payload int) []load.Kind {
	auth := "Authorization: " + p.Token
	run, body := rand.Uint64(), Payload(payload)
	// PocketBase identifiers are the last 15 digits of ours.
	path := func(collection string, n int) string {
		return fmt.Sprintf("/api/collections/%s/records/%015d", collection, n)
	}
	page := load.Get(p.Addr(), path("pages", 0), auth)
	list := load.Get(p.Addr(), "/api/collections/pages/records?perPage=20&skipTotal=1&sort=created,id", auth)
	history := load.Get(p.Addr(), "/api/collections/versions/records?perPage=20&skipTotal=1&sort=-number&filter=(audience='000000000000000')", auth)
	return []load.Kind{
		{Name: GetAccount, Status: http.StatusOK, Request: func(int) []byte {
			return load.Get(p.Addr(), path("accounts", rand.IntN(accounts))+"?expand=prospects", auth)
		}},
		{Name: PostEntry, Status: http.StatusOK, Request: func(n int) []byte {
			account := rand.IntN(accounts)
			return load.Send("POST", p.Addr(), "/api/collections/entries/records", fmt.Appendf(nil,
				`{"account":"%015d","source":"bench","type":"page.viewed","domain":%q,"idempotencyKey":"%x-%012d","payload":%s}`,
				account, Domain(account), run, n, body), auth)
		}},
		{Name: PatchName, Status: http.StatusOK, Request: func(n int) []byte {
			return load.Send("PATCH", p.Addr(), path("accounts", rand.IntN(accounts)), fmt.Appendf(nil, `{"name":"Renamed %d"}`, n), auth)
		}},
		{Name: ListPages, Status: http.StatusOK, Request: func(int) []byte { return list }},
		{Name: GetPage, Status: http.StatusOK, Request: func(int) []byte { return page }},
		{Name: GetVersions, Status: http.StatusOK, Request: func(int) []byte { return history }},
	}
}
