package test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"atrium/internal/store/engine/recording"
)

// A resource is one part of the matrix: resources of tenants, and the requests that can
// name them.
type resource struct {
	// has returns the identifiers and cursors of a tenant, by name.
	has func(t *testing.T, s *service, tn tenant) map[string]string
	// places are all places of all operations that take something of a tenant. own has the
	// caller's identifiers.
	places func(own, of map[string]string) map[string]request
}

// externalResources are in one part, because the API is frozen.
var externalResources = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		names := [...]string{"acme", "full", "readers"}
		if tn == s.south {
			names = [...]string{"southacct", "southpage", "southaud"}
		}
		return map[string]string{
			"account": s.vars[names[0]], "page": s.vars[names[1]], "audience": s.vars[names[2]],
			"cursor": s.firstCursor(t, tn, "/v0/pages"),
		}
	},
	places: externalPlaces,
}

func externalPlaces(own, of map[string]string) map[string]request {
	requests := map[string]request{
		"accountId of an entry": {
			method: "POST", target: "/v0/account_logs",
			body: fmt.Appendf(nil, `{"source":"matrix","payload":{},"accountId":%q,"domain":"matrix.example","name":"Matrix"}`, of["account"]),
		},
		"accountId of an entry with a key": {
			method: "POST", target: "/v0/account_logs",
			body: fmt.Appendf(nil, `{"source":"matrix","payload":{},"accountId":%q,"idempotencyKey":"matrix"}`, of["account"]),
		},
		"account to rename":      {method: "PATCH", target: "/v0/accounts/" + of["account"], body: []byte(`{"name":"Matrix"}`)},
		"account to rename if *": {method: "PATCH", target: "/v0/accounts/" + of["account"], body: []byte(`{"name":"Matrix"}`), header: []string{"If-Match: *"}},
	}
	reads(requests, map[string]string{
		"account":                       "/v0/accounts/" + of["account"],
		"page":                          "/v0/pages/" + of["page"],
		"page and audience of versions": "/v0/pages/" + of["page"] + "/audiences/" + of["audience"] + "/versions",
		"page of versions":              "/v0/pages/" + of["page"] + "/audiences/" + own["audience"] + "/versions?include=archived",
		"audience of versions":          "/v0/pages/" + own["page"] + "/audiences/" + of["audience"] + "/versions?page=2",
		"cursor":                        "/v0/pages?cursor=" + of["cursor"],
		"cursor with a filter":          "/v0/pages?status=published&cursor=" + of["cursor"],
	})
	return requests
}

// reads adds a GET request for each target.
func reads(requests map[string]request, targets map[string]string) {
	for place, target := range targets {
		requests["GET "+place] = get(target)
		requests["HEAD "+place] = request{method: "HEAD", target: target}
		requests["GET "+place+" if changed"] = get(target, "If-None-Match: *")
	}
}

// firstCursor returns the cursor after the first item of a list.
func (s *service) firstCursor(t *testing.T, tn tenant, target string) string {
	t.Helper()
	a := s.send(t, get(target+"?limit=1", "x-api-key: "+tn.keyFor(target)))
	_, after, ok := strings.Cut(string(a.body), `"nextCursor":"`)
	if !ok {
		t.Fatalf("%s: %s, which has no cursor", target, a)
	}
	return strings.TrimSuffix(after, `"}`)
}

// nobodys returns values like those of has that do not exist: identifiers of the same
// kind, and texts of the same length.
func (s *service) nobodys(has map[string]string) map[string]string {
	like := map[string]string{}
	for name, value := range has {
		like[name] = strings.Repeat("A", len(value))
		if kind, rest, ok := strings.Cut(value, "_"); ok && len(rest) == len(s.vars["nobody"]) {
			like[name] = kind + "_" + s.vars["nobody"]
		}
	}
	return like
}

// A caller could infer another tenant's data from a response or from its timing. Both must
// be the same as for data that does not exist, and so must the executed statements.
func TestOtherTenantsDataLooksNonexistent(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			var run statements
			s := start(t, recording.New(e.open(t), e.form, run.note))
			for _, r := range append([]resource{externalResources, contentResource}, managedResources...) {
				north, south := r.has(t, s, s.north), r.has(t, s, s.south)
				s.checkMatrix(t, &run, "north asks for what south has", s.north, s.south, r.places(north, south), r.places(north, s.nobodys(south)))
				s.checkMatrix(t, &run, "south asks for what north has", s.south, s.north, r.places(south, north), r.places(south, s.nobodys(north)))
			}
			if run.count < 1000 {
				t.Errorf("%d statements were recorded", run.count)
			}
		})
	}
}

