package test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// lists returns the targets of all lists of both APIs, each with filters that differ from
// the defaults. It creates a second item where the fixtures have too few. A list without a
// cursor fails the test: it needs two items.
func lists(t *testing.T, s *service) map[string][]string {
	t.Helper()
	ids := strings.NewReplacer("{account_id}", s.vars["quiet"], "{page_id}", s.vars["full"], "{audience_id}", s.vars["readers"],
		"{webhook_id}", webhookResource.has(t, s, s.north)["webhook"],
		"{receiver_id}", receiverResource.has(t, s, s.north)["receiver"])
	client := newClient(t)
	for _, body := range []string{`{"name":"one"}`, `{"name":"two"}`} {
		if a := s.ask(t, client, "POST", "/manage/v0/brands", body); a.status != 201 {
			t.Fatal(a)
		}
	}
	for _, source := range []string{"one", "two"} { // two sources, so that there are two counts
		if a := s.ask(t, client, "POST", "/v0/account_logs", fmt.Sprintf(`{"source":%q,"payload":{},"accountId":%q}`, source, s.vars["quiet"])); a.status != 201 {
			t.Fatal(a)
		}
	}
	for _, account := range []string{"acme", "quiet"} {
		if a := s.ask(t, client, "POST", "/manage/v0/account_logs/"+s.vars["newer"]+"/move", fmt.Sprintf(`{"accountId":%q}`, s.vars[account])); a.status != 201 {
			t.Fatal(a)
		}
	}
	for range 2 {
		if a := s.ask(t, client, "POST", "/manage/v0/pages/"+s.vars["full"]+"/previews", fmt.Sprintf(`{"audienceId":%q,"versionNumber":2}`, s.vars["readers"])); a.status != 201 {
			t.Fatal(a)
		}
		if a := s.ask(t, client, "POST", "/manage/v0/users", `{"name":"Robin","role":"viewer"}`); a.status != 201 {
			t.Fatal(a)
		}
		if a := s.ask(t, client, "POST", "/manage/v0/erasures", `{"rule":{"text":"nobody"}}`); a.status != 201 {
			t.Fatal(a)
		}
	}
	groupMappingResource.has(t, s, s.north)
	refusedResource.has(t, s, s.north)
	readResource.has(t, s, s.north)
	targets := map[string][]string{}
	for _, o := range operations(t) {
		if o.list {
			targets[ids.Replace(o.path)] = o.filters
		}
	}
	if len(targets) < 10 {
		t.Fatalf("found %d lists", len(targets))
	}
	return targets
}

// cursorOf returns the cursor after the first item of a list.
func (s *service) cursorOf(t *testing.T, target string) string {
	t.Helper()
	a := s.ask(t, newClient(t), "GET", target+"?limit=1", "")
	var list struct{ NextCursor string }
	if err := json.Unmarshal(a.body, &list); err != nil || list.NextCursor == "" {
		t.Fatalf("%s: %s, which has no cursor (%v)", target, a, err)
	}
	return list.NextCursor
}

func TestAlteredCursorsAreRejected(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		client := newClient(t)
		for target := range lists(t, s) {
			cursor := s.cursorOf(t, target)
			if a := s.ask(t, client, "GET", target+"?cursor="+cursor, ""); a.status != 200 {
				t.Fatalf("%s: the cursor itself: %s", target, a)
			}
			try := func(altered string) {
				t.Helper()
				if altered == cursor {
					t.Fatalf("%q is not altered", altered)
				}
				a := s.ask(t, client, "GET", target+"?cursor="+url.QueryEscape(altered), "")
				if a.status != 400 || placesOf(a) != "?cursor" {
					t.Errorf("%s: %q altered to %q: %s", target, cursor, altered, a)
				}
			}
			raw, err := base64.RawURLEncoding.DecodeString(cursor)
			if err != nil {
				t.Fatal(err)
			}
			for i := range raw { // every bit of its decoded form
				for bit := range 8 {
					altered := append([]byte{}, raw...)
					altered[i] ^= 1 << bit
					try(base64.RawURLEncoding.EncodeToString(altered))
				}
			}
			for i := range cursor { // every character of its encoded form
				try(cursor[:i])
				try(cursor[:i] + cursor[i+1:])
				if i%9 != 0 {
					continue
				}
				for _, c := range []string{"=", "\n", " ", "A", "\x00", "é"} {
					try(cursor[:i] + c + cursor[i:])
				}
				if swapped := cursor[:i] + strings.ToUpper(cursor[i:i+1]) + cursor[i+1:]; swapped != cursor {
					try(swapped)
				}
			}
			spare := []byte(cursor) // padding bits
			for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
				if spare[len(spare)-1] = byte(c); string(spare) != cursor {
					try(string(spare))
				}
			}
			for _, altered := range []string{
				cursor + "=", cursor + "==", cursor + cursor, cursor + "." + cursor, "\ufeff" + cursor, cursor + "A",
				base64.StdEncoding.EncodeToString(append(raw, 0xff, 0xfe, 0xfd)), base64.URLEncoding.EncodeToString(append([]byte{}, raw...)) + "=",
				base64.RawURLEncoding.EncodeToString(raw[1:]), base64.RawURLEncoding.EncodeToString(append([]byte{0}, raw...)),
				base64.RawURLEncoding.EncodeToString(nil) + "A", hex.EncodeToString(raw), strings.Repeat("A", 5_000), "null", "0", "%", "../..", "' OR 1=1 --",
			} {
				try(altered)
			}
			for query, want := range map[string]string{
				"cursor=": "?cursor", "cursor": "?cursor", "cursor=" + cursor + "&cursor=" + cursor: "?cursor", "cursor=" + cursor + "%zz": "?cursor",
				"cursor=" + cursor + "+": "?cursor", "cursor=%00": "?cursor",
			} {
				if a := s.ask(t, client, "GET", target+"?"+query, ""); a.status != 400 || placesOf(a) != want {
					t.Errorf("%s?%s: %s", target, query, a)
				}
			}
		}
	})
}

func TestCursorIsBoundToItsListAndTenant(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		client, targets := newClient(t), lists(t, s)
		elsewhere := start(t, engines[0].open(t)) // a service with another database
		refused := func(what, target, query string) {
			t.Helper()
			if a := s.ask(t, client, "GET", target+"?"+query, ""); a.status != 400 || !strings.Contains(placesOf(a), "?cursor") {
				t.Errorf("%s: %s?%s: %s, want a 400 at the cursor", what, target, query, a)
			}
		}
		foreign := elsewhere.cursorOf(t, "/v0/pages")
		south := s.firstCursor(t, s.south, "/v0/pages")
		for target, filters := range targets {
			cursor := s.cursorOf(t, target)
			refused("of another service", target, "cursor="+foreign)
			refused("of another tenant", target, "cursor="+south)
			for other := range targets {
				if other != target {
					refused("of another list", other, "cursor="+cursor)
				}
			}
			for _, filter := range filters {
				refused("with another filter", target, filter+"&cursor="+cursor)
			}
			r := get(target+"?cursor="+cursor, "x-api-key: "+s.vars["operator"], "Atrium-Tenant: "+string(s.south.id))
			if !isManaged(target) {
				r = get(target+"?cursor="+cursor, "x-api-key: "+s.south.key)
			}
			if a := s.send(t, r); target != "/manage/v0/tenants" && a.status != 400 && a.status != 404 { // 404 where the other service lacks the parent resource
				t.Errorf("%s for another tenant: %s", target, a)
			}
		}
	})
}
