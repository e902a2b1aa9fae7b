package storetest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/register"
)

var personExports = []guarantee{
	{"an export of a person has exactly what an erasure by the same rule then deletes", personExported},
	{"an export of a person from one account has what merged accounts have, and nothing of others", personExportedFromAccount},
	{"an export of a person has the moves and their audit details that an erasure deletes", personExportedWithMoves},
	{"an export of a person reads a bounded part of the data at a time", personExportBounded},
	{"an export of a person ends despite writes, and has no entries recorded after it began", personExportEnds},
	{"an export of a person leaves erased accounts out", personExportWithoutErased},
	{"an export of a person is recorded when it begins and ends, without the values of its rule", personExportAudited},
	{"an export of a person ends with the error of emit, of yield, or of its context", personExportEndsWithError},
}

// exportPerson returns the records of an export, and fails the test unless it counts them.
func (e *env) exportPerson(t tb, request atrium.ErasureRequest) (records []store.Record) {
	t.Helper()
	var want atrium.PersonExport
	done, err := e.ExportPerson(t.Context(), e.tenant, request, func(r store.Record) error {
		records = append(records, r)
		switch r.(type) {
		case *atrium.LinkedProspect:
			want.Prospects++
		case *atrium.Entry:
			want.Entries++
		case *atrium.Move:
			want.Moves++
		case *atrium.AuditRow:
			want.AuditRecords++
		case *atrium.QuarantinedDelivery:
			want.Quarantined++
		}
		return nil
	}, func() error { return nil })
	if err != nil || done != want {
		t.Fatalf("exported %+v, want %+v: %v", done, want, err)
	}
	return records
}

// deletedPlaces returns the rows of entries and prospects that are in before and not in after, and the
// rows of moves and audit whose rule or detail is.
func deletedPlaces(before, after dump) (places []string) {
	for table, column := range map[string]string{"entries": "", "prospects": "", "moves": "rule", "audit": "detail"} {
		index := -1
		for _, described := range register.Tables() {
			if described.Name == table {
				index = slices.IndexFunc(described.Columns, func(c register.Column) bool { return c.Name == column })
			}
		}
		for key, row := range before[table] {
			left := after[table][key]
			if left == nil || index >= 0 && row[index] != "null" && left[index] == "null" {
				places = append(places, table+" "+key)
			}
		}
	}
	slices.Sort(places)
	return places
}