// checkMatrix sends the caller's requests with the other tenant's identifiers and with
// nonexistent ones. It compares the responses, the statements, and both tenants' data
// before and after.
func (s *service) checkMatrix(t *testing.T, run *statements, name string, caller, other tenant, places, unknown map[string]request) {
	t.Helper()
	mine, others := s.export(t, caller), s.export(t, other)
	for place, r := range places {
		keyed := []string{"x-api-key: " + caller.keyFor(r.target), "X-Request-Id: same", "Content-Type: application/json"}
		r.header = append(r.header, keyed...)
		u := unknown[place]
		u.header = append(u.header, keyed...)
		// Retried, because background jobs can run statements in between.
		const attempts = 20
		for attempt := range attempts {
			got, forOther := s.sendNoting(t, run, r)
			want, forNobody := s.sendNoting(t, run, u)
			if !refuses(got) || got.String() != want.String() || !maps.EqualFunc(got.header, want.header, slices.Equal) {
				t.Errorf("%s: %s:\n\t%s %v\nand for nonexistent data:\n\t%s %v", name, place, got, got.header, want, want.header)
				break
			}
			if slices.Equal(forOther, forNobody) {
				break
			}
			if attempt == attempts-1 {
				t.Errorf("%s: %s ran\n%s\nand for nonexistent data\n%s", name, place, strings.Join(forOther, "\n"), strings.Join(forNobody, "\n"))
			}
		}
	}
	if after := s.export(t, caller); !slices.Equal(mine, after) {
		t.Errorf("%s: that changed what the caller has", name)
	}
	if after := s.export(t, other); !slices.Equal(others, after) {
		t.Errorf("%s: that changed what the other has", name)
	}
}

// statements are the statements that a database executed. The mutex guards them.
type statements struct {
	sync.Mutex
	all   []string
	count int // since the start
}

func (run *statements) note(sql string) {
	run.Lock()
	defer run.Unlock()
	run.all = append(run.all, sql)
	run.count++
}

// sendNoting returns the response, without the parts that always differ, and the
// statements that were executed for it.
func (s *service) sendNoting(t *testing.T, run *statements, r request) (response, []string) {
	t.Helper()
	run.Lock()
	run.all = nil
	run.Unlock()
	a := s.send(t, r)
	a.header.Del("Date")
	run.Lock()
	defer run.Unlock()
	return a, slices.Clone(run.all)
}

// refuses reports whether a response reveals nothing: it rejects the whole request or each
// requested item, or is an empty list or export.
func refuses(a response) bool {
	body := string(a.body)
	switch {
	case a.status >= 400:
		return a.status != 401 && a.status != 403
	case strings.HasPrefix(body, `{"items":[],`), body == "" && strings.Contains(strings.Join(a.header["Content-Type"], ""), "application/x-ndjson"):
		return true
	}
	return strings.HasPrefix(body, `{"outcomes":[{"status":4`) && !strings.Contains(body, `"status":2`)
}

func TestDeletingATenantRevokesItsKeysAtOnce(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		requests := map[string]request{
			"GET /v0/pages":           get("/v0/pages", "x-api-key: "+s.south.key),
			"POST /v0/account_logs":   post(s.south.key, `{"source":"crm","payload":{}}`),
			"POST with a key":         post(s.south.key, `{"source":"crm","payload":{},"idempotencyKey":"a"}`),
			"GET /manage/v0/tenant":   get("/manage/v0/tenant", "x-api-key: "+s.south.manage),
			"GET /content/v0/…/pages": get("/content/v0/"+string(s.south.id)+"/pages/"+s.vars["southpage"], "x-api-key: "+s.south.site, "Origin: "+siteOrigin),
		}
		for name, r := range requests { // the node caches the keys
			if a := s.send(t, r); a.status >= 400 {
				t.Errorf("%s before: %s", name, a)
			}
		}
		found, err := s.store.Tenant(t.Context(), s.south.id)
		if err != nil {
			t.Fatal(err)
		}
		target := "/manage/v0/tenants/" + string(s.south.id) + "?confirmName=" + url.QueryEscape(found.Name)
		if a := s.send(t, request{method: "DELETE", target: target, header: []string{"x-api-key: " + s.vars["operator"]}}); a.status != 202 {
			t.Fatal(a)
		}
		for name, r := range requests {
			if a := s.send(t, r); a.status != 401 {
				t.Errorf("%s: %s", name, a)
			}
		}
	})
}

func TestTenantsDoNotShareState(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		body := `{"source":"twins","payload":{"a":1},"domain":"twins.example","name":"Twins","idempotencyKey":"twins"}`
		responses := map[string]bool{}
		for _, key := range []string{s.north.key, s.south.key, s.north.key, s.south.key} {
			a := s.send(t, post(key, body))
			if a.status != 201 {
				t.Fatal(a)
			}
			responses[string(a.body)] = true
		}
		if len(responses) != 2 {
			t.Errorf("got %d different responses, want one per tenant", len(responses))
		}
		for _, tn := range []tenant{s.north, s.south} {
			if n := s.count(t, tn, `"kind":"accountLog"`, `"twins"`); n != 1 {
				t.Errorf("a tenant has %d entries, want 1", n)
			}
			if n := s.count(t, tn, `"kind":"account"`, `"domain":"twins.example"`); n != 1 {
				t.Errorf("a tenant has %d accounts, want 1", n)
			}
			most := s.send(t, get("/manage/v0/activity/accounts?source=twins", "x-api-key: "+tn.manage))
			if !strings.Contains(string(most.body), `"entries":1,"items":[{`) || strings.Count(string(most.body), "accountId") != 1 {
				t.Errorf("the most active accounts of a tenant are %v, want one with an entry", most)
			}
		}
	})
}
