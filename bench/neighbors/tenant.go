package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
	"atrium/internal/jsonshape"
)

// What the noisy tenant stores. The account and the page with the number small are small.
const (
	small = iota
	withProspects
	withSomeProspects
	withPayloads
	withClaims
	withActivity
	accounts

	prospects = 20_000 // of withProspects
	some      = 39     // prospects of withSomeProspects: almost as many as make a read heavy work
	payloads  = 64     // of withPayloads, a megabyte each
	claims    = 64     // of withClaims, each with a domain of half a megabyte
	entries   = 20_000 // of withActivity
	pages     = 40     // a megabyte each

	smallPage = pages // public
	largePage = pages + 1
)

const megabyte = 1 << 20

// A tenant sends requests.
type tenant struct {
	addr, id    string
	key, manage string // headers
}

func newTenant(ctx context.Context, a *server.Atrium, name string) (*tenant, error) {
	t := &tenant{addr: a.Addr()}
	var made struct{ TenantID, Key string }
	if err := a.Command(ctx, &made, nil, "tenants", "create", "--name", name); err != nil {
		return nil, err
	}
	t.id = made.TenantID
	for scopes, header := range map[string]*string{"": &t.key, "manage": &t.manage} {
		args := []string{"keys", "create", "--tenant", t.id, "--name", name}
		if scopes != "" {
			args = append(args, "--scope", scopes)
		}
		if err := a.Command(ctx, &made, nil, args...); err != nil {
			return nil, err
		}
		*header = "x-api-key: " + made.Key
	}
	return t, nil
}

// imports imports the records that write adds.
func (t *tenant) imports(write func(add func(record map[string]any)) error) error {
	body, to := io.Pipe()
	go func() {
		encoder := json.NewEncoder(to)
		var failed error
		err := write(func(record map[string]any) { failed = errors.Join(failed, encoder.Encode(record)) })
		_ = to.CloseWithError(errors.Join(err, failed))
	}()
	request, err := http.NewRequest(http.MethodPost, "http://"+t.addr+"/manage/v0/import", body)
	if err != nil {
		return err
	}
	name, value, _ := strings.Cut(t.manage, ": ")
	request.Header.Set(name, value)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("import: %d %s: %w", response.StatusCode, text, err)
	}
	return nil
}

func accountRecord(n int) map[string]any { return workload.Account(n) }

func entryRecord(n, account int, payload any) map[string]any {
	return map[string]any{
		"kind": "accountLog", "accountLogId": workload.ID("prospectlog", n), "accountId": workload.ID("account", account),
		"source": "bench", "type": fmt.Sprintf("type-%d", n%10), "payload": payload,
	}
}

// prepareQuiet creates the account that the quiet tenant reads.
func (t *tenant) prepareQuiet() error {
	return t.imports(func(add func(map[string]any)) error {
		add(accountRecord(small))
		return nil
	})
}

// prepare stores the data that makes requests of the noisy tenant expensive.
func (t *tenant) prepare(context.Context) error {
	text := strings.Repeat("x", megabyte-1000)
	return t.imports(func(add func(map[string]any)) error {
		for n := range accounts {
			add(accountRecord(n))
		}
		for n := range prospects {
			p := workload.Prospect(n)
			p["accountIds"] = []string{workload.ID("account", withProspects)}
			add(p)
		}
		for n := range some {
			p := workload.Prospect(prospects + n)
			p["accountIds"] = []string{workload.ID("account", withSomeProspects)}
			p["slug"], p["linkedinProfileUrl"] = text[:200], "https://linkedin.example/"+text[:200]
			add(p)
		}
		for n := range pages {
			p := workload.Page(n)
			p["status"], p["actions"] = "draft", []any{map[string]any{"text": text}}
			add(p)
		}
		for n := smallPage; n <= largePage; n++ {
			p := workload.Page(n)
			p["status"], p["public"] = "published", true
			content := []byte(`{"a":1}`)
			if n == largePage {
				p["actions"], content = []any{map[string]any{"text": text}}, jsonshape.Wide(megabyte-1000)
			}
			add(p)
			add(map[string]any{"kind": "audience", "audienceId": workload.ID("audience", n), "pageId": workload.ID("page", n), "name": "All"})
			add(map[string]any{"kind": "audienceVersion", "audienceId": workload.ID("audience", n), "published": true, "content": json.RawMessage(content)})
		}
		add(map[string]any{"kind": "audience", "audienceId": workload.ID("audience", 0), "pageId": workload.ID("page", 0), "name": "All"})
		for n, content := range [][]byte{[]byte(`{"a":1}`), []byte(`{"a":2}`), jsonshape.Wide(megabyte / 2), jsonshape.Unsorted(megabyte / 2), jsonshape.Objects(megabyte / 2)} {
			add(map[string]any{
				"kind": "audienceVersion", "id": workload.ID("version", n), "audienceId": workload.ID("audience", 0),
				"versionNumber": n + 1, "content": json.RawMessage(content),
			})
		}
		number := 0
		entry := func(account int, payload any) map[string]any {
			number++
			return entryRecord(number, account, payload)
		}
		for range 10 {
			add(entry(small, map[string]any{"n": 1}))
		}
		for range payloads {
			add(entry(withPayloads, json.RawMessage(jsonshape.Wide(megabyte-1000))))
		}
		for range claims {
			e := entry(withClaims, map[string]any{"n": 1})
			e["claimed"] = map[string]any{"domain": text[:megabyte/2]}
			add(e)
		}
		for range entries {
			e := entry(withActivity, map[string]any{"n": 1})
			delete(e, "accountLogId") // which would be from long ago
			add(e)
		}
		return nil
	})
}

