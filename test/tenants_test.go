package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// identifiers are what a request can name.
type identifiers struct{ account, page, audience, cursor string }

// places are all places of all operations that take something of a tenant. own
// is what the caller has itself.
func places(own, of identifiers) map[string]request {
	requests := map[string]request{
		"accountId of an entry": {
			method: "POST", target: "/v0/account_logs",
			body: fmt.Appendf(nil, `{"source":"matrix","payload":{},"accountId":%q,"domain":"matrix.example","name":"Matrix"}`, of.account),
		},
		"accountId of an entry with a key": {
			method: "POST", target: "/v0/account_logs",
			body: fmt.Appendf(nil, `{"source":"matrix","payload":{},"accountId":%q,"idempotencyKey":"matrix"}`, of.account),
		},
		"account to rename":      {method: "PATCH", target: "/v0/accounts/" + of.account, body: []byte(`{"name":"Matrix"}`)},
		"account to rename if *": {method: "PATCH", target: "/v0/accounts/" + of.account, body: []byte(`{"name":"Matrix"}`), header: []string{"If-Match: *"}},
	}
	for place, target := range map[string]string{
		"account":                       "/v0/accounts/" + of.account,
		"page":                          "/v0/pages/" + of.page,
		"page and audience of versions": "/v0/pages/" + of.page + "/audiences/" + of.audience + "/versions",
		"page of versions":              "/v0/pages/" + of.page + "/audiences/" + own.audience + "/versions?include=archived",
		"audience of versions":          "/v0/pages/" + own.page + "/audiences/" + of.audience + "/versions?page=2",
		"cursor":                        "/v0/pages?cursor=" + of.cursor,
		"cursor with a filter":          "/v0/pages?status=published&cursor=" + of.cursor,
	} {
		requests["GET "+place] = get(target)
		requests["HEAD "+place] = request{method: "HEAD", target: target}
		requests["GET "+place+" if changed"] = get(target, "If-None-Match: *")
	}
	return requests
}

func TestWhatAnotherTenantHasIsAnsweredLikeWhatNobodyHas(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		cursor := func(key string) string {
			a := s.send(t, get("/v0/pages?limit=1", "x-api-key: "+key))
			_, after, _ := strings.Cut(string(a.body), `"nextCursor":"`)
			return strings.TrimSuffix(after, `"}`)
		}
		north := identifiers{s.vars["acme"], s.vars["full"], s.vars["readers"], cursor(s.north.key)}
		south := identifiers{s.vars["southacct"], s.vars["southpage"], s.vars["southaud"], cursor(s.south.key)}
		no := s.vars["nobody"]
		nobody := identifiers{"account_" + no, "page_" + no, "audience_" + no, strings.Repeat("A", len(north.cursor))}

		for _, c := range []struct {
			name          string
			caller, other tenant
			own, theirs   identifiers
		}{
			{"north asks for what south has", s.north, s.south, north, south},
			{"south asks for what north has", s.south, s.north, south, north},
		} {
			mine, others := s.export(t, c.caller), s.export(t, c.other)
			unknown := places(c.own, nobody)
			for place, r := range places(c.own, c.theirs) {
				keyed := []string{"x-api-key: " + c.caller.key, "X-Request-Id: same", "Content-Type: application/json"}
				r.header = append(r.header, keyed...)
				u := unknown[place]
				u.header = append(u.header, keyed...)
				got, want := s.send(t, r), s.send(t, u)
				got.header.Del("Date")
				want.header.Del("Date")
				if got.status < 400 || got.String() != want.String() || !maps.EqualFunc(got.header, want.header, slices.Equal) {
					t.Errorf("%s: %s:\n\t%s %v\nand for what nobody has:\n\t%s %v", c.name, place, got, got.header, want, want.header)
				}
			}
			if after := s.export(t, c.caller); !slices.Equal(mine, after) {
				t.Errorf("%s: that changed what the caller has", c.name)
			}
			if after := s.export(t, c.other); !slices.Equal(others, after) {
				t.Errorf("%s: that changed what the other has", c.name)
			}
		}
	})
}

func TestTheSameRequestsOfTwoTenantsMeetNothingOfEachOther(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		body := `{"source":"twins","payload":{"a":1},"domain":"twins.example","name":"Twins","idempotencyKey":"twins"}`
		answers := map[string]bool{}
		for _, key := range []string{s.north.key, s.south.key, s.north.key, s.south.key} {
			a := s.send(t, post(key, body))
			if a.status != 201 {
				t.Fatal(a)
			}
			answers[string(a.body)] = true
		}
		if len(answers) != 2 {
			t.Errorf("got %d different answers, want one for each tenant", len(answers))
		}
		for _, tn := range []tenant{s.north, s.south} {
			if n := s.count(t, tn, `"kind":"accountLog"`, `"twins"`); n != 1 {
				t.Errorf("a tenant has %d entries, want 1", n)
			}
			if n := s.count(t, tn, `"kind":"account"`, `"domain":"twins.example"`); n != 1 {
				t.Errorf("a tenant has %d accounts, want 1", n)
			}
		}
	})
}
