package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"time"

	"atrium"
	"atrium/bench/load"
	"atrium/bench/workload"
)

// This file measures the pages of the console: all those of one tenant that change nothing, as an admin
// reads them, and those of operators.

// consoleEach is the number of entries per account of the databases for the console, and visited how many
// accounts and entries are read from the server to be shown.
const (
	consoleEach = 5
	visited     = 500
)

// A visitor reads pages of the console about a dataset. Accounts and what belongs to them are chosen at
// random, except for the first account, which has one in busyShare of all entries.
type visitor struct {
	*dataset
	addr      string
	admin     string // header of a session
	operator  string
	user      string // identifier of the admin
	entries   []string
	prospects []string
}

// visit signs in to the console of a node, and waits until the server has counted all entries.
func (n *node) visit(ctx context.Context) error {
	v := &visitor{dataset: n.dataset, addr: n.atrium.Addr()}
	var err error
	if v.admin, v.user, err = workload.SignIn(ctx, n.atrium, string(n.tenants[0].ID), "admin"); err != nil {
		return err
	}
	if v.operator, _, err = workload.SignIn(ctx, n.atrium, "", "operator"); err != nil {
		return err
	}
	if err := v.awaitCounts(ctx); err != nil {
		return err
	}
	for range visited {
		account := v.account()
		var found struct {
			Items []struct{ AccountLogID, ProspectID string }
		}
		if err := v.read("/accounts/"+account+"/activity?limit=1", &found); err != nil {
			return err
		}
		if len(found.Items) > 0 { // not all have entries
			v.entries = append(v.entries, found.Items[0].AccountLogID)
		}
		if err := v.read("/prospects?limit=1&accountId="+account, &found); err != nil {
			return err
		}
		v.prospects = append(v.prospects, found.Items[0].ProspectID)
	}
	n.visitor = v
	return nil
}

