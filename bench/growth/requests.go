package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"

	"atrium"
	"atrium/bench/load"
	"atrium/bench/workload"
)

// The kinds of request, in the order of the tables. Requests for the ends of lists are
// sent only if one tenant has everything: otherwise lists are short.
const (
	postEntry     = "POST entry"
	getAccount    = "GET account"
	patchAccount  = "PATCH account"
	getPage       = "GET page"
	listPages     = "GET 20 pages"
	listLastPages = "GET 20 pages, the last"
	versions      = "GET 20 versions"
	lastVersions  = "GET 20 versions, the last"
	timeline      = "GET 20 of activity"
	deepTimeline  = "GET 20 of activity, deep"
)

// listed is the default number of items in a page of a list.
const listed = 20

// walked is how many pages of a list are read to reach a deep one.
const walked = 5000

// payloads are the payloads of posted entries, built once so that the sender spends no
// time on them.
var payloads = func() (all [256][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range all {
		all[i] = payload(r)
	}
	return all
}()

// kinds returns the requests to a server on a dataset. Requests that name an account, key
// or page choose it at random.
func (d *dataset) kinds(addr string) []kind {
	anyTenant := func() (n int, auth string) {
		n = rand.IntN(len(d.tenants))
		return n, "x-api-key: " + d.tenants[n].Key
	}
	about := func(path func() string) func(int) []byte {
		return func(int) []byte {
			_, auth := anyTenant()
			return load.Get(addr, path(), auth)
		}
	}
	anyAccount := func() string {
		return "/v0/accounts/" + string(workload.Numbered[atrium.AccountID](rand.IntN(d.accounts())))
	}
	history := "/v0/pages/" + string(workload.Numbered[atrium.PageID](0)) + "/audiences/" + string(fullAudience) + "/versions"
	activity := "/manage/v0/accounts/" + string(workload.Numbered[atrium.AccountID](0)) + "/activity"
	always := func(path string) func() string { return func() string { return path } }
	all := []kind{
		{Kind: load.Kind{Name: getAccount, Status: http.StatusOK, Request: about(anyAccount)}},
		{Kind: load.Kind{Name: getPage, Status: http.StatusOK, Request: about(func() string { return "/v0/pages/" + string(workload.Numbered[atrium.PageID](rand.IntN(d.pages()))) })}},
		{Kind: load.Kind{Name: listPages, Status: http.StatusOK, Request: about(always("/v0/pages"))}},
		{Kind: load.Kind{Name: listLastPages, Status: http.StatusOK}, list: "/v0/pages"},
		{Kind: load.Kind{Name: versions, Status: http.StatusOK, Request: about(always(history))}},
		{Kind: load.Kind{Name: lastVersions, Status: http.StatusOK, Request: about(always(history + "?page=" + strconv.Itoa(max(d.versions()/listed, 1))))}, whole: true},
		{Kind: load.Kind{Name: timeline, Status: http.StatusOK, Request: about(always(activity))}},
		{Kind: load.Kind{Name: deepTimeline, Status: http.StatusOK}, list: activity},
		{Kind: load.Kind{Name: patchAccount, Status: http.StatusOK, Request: func(n int) []byte {
			_, auth := anyTenant()
			return load.Send("PATCH", addr, anyAccount(), fmt.Appendf(nil, `{"name":"Renamed %d"}`, n), auth)
		}}},
		{Kind: load.Kind{Name: postEntry, Status: http.StatusCreated, Request: func(n int) []byte {
			_, auth := anyTenant()
			return load.Send("POST", addr, "/v0/account_logs", fmt.Appendf(nil, `{"source":"crm","type":"page.viewed","domain":%q,"idempotencyKey":"%016x%016x","payload":%s}`,
				domain(rand.IntN(d.accounts())), rand.Uint64(), rand.Uint64(), payloads[n%len(payloads)]), auth)
		}}, adds: true},
	}
	if len(d.tenants) == 1 {
		return all
	}
	var some []kind
	for _, k := range all {
		if k.list == "" && !k.whole {
			some = append(some, k)
		}
	}
	return some
}

// A kind is a kind of request, with what is needed to measure it.
type kind struct {
	load.Kind
	list  string // list whose deep page is requested; deep sets Request
	whole bool   // reads the end of a list
	adds  bool   // adds to the database
}

// deep sets the request to the last page of a list, or to the page after walked pages.
func (k *kind) deep(d *dataset, addr string) error {
	request, auth := []byte(nil), "x-api-key: "+d.tenants[0].Key
	cursor := ""
	for range walked {
		request = load.Get(addr, at(k.list, cursor), auth)
		a, err := load.Once(addr, request)
		if err != nil {
			return err
		}
		if a.Status != k.Status {
			return fmt.Errorf("%s: status %d: %s", k.list, a.Status, a.Body)
		}
		var page struct{ NextCursor string }
		if err := json.Unmarshal(a.Body, &page); err != nil {
			return err
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	k.Request = func(int) []byte { return request }
	return nil
}

// at returns the path of a page of a list.
func at(list, cursor string) string {
	if cursor == "" {
		return list
	}
	return list + "?cursor=" + url.QueryEscape(cursor)
}