// mix returns the quiet tenant's requests.
func (t *tenant) mix() load.Mix {
	body := []byte(`{"source":"quiet","domain":"` + workload.Domain(small) + `","payload":{"event":"page.viewed"}}`)
	return load.Mix{
		{Kind: load.Kind{Name: "POST entry", Status: http.StatusCreated, Request: func(int) []byte {
			return load.Send(http.MethodPost, t.addr, "/v0/account_logs", body, t.key)
		}}, Weight: 1},
		{Kind: load.Kind{Name: "GET account", Status: http.StatusOK, Request: func(int) []byte {
			return load.Get(t.addr, "/v0/accounts/"+workload.ID("account", small), t.key)
		}}, Weight: 1},
	}
}

// A comparison has a cheap and an expensive request. Their bodies have equal length.
type comparison struct {
	name             string
	cheap, expensive load.Kind

	bare bool // it needs no data of prepare

	// Called before and after the expensive requests; nil for nothing.
	begin, end func(context.Context) error
}

func pair(name string, cheap, expensive load.Kind) comparison {
	return comparison{name: name, cheap: cheap, expensive: expensive}
}

func (t *tenant) get(path string) load.Kind {
	return load.Kind{Name: "GET " + path, Status: http.StatusOK, Request: func(int) []byte { return load.Get(t.addr, path, t.manage) }}
}

// send returns a kind whose body has the number of the request in place of {{n}}.
func (t *tenant) send(method, path string, status int, body []byte, headers ...string) load.Kind {
	parts := bytes.Split(body, []byte("{{n}}"))
	return load.Kind{Name: method + " " + path, Status: status, Request: func(n int) []byte {
		return load.Send(method, t.addr, path, bytes.Join(parts, fmt.Appendf(nil, "%020d", n)), headers...)
	}}
}