// wantExported fails the test unless the records are what an erasure by the request deletes.
func (e *env) wantExported(t tb, exported []store.Record, request atrium.ErasureRequest) {
	t.Helper()
	stored := describeAll(e.records(t))
	before := e.dump(t)
	e.finishErasure(t, e.startErasure(t, request).ID)
	after := e.dump(t)
	var got []string
	for _, r := range exported {
		switch r := r.(type) {
		case *atrium.LinkedProspect:
			got = append(got, "prospects "+hex.EncodeToString(storedID(r.ID)))
		case *atrium.Entry:
			got = append(got, "entries "+hex.EncodeToString(storedID(r.ID)))
		case *atrium.Move:
			got = append(got, "moves "+hex.EncodeToString(storedID(r.ID)))
			if row := strings.Join(before["moves"][strings.TrimPrefix(got[len(got)-1], "moves ")], " "); !strings.Contains(row, hex.EncodeToString(r.Rule)) {
				t.Errorf("the move %s has %s, stored as %s", r.ID, r.Rule, row)
			}
			continue
		case *atrium.AuditRow:
			got = append(got, "audit "+strconv.FormatInt(r.Number, 10))
			if row := strings.Join(before["audit"][strings.TrimPrefix(got[len(got)-1], "audit ")], " "); !strings.Contains(row, hex.EncodeToString(r.Detail)) {
				t.Errorf("audit row %d has %s, stored as %s", r.Number, r.Detail, row)
			}
			continue
		}
		if !slices.Contains(stored, describe(r)) {
			t.Errorf("exported %s, which is not stored so", describe(r))
		}
	}
	slices.Sort(got)
	if want := deletedPlaces(before, after); !slices.Equal(got, want) {
		t.Errorf("exported\n%s\nand erased\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// ruleFor moves the entries of an account to another one by a rule.
func (e *env) ruleFor(t tb, from, to atrium.AccountID, rule atrium.MoveRule, given string) atrium.MoveID {
	t.Helper()
	rule.Given = []byte(given)
	report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{From: from, To: to, Rule: rule, Limit: 1000})
	if err != nil || report.Move == nil {
		t.Fatalf("move: %+v, %v", report, err)
	}
	return report.Move.ID
}

func personExported(t *testing.T, e *env) {
	rng := rand.New(rand.NewPCG(7, 8))
	for i, rule := range []atrium.ErasureRule{
		personal(),
		{Text: person},
		{ProspectEmail: person},
		{MoveRule: atrium.MoveRule{ClaimedName: "jane"}},
		{MoveRule: atrium.MoveRule{Pointer: "/to", Equals: []byte(`"jane.doe@example.com"`), ClaimedName: "Bob"}, Text: person},
		{Text: "nobody"},
		{TextContains: "2.example"}, // which the rules of moves contain
		{TextContains: "mail jane.doe@"},
	} {
		e := e.as(e.newTenant(t))
		e.somebody(t, rng, 40)
		to := e.record(t, byDomain("to.example")).AccountID
		for _, r := range e.records(t) {
			switch r := r.(type) {
			case *atrium.LinkedProspect:
				for j := range 3 {
					if _, err := e.UpdateProspect(t.Context(), e.change(), r.ID, func(p *atrium.Prospect) { p.Name = pointer(fmt.Sprint("Name ", j)) }, accept); err != nil {
						t.Fatal(err)
					}
				}
			case *atrium.Account:
				if r.Domain == "d2.example" {
					e.ruleFor(t, r.ID, to, atrium.MoveRule{ClaimedDomain: "d2.example"}, `{"claimedDomain":"d2.example"}`)
				}
			}
		}
		want := atrium.PersonExport{}
		for _, r := range e.records(t) {
			switch r := r.(type) {
			case *atrium.Entry:
				if selects(&rule, r) {
					want.Entries++
				}
			case *atrium.LinkedProspect:
				if rule.ProspectEmail != "" && strings.EqualFold(*r.Email, rule.ProspectEmail) {
					want.Prospects++
				}
			}
		}
		before := e.dump(t)
		exported := e.exportPerson(t, atrium.ErasureRequest{Rule: rule})
		if diff := before.difference(e.dump(t)); diff != "" {
			t.Fatalf("rule %d: the export changed %s", i, diff)
		}
		for _, r := range exported {
			switch r := r.(type) {
			case *atrium.Entry:
				if want.Entries--; !selects(&rule, r) {
					t.Errorf("rule %d: exported %s", i, r.Payload)
				}
			case *atrium.LinkedProspect:
				want.Prospects--
			}
		}
		if want != (atrium.PersonExport{}) {
			t.Errorf("rule %d: %+v is missing", i, want)
		}
		e.wantExported(t, exported, atrium.ErasureRequest{Rule: rule})
		if again := e.exportPerson(t, atrium.ErasureRequest{Rule: rule}); len(again) != 0 {
			t.Errorf("rule %d: after the erasure, %d records are exported", i, len(again))
		}
	}
}

func personExportedFromAccount(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	for _, id := range []atrium.AccountID{a.ID, b.ID, c.ID} {
		e.record(t, byID(id), payload(`{"to":"jane.doe@example.com"}`))
		p, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Email: pointer(person)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.LinkProspect(t.Context(), e.change(), id, p.ID, accept); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []atrium.AccountID{a.ID, b.ID} { // the same group
		if n := len(e.exportPerson(t, atrium.ErasureRequest{AccountID: id, Rule: personal()})); n != 2+2+4 { // with two audit rows each
			t.Errorf("exported %d records", n)
		}
	}
	request := atrium.ErasureRequest{AccountID: a.ID, Rule: personal()}
	e.wantExported(t, e.exportPerson(t, request), request)
}

func personExportedWithMoves(t *testing.T, e *env) {
	a, to := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("to.example")).AccountID
	for i := range 5 {
		text := `{"to":"jane.doe@example.com"}`
		if i == 4 {
			text = `{"to":"bob@example.com"}`
		}
		e.record(t, byDomain("a.example"), payload(text))
	}
	domain := atrium.MoveRule{ClaimedDomain: "a.example"}
	e.ruleFor(t, a, to, domain, `{"claimedDomain":"a.example"}`) // of the same entries, there and back
	e.ruleFor(t, to, a, domain, `{"claimedDomain":"a.example"}`)
	undone := e.ruleFor(t, a, to, atrium.MoveRule{Pointer: "/to", Equals: []byte(`"jane.doe@example.com"`)}, `{"payload":{"pointer":"/to","equals":"jane.doe@example.com"}}`)
	if _, _, err := e.UndoMove(t.Context(), e.change(), undone, func(atrium.Move) error { return nil }); err != nil {
		t.Fatal(err)
	}
	other := e.ruleFor(t, a, to, atrium.MoveRule{Pointer: "/to", Equals: []byte(`"bob@example.com"`)}, `{"payload":{"pointer":"/to","equals":"bob@example.com"}}`)
	request := atrium.ErasureRequest{Rule: personal()}
	yields := 0
	if _, err := e.ExportPerson(t.Context(), e.tenant, request, func(store.Record) error { return nil }, func() error {
		yields++
		return nil
	}); err != nil || yields < 2*3 { // it reads the audit rows of each of three moves until it finds no more
		t.Errorf("%d yields, %v", yields, err)
	}
	exported := e.exportPerson(t, request)
	var kinds []string
	for _, r := range exported {
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", r), "*atrium."))
		if m, ok := r.(*atrium.Move); ok && m.ID == other {
			t.Errorf("exported %+v", m)
		}
	}
	if want := "Entry Entry Entry Entry Move AuditRow Move AuditRow Move AuditRow AuditRow"; strings.Join(kinds, " ") != want {
		t.Errorf("exported %q, want %s", kinds, want)
	}
	e.wantExported(t, exported, request)
}

func personExportBounded(t *testing.T, e *env) {
	const size, n, chunkBytes = 300 << 10, 60, 4 << 20
	account := e.newAccount("a.example", "")
	records := []store.Record{account}
	for range n {
		entry := e.newEntry(account, "")
		entry.Claim.Name = "Jane"
		entry.Payload = []byte(`{"to":"jane.doe@example.com","large":"` + strings.Repeat("x", size) + `"}`)
		records = append(records, entry)
	}
	for chunk := range slices.Chunk(records, 10) {
		e.put(t, chunk...)
	}
	for name, c := range map[string]struct {
		rule  atrium.ErasureRule
		bytes int
	}{
		"text": {atrium.ErasureRule{Text: person}, 2 * chunkBytes}, // which compares the payloads first
		"name": {atrium.ErasureRule{MoveRule: atrium.MoveRule{ClaimedName: "jane"}}, chunkBytes},
	} {
		counted, read := e.counting()
		before, most, found := 0, 0, 0
		if _, err := counted.ExportPerson(t.Context(), e.tenant, atrium.ErasureRequest{Rule: c.rule}, func(store.Record) error {
			found++
			return nil
		}, func() error {
			most, before = max(most, read.bytes-before), read.bytes
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if found != n || most > c.bytes+4*size || read.rows > 20*n {
			t.Errorf("%s: it found %d, and read %d bytes at once and %d rows in all", name, found, most, read.rows)
		}
	}
}

func personExportEnds(t *testing.T, e *env) {
	account := e.record(t, byDomain("a.example")).AccountID
	var want []atrium.EntryID
	for range 10 {
		want = append(want, e.record(t, byDomain("a.example"), payload(`{"to":"jane.doe@example.com"}`)).EntryID)
		e.clock.step(time.Second)
	}
	node := e.node()
	for _, request := range []atrium.ErasureRequest{{Rule: personal()}, {Rule: personal(), AccountID: account}} {
		var got []atrium.EntryID
		yields := 0
		if _, err := e.ExportPerson(t.Context(), e.tenant, request, func(r store.Record) error {
			if entry, ok := r.(*atrium.Entry); ok {
				got = append(got, entry.ID)
			}
			return nil
		}, func() error {
			if yields++; yields > 100 {
				t.Fatal("the export does not end while more is stored")
			}
			for _, e := range []*env{e, node} {
				e.clock.step(time.Second)
				e.record(t, byDomain("a.example"), payload(`{"to":"jane.doe@example.com"}`))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("exported %q, want %q", got, want)
		}
		want = nil
		for _, r := range e.exportPerson(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: person}}) {
			want = append(want, r.(*atrium.Entry).ID)
		}
	}
}

func personExportWithoutErased(t *testing.T, e *env) {
	kept := e.record(t, byDomain("kept.example"), payload(`{"to":"jane.doe@example.com"}`))
	erased := e.record(t, byDomain("erased.example"), payload(`{"to":"jane.doe@example.com"}`)).AccountID
	if _, err := e.withoutPurges().EraseAccount(t.Context(), e.change(), erased, nil); err != nil {
		t.Fatal(err)
	}
	got := e.exportPerson(t, atrium.ErasureRequest{Rule: personal()})
	if len(got) != 1 || got[0].(*atrium.Entry).ID != kept.EntryID {
		t.Errorf("exported %v", describeAll(got))
	}
	wantCode(t, e.BeginPersonExport(t.Context(), e.change(), atrium.ErasureRequest{Rule: personal(), AccountID: erased}), atrium.CodeNotFound)
	if got := e.exportPerson(t, atrium.ErasureRequest{Rule: personal(), AccountID: erased}); len(got) != 0 {
		t.Errorf("exported %v", describeAll(got))
	}
}

func personExportAudited(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	if err := e.BeginPersonExport(t.Context(), e.change(), atrium.ErasureRequest{AccountID: a.ID, Rule: personal()}); err != nil {
		t.Fatal(err)
	}
	if err := e.CompletePersonExport(t.Context(), e.change(), atrium.PersonExport{Prospects: 1, Entries: 2, Moves: 3, AuditRecords: 4, Quarantined: 5}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.BeginPersonExport(t.Context(), e.change(), atrium.ErasureRequest{AccountID: atrium.NewID[atrium.AccountID](), Rule: personal()}), atrium.CodeNotFound)
	want := []string{
		`person.export {"accountId":"` + string(b.ID) + `","conditions":["prospectEmail","text"]}`,
		`person.export.complete {"accountLogs":2,"auditRecords":4,"moves":3,"prospects":1,"quarantined":5}`,
	}
	if got := e.auditLines(t, string(e.tenant)); len(got) < 2 || !slices.Equal(got[len(got)-2:], want) { // after imports
		t.Errorf("the audit log has %q, want %q", got, want)
	}
	e.wantSound(t, nil)
}

func personExportEndsWithError(t *testing.T, e *env) {
	e.record(t, byDomain("a.example"), payload(`{"to":"jane.doe@example.com"}`))
	errClient := errors.New("the client is gone")
	fails, works := func() error { return errClient }, func() error { return nil }
	request := atrium.ErasureRequest{Rule: personal()}
	if _, err := e.ExportPerson(t.Context(), e.tenant, request, func(store.Record) error { return errClient }, works); !errors.Is(err, errClient) {
		t.Error(err)
	}
	if _, err := e.ExportPerson(t.Context(), e.tenant, request, func(store.Record) error { return nil }, fails); !errors.Is(err, errClient) {
		t.Error(err)
	}
	e.record(t, byDomain("a.example")) // the failed exports hold no locks
}