// awaitCounts waits until the job has counted all entries: until then, the overview shows less.
func (v *visitor) awaitCounts(ctx context.Context) error {
	for {
		var counts struct{ CompleteUntil *time.Time }
		if err := v.read("/activity/counts", &counts); err != nil {
			return err
		}
		if counts.CompleteUntil != nil && time.Since(*counts.CompleteUntil) < time.Hour {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// read reads a resource of the management API.
func (v *visitor) read(path string, into any) error {
	a, err := load.Once(v.addr, load.Get(v.addr, "/manage/v0"+path, "x-api-key: "+v.tenants[0].Key))
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, a.Status, a.Body)
	}
	return errors.Join(err, json.Unmarshal(a.Body, into))
}

// account returns the identifier of a random account, but not of the first.
func (v *visitor) account() string {
	return string(workload.Numbered[atrium.AccountID](1 + rand.IntN(max(v.accounts()-1, 1))))
}

func (v *visitor) domain() string { return domain(rand.IntN(v.accounts())) }

func (v *visitor) page() string {
	return string(workload.Numbered[atrium.PageID](rand.IntN(v.pages())))
}

func oneOf(texts []string) string { return texts[rand.IntN(len(texts))] }

// kinds returns the pages.
func (v *visitor) kinds() (all []kind) {
	home := "/console/" + string(v.tenants[0].ID)
	get := func(name string, path func() string) {
		all = append(all, kind{Kind: load.Kind{Name: name, Status: http.StatusOK, Request: func(int) []byte {
			return load.Get(v.addr, home+path(), v.admin)
		}}})
	}
	fixed := func(name, path string) { get(name, func() string { return path }) }
	post := func(name, path string, form func() url.Values) {
		all = append(all, kind{Kind: load.Kind{Name: name, Status: http.StatusOK, Request: func(int) []byte {
			return load.Send("POST", v.addr, home+path, []byte(form().Encode()), v.admin,
				"Content-Type: application/x-www-form-urlencoded", "Origin: http://"+v.addr)
		}}})
	}
	busy, first := string(workload.Numbered[atrium.AccountID](0)), "/pages/"+string(workload.Numbered[atrium.PageID](0))
	audience := first + "/audiences/" + string(fullAudience)

	fixed("overview", "")
	fixed("overview, 7 days", "?range=7d")
	fixed("overview, 90 days", "?range=90d")
	fixed("accounts", "/accounts")
	fixed("accounts, newest", "/accounts?order=newest")
	fixed("accounts, by name", "/accounts?order=name")
	get("accounts, a rare word", func() string { return "/accounts?q=" + v.domain() })
	fixed("accounts, a frequent word", "/accounts?q=company")
	get("account", func() string { return "/accounts/" + v.account() })
	fixed("account, the busiest", "/accounts/"+busy)
	get("merge an account", func() string { return "/accounts/" + v.account() + "/merge?into=" + v.domain() })
	get("erase an account", func() string { return "/accounts/" + v.account() + "/erase" })
	fixed("prospects", "/prospects")
	get("prospects, a rare word", func() string { return "/prospects?q=person-" + fmt.Sprint(rand.IntN(prospectsEach*v.accounts())) })
	fixed("prospects, a frequent word", "/prospects?q=person")
	get("prospect", func() string { return "/prospects/" + oneOf(v.prospects) })
	fixed("activity", "/activity")
	fixed("activity of a source", "/activity?source=ads")
	fixed("activity, no entry matches", "/activity?source=none")
	get("activity about a domain", func() string { return "/activity?claimedDomain=" + v.domain() })
	fixed("activity with a key", "/activity?idempotencyKey=none")
	fixed("activity without an account", "/activity?unattributed=true")
	get("entry", func() string { return "/activity/" + oneOf(v.entries) })
	fixed("summaries", "/activity/summaries?source=ads")
	fixed("moves", "/moves")
	get("move by a rule", func() string { return "/moves/new?to=" + v.domain() + "&claimedDomain=" + v.domain() })
	fixed("pages", "/pages")
	fixed("pages, drafts", "/pages?status=draft")
	get("page", func() string { return "/pages/" + v.page() })
	get("edit a page", func() string { return "/pages/" + v.page() + "/edit" })
	fixed("new page", "/pages/new")
	fixed("audience", audience)
	fixed("version", audience+"/versions/1")
	fixed("compare versions", audience+"/compare?from=1&to=2")
	fixed("brands", "/brands")
	fixed("keys", "/keys")
	fixed("people", "/people")
	fixed("person", "/people/"+v.user)
	fixed("privacy", "/privacy")
	post("search for a person", "/privacy/person", func() url.Values { return url.Values{"textContains": {v.domain()}} })
	fixed("retention", "/privacy/retention")
	post("check of retention", "/privacy/retention", func() url.Values { return url.Values{"days:0": {"30"}} })
	fixed("reads", "/reads")
	get("reads of an account", func() string { return "/reads?subject=" + v.account() })
	fixed("refused requests", "/refused")
	fixed("import, export", "/transfer")
	fixed("audit log", "/audit")
	get("audit log of an account", func() string { return "/audit?subject=" + v.account() })
	for _, p := range []struct{ name, path string }{{"tenant", home + "/tenant"}, {"tenants", "/console/tenants"}, {"server", "/console/server"}} { // of operators
		request := load.Get(v.addr, p.path, v.operator)
		all = append(all, kind{Kind: load.Kind{Name: p.name, Status: http.StatusOK, Request: func(int) []byte { return request }}})
	}
	return all
}

// consoleGoal is how much longer a page may take with the largest database than with the smallest.
const consoleGoal = 1.5

// printPages prints the median time of each page at each size, and the ratio of those of the largest and the
// smallest.
func printPages(w io.Writer, engine string, shapes []shape, rows []row) {
	fmt.Fprintf(w, "| page, %s |", engine)
	for _, s := range shapes {
		fmt.Fprintf(w, " %s accounts, %s entries |", short(s.accounts()), short(s.entries))
	}
	fmt.Fprint(w, " ratio |\n| --- |")
	for range len(shapes) + 1 {
		fmt.Fprint(w, " ---: |")
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |", r.Name)
		for i := range shapes {
			fmt.Fprintf(w, " %.2f ms |", float64(r.p50(i))/float64(time.Millisecond))
		}
		last := len(shapes) - 1
		ratio, missed := float64(r.p50(last))/float64(r.p50(0)), ""
		if ratio > consoleGoal {
			missed = ", missed"
		}
		fmt.Fprintf(w, " %.2f%s |\n", ratio, missed)
	}
}

// pages measures the pages, and prints them.
func (e *experiment) pages(ctx context.Context) error {
	for _, n := range e.nodes {
		if err := n.visit(ctx); err != nil {
			return err
		}
	}
	var rows []row
	if err := e.measure(ctx, func(r row) error {
		rows = append(rows, r)
		return nil
	}); err != nil {
		return err
	}
	engine := "SQLite"
	if e.postgres {
		engine = "PostgreSQL"
	}
	printPages(os.Stdout, engine, e.shapes(), rows)
	return nil
}