func (t *tenant) cases() (all []comparison) {
	id := workload.ID
	plain := func(size int) []byte {
		return []byte(`{"text":"` + strings.Repeat("x", size-len(`{"text":""}`)) + `"}`)
	}
	entry := func(payload []byte) []byte {
		return fmt.Appendf(nil, `{"source":"noisy","domain":"noisy.example","idempotencyKey":"{{n}}","payload":%s}`, payload)
	}
	post := func(body []byte) load.Kind {
		return t.send(http.MethodPost, "/v0/account_logs", http.StatusCreated, body, t.key)
	}
	for _, shape := range jsonshape.All {
		all = append(all, pair("entry-"+shape.Name, post(entry(plain(megabyte-1000))), post(entry(shape.Make(megabyte-1000)))))
	}
	batch := func(payload []byte) load.Kind {
		one := fmt.Appendf(nil, `{"source":"noisy","domain":"noisy.example","payload":%s}`, payload)
		body := fmt.Appendf(nil, `{"entries":[%s]}`, bytes.Join([][]byte{one, one, one, one, one, one, one, one}, []byte(",")))
		return t.send(http.MethodPost, "/manage/v0/account_logs", http.StatusOK, body, t.manage)
	}
	all = append(all, pair("batch", batch(plain(megabyte-1000)), batch(jsonshape.Unsorted(megabyte-1000))))
	// Entries for one account, or each for a new one, with 31 words.
	var name []byte
	for i := range 31 {
		name = fmt.Appendf(name, "word%02d ", i)
	}
	claim := func(domain, payload string) []byte {
		return fmt.Appendf(nil, `{"source":"noisy","domain":"%s.example","name":%q,"payload":{"n":%q}}`, domain, name, payload)
	}
	zeros := strings.Repeat("0", 20)
	claims := func(domain, payload string) load.Kind {
		var entries [][]byte
		for i := range 100 {
			entries = append(entries, claim(fmt.Sprintf("%02d-%s", i, domain), payload))
		}
		return t.send(http.MethodPost, "/manage/v0/account_logs", http.StatusOK, fmt.Appendf(nil, `{"entries":[%s]}`, bytes.Join(entries, []byte(","))), t.manage)
	}
	all = append(all,
		pair("new-account", post(claim(zeros, "{{n}}")), post(claim("{{n}}", zeros))),
		pair("new-accounts", claims(zeros, "{{n}}"), claims("{{n}}", zeros)))
	lines := func(payload []byte) load.Kind {
		line := fmt.Appendf(nil, `{"kind":"accountLog","accountId":%q,"source":"noisy","idempotencyKey":"{{n}}","payload":%s}`, id("account", small), payload)
		other := bytes.ReplaceAll(line, []byte(`,"idempotencyKey":"{{n}}"`), nil)
		return t.send(http.MethodPost, "/manage/v0/import", http.StatusOK, bytes.Join([][]byte{line, other, other, other}, []byte("\n")), t.manage, "Content-Type: application/x-ndjson")
	}
	account, page := "/manage/v0/accounts/", "/manage/v0/pages/"+id("page", 0)+"/audiences/"+id("audience", 0)
	rename := func(n int) load.Kind {
		return t.send(http.MethodPatch, "/v0/accounts/"+id("account", n), http.StatusOK, []byte(`{"name":"{{n}}"}`), t.key)
	}
	external := func(path string) load.Kind {
		return load.Kind{Name: path, Status: http.StatusOK, Request: func(int) []byte { return load.Get(t.addr, path, t.key) }}
	}
	content := func(n int) load.Kind { // without a key
		path := "/content/v0/" + t.id + "/pages/" + id("page", n)
		return load.Kind{Name: path, Status: http.StatusOK, Request: func(int) []byte { return load.Get(t.addr, path) }}
	}
	move := func(from int) load.Kind {
		body := fmt.Appendf(nil, `{"from":%q,"to":%q,"rule":{"payload":{"pointer":"/zz","equals":1}},"check":true}`, id("account", from), id("account", withActivity))
		return t.send(http.MethodPost, "/manage/v0/moves", http.StatusOK, body, t.manage)
	}
	link := func(n int) load.Kind {
		return t.send(http.MethodPut, account+id("account", n)+"/prospects/"+id("prospect", 0), http.StatusOK, nil, t.manage)
	}
	return append(all,
		pair("import", lines(plain(megabyte-1000)), lines(jsonshape.Unsorted(megabyte-1000))),
		pair("import-unknown", lines(plain(megabyte-1000)), t.send(http.MethodPost, "/manage/v0/import", http.StatusBadRequest, jsonshape.Wide(4*megabyte), t.manage, "Content-Type: application/x-ndjson")),
		pair("account", external("/v0/accounts/"+id("account", small)), external("/v0/accounts/"+id("account", withProspects))),
		pair("account-medium", external("/v0/accounts/"+id("account", small)), external("/v0/accounts/"+id("account", withSomeProspects))),
		pair("rename", rename(small), rename(withProspects)),
		pair("link", link(small), link(withProspects)),
		pair("detail", t.get(account+id("account", small)), t.get(account+id("account", withProspects))),
		pair("activity", t.get(account+id("account", small)+"/activity?limit=100"), t.get(account+id("account", withClaims)+"/activity?limit=100")),
		pair("payloads", t.get(account+id("account", small)+"/activity?limit=100&include=payload"), t.get(account+id("account", withPayloads)+"/activity?limit=100&include=payload")),
		pair("counts", t.get(account+id("account", small)+"/activity/counts"), t.get(account+id("account", withActivity)+"/activity/counts")),
		pair("find", t.get("/manage/v0/account_logs?limit=100"), t.get("/manage/v0/account_logs?claimedDomain=nobody.example")),
		pair("active", t.get("/manage/v0/account_logs?limit=100"), t.get("/manage/v0/activity/accounts?limit=100")),
		pair("move", move(small), move(withPayloads)),
		pair("pages", external("/v0/pages?limit=100&status=archived"), external("/v0/pages?limit=100&status=draft")),
		pair("content", content(smallPage), content(largePage)),
		pair("diff", t.get(page+"/versions/1/diff?to=2"), t.get(page+"/versions/3/diff?to=5")),
		pair("diff-sorted", t.get(page+"/versions/1/diff?to=2"), t.get(page+"/versions/3/diff?to=4")),
		pair("export", t.get("/manage/v0/tenant"), t.get("/manage/v0/export")),
	)
}
