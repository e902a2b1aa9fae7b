package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

var values = []guarantee{
	{"every text round-trips", textsRoundTrip},
	{"empty text and null are distinct", emptyIsNotNull},
	{"JSON round-trips byte for byte", jsonRoundTrips},
	{"instants of the whole range round-trip", instantsRoundTrip},
	{"integers are exact in the range of JSON", integersAreExact},
	{"records as large as a request round-trip", largeRecords},
}

// oddTexts are texts that are easily stored wrong. U+0000 is missing: it is refused before the
// store.
var oddTexts = []string{
	" ", "  leading and trailing  ", "\t\r\n", "\x01\x1f\x7f\u0080", "\u00a0\u2028\u2029\ufeff\u200b", "'; DROP TABLE accounts; --", `\`, `\u0000`,
	`"quoted"`, "100%", "_", "$1", "?", ":a", "é", "e\u0301", "İIıi", "ß", "ﬁ", "שלום עולם", "\u202emirrored\u202c", "مرحبا", "日本語", "한국어", "\u1112\u1161\u11ab",
	"👨‍👩‍👧‍👦", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "\U0010fffd", "\U0010ffff", "\uffff", "\ufffd", "\ue000", "a\u0300\u0301\u0302\u0303\u0304", "null", "NULL", "0", "-0", "1e400", "true", "{}",
}

func textsRoundTrip(t *testing.T, e *env) {
	var want []store.Record
	for i, text := range append(oddTexts, strings.Repeat("\U0001f600", 255)) {
		// Texts that must be unique end with a number.
		a := e.newAccount(canonical.Domain(fmt.Sprint(text, i)), text)
		p := e.newProspect(a)
		p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL = &text, &text, &text, &text, &text, &text
		page := e.newPage(atrium.PageDraft)
		page.BrandID, page.Name, page.Context, page.Title, page.HeaderActionID = text, text, text, text, &text
		u := e.newAudience(page, false)
		u.Name = text
		entry := e.newEntry(a, text)
		entry.Source, entry.Type, entry.Claim.Domain, entry.Claim.Name = text, text, text, text
		want = append(want, a, p, page, u, entry)
	}
	e.put(t, want...)
	e.wantRecords(t, want...)
	for _, r := range want {
		switch r := r.(type) {
		case *atrium.Account:
			if a := e.account(t, r.ID); a.Name != r.Name || a.Domain != r.Domain {
				t.Errorf("account %q named %q, want %q named %q", a.Domain, a.Name, r.Domain, r.Name)
			}
			if a := e.rename(t, r.ID, r.Name+"!"); a.Name != r.Name+"!" || e.account(t, r.ID).Name != r.Name+"!" {
				t.Errorf("renamed to %q, want %q", a.Name, r.Name+"!")
			}
		case *atrium.Page:
			if p := e.page(t, r.ID); describe(&p) != describe(r) {
				t.Errorf("page %+v, want %+v", p, r)
			}
		}
	}

	them := e.as(e.newTenant(t)) // and the same by an append
	for i, text := range oddTexts {
		claim := atrium.Claim{Domain: fmt.Sprint(text, i), Name: text}
		r := them.record(t, claim, key(text), func(s *atrium.Submission) { s.Source, s.Type = text, text })
		wantReplay(t, them.record(t, claim, key(text), func(s *atrium.Submission) { s.Source, s.Type = text, text }), r)
		if r.Source != text || r.Type != text {
			t.Errorf("receipt for %q: source %q, type %q", text, r.Source, r.Type)
		}
		if a := them.account(t, r.AccountID); a.Name != text {
			t.Errorf("account named %q, want %q", a.Name, text)
		}
	}
}

func emptyIsNotNull(t *testing.T, e *env) {
	none, empty := e.newProspect(), e.newProspect()
	empty.Name, empty.Email, empty.Domain = pointer(""), pointer(""), pointer("")
	empty.Slug, empty.PhoneNumber, empty.LinkedinProfileURL = pointer(""), pointer(""), pointer("")
	page, emptyPage := e.newPage(atrium.PageDraft), e.newPage(atrium.PageDraft)
	emptyPage.Name, emptyPage.Context, emptyPage.Title, emptyPage.HeaderActionID = "", "", "", pointer("")
	u := e.newAudience(page, false)
	u.Name = ""
	null, absent := e.newVersion(u, 1), e.newVersion(u, 2)
	null.Content, absent.Content = []byte("null"), nil
	want := []store.Record{none, empty, page, emptyPage, u, null, absent}
	e.put(t, want...)
	e.wantRecords(t, want...)
	if p := e.page(t, page.ID); p.HeaderActionID != nil || p.Metadata != nil || p.DeletedAt != nil {
		t.Errorf("members that were not given are %+v", p)
	}
}

// oddJSON are values that a JSON type of a database would change.
var oddJSON = []string{
	`{"b":1,"a":2,"B":3,"":4}`, `{"n":1.50}`, `{"n":1E400}`, `{"n":-0}`, `{"n":-0.0e-0}`, `{"n":1e-999999999}`,
	`{"n":1234567890123456789012345678901234567890.0987654321}`, `{"s":"\u0000"}`, `{"\u0000":"\u0000\u0000"}`, `{"s":"\u00e9\u00E9é"}`,
	`{"s":"\ud83d\ude00😀"}`, `{"s":"\/\b\f\n\r\t\"\\"}`, "{ \"spaced\" :\t[ ]\r\n}", `{"s":"</script>\u2028\u2029&"}`, "{\"s\":\"\u2028\ufeff\u200f\"}",
	`{"deep":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}`,
}

func jsonRoundTrips(t *testing.T, e *env) {
	a := e.newAccount("acme.example", "")
	e.put(t, a)
	want := []store.Record{a}
	for i, json := range oddJSON {
		page := e.newPage(atrium.PageDraft)
		list := []byte("[" + json + "]")
		page.Actions, page.Scripts, page.FooterLinks, page.Metadata = list, list, list, []byte(json)
		u := e.newAudience(page, false)
		v := e.newVersion(u, 1)
		v.Content = []byte(json)
		entry := e.newEntry(a, "")
		entry.Payload = []byte(json)
		e.put(t, page, u, v, entry)

		draft := e.draft(t, byID(a.ID), payload(json), key(strconv.Itoa(i)))
		e.append(t, draft)
		appended := &atrium.Entry{ID: draft.ID, AccountID: a.ID, CreatedAt: e.clock.instant(), Submission: draft.Submission}
		want = append(want, page, u, v, entry, appended)
	}
	e.wantRecords(t, want...)
}

func instantsRoundTrip(t *testing.T, e *env) {
	var instants []atrium.Time
	for _, text := range []string{
		"0000-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.001Z", "2000-02-29T23:59:59.999Z",
		"2038-01-19T03:14:08.000Z", "2262-04-11T23:47:16.855Z", "9999-12-31T23:59:59.999Z",
	} {
		at, err := atrium.ParseTime(text)
		if err != nil || at.String() != text {
			t.Fatalf("%s is read as %s, %v", text, at, err)
		}
		instants = append(instants, at)
	}
	var want []store.Record
	for i, at := range instants {
		latest := instants[len(instants)-1-i]
		a := e.newAccount(fmt.Sprintf("a%d.example", i), "")
		a.CreatedAt, a.UpdatedAt = at, latest
		p := e.newProspect(a)
		p.CreatedAt, p.UpdatedAt = at, latest
		page := e.newPage(atrium.PageDraft)
		page.CreatedAt, page.UpdatedAt, page.DeletedAt = at, latest, &at
		u := e.newAudience(page, false)
		u.CreatedAt, u.UpdatedAt = at, latest
		v := e.newVersion(u, 1)
		v.CreatedAt = at
		entry := e.newEntry(a, "")
		entry.CreatedAt = at
		want = append(want, a, p, page, u, v, entry)
	}
	e.put(t, want...)
	e.wantRecords(t, want...)
	for i, at := range instants {
		a := e.account(t, want[i*6].(*atrium.Account).ID)
		if *a.LatestActivityAt != at || a.CreatedAt != at {
			t.Errorf("account of %s: made %s, active %s", at, a.CreatedAt, a.LatestActivityAt)
		}
		live := e.newPage(atrium.PageDraft)
		live.CreatedAt = at
		e.put(t, live)
	}
	listed, _, err := e.Pages(t.Context(), e.tenant, "", nil, 100)
	if err != nil {
		t.Fatalf("list pages: %v", err)
	}
	slices.Reverse(listed)
	for i, at := range instants {
		if listed[i].CreatedAt != at {
			t.Errorf("place %d of the list has the page of %s, want %s", i, listed[i].CreatedAt, at)
		}
	}
}

func integersAreExact(t *testing.T, e *env) {
	u := e.audience(t)
	for _, n := range []int64{atrium.MaxVersionNumber, atrium.MaxVersionNumber - 1, 1<<32 + 1, 1 << 31, 1} {
		e.put(t, e.newVersion(u, n))
	}
	e.wantNumbers(t, u, atrium.MaxVersionNumber, atrium.MaxVersionNumber-1, 1<<32+1, 1<<31, 1)
}

func largeRecords(t *testing.T, e *env) {
	const size = 1 << 20
	large := append(append([]byte(`{"s":"`), bytes.Repeat([]byte("\u00e9"), size/2)...), `"}`...)
	text := strings.Repeat("é", size/2)
	a := e.newAccount(text, "")
	page := e.newPage(atrium.PageDraft)
	page.Context, page.Metadata = text, large
	u := e.newAudience(page, false)
	v := e.newVersion(u, 1)
	v.Content = large
	entry := e.newEntry(a, "")
	entry.Payload = large
	entry.Claim.Domain = text
	want := []store.Record{a, page, u, v, entry}
	e.put(t, want...)
	draft := e.draft(t, byID(a.ID), payload(string(large)), key("k"))
	first := receipts(t, e.append(t, draft))[0]
	wantReplay(t, e.record(t, byID(a.ID), payload(string(large)), key("k")), first)
	want = append(want, &atrium.Entry{ID: draft.ID, AccountID: a.ID, CreatedAt: e.clock.instant(), Submission: draft.Submission})
	got, wanted := describeAll(e.records(t)), describeAll(want)
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Error("large records did not come back as they were")
	}
}
