package storetest

import (
	"slices"
	"testing"
	"time"

	"atrium"
)

// personalDeliveries stores deliveries in quarantine that a rule with the text selects, and others.
func (e *env) personalDeliveries(t tb, r atrium.Receiver) (matching, others []atrium.QuarantinedID) {
	t.Helper()
	form := func(d *atrium.QuarantinedDelivery) {
		d.Headers[0].Value = "application/x-www-form-urlencoded; charset=utf-8"
	}
	for _, d := range []struct {
		body   string
		change func(*atrium.QuarantinedDelivery)
		match  bool
	}{
		{`{"to":"jane.doe@example.com"}`, nil, true},
		{`{"to":"jane.doe@example.com","to":1}`, nil, true},
		{`{"to":"\u006aane.doe@example.com"}`, nil, true},
		{"{\"a\":\"\xff\",\"to\":\"JANE.DOE@example.com\"}", nil, true},
		{`{"to":"jane.doe@example.com"`, nil, true},
		{`{"to": jane.doe@example.com}`, nil, true},
		{`{"jane.doe@example.com":1} {}`, nil, true},
		{`to=jane.doe%40example.com`, form, true},
		{`payload=%7B%22to%22%3A%22jane.doe%40example.com%22%7D`, form, true},
		{`to=jane.doe%40example.com`, nil, true},
		{`Dear jane.doe@example.com,`, nil, true},
		{`{}`, func(d *atrium.QuarantinedDelivery) { d.Query = "to=jane.doe%40example.com" }, true},
		{`{}`, func(d *atrium.QuarantinedDelivery) {
			d.Headers = append(d.Headers, atrium.Header{Name: "from", Value: person})
		}, true},
		{``, func(d *atrium.QuarantinedDelivery) { d.Query = "%zz=jane.doe@example.com" }, true},
		{`{"to":"not.jane.doe@example.com"}`, nil, false}, // a part of a string
		{`to=not.jane.doe%40example.com`, form, false},
		{`{}`, nil, false},
		{``, nil, false},
		{`7`, nil, false},
	} {
		e.clock.step(time.Millisecond)
		changes := []func(*atrium.QuarantinedDelivery){}
		if d.change != nil {
			changes = append(changes, d.change)
		}
		id := e.quarantine(t, r, d.body, changes...).ID
		if d.match {
			matching = append(matching, id)
		} else {
			others = append(others, id)
		}
	}
	return matching, others
}

func quarantineErased(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	matching, others := e.personalDeliveries(t, r)
	account := e.record(t, byDomain("erased.example")).AccountID
	for _, rule := range []atrium.ErasureRequest{ // of entries or prospects only
		{Rule: atrium.ErasureRule{ProspectEmail: person}},
		{Rule: atrium.ErasureRule{Text: person}, AccountID: account},
		{Rule: atrium.ErasureRule{Text: person, MoveRule: atrium.MoveRule{ClaimedDomain: "erased.example"}}},
		{Rule: atrium.ErasureRule{Text: person, EntryIDs: []atrium.EntryID{atrium.NewID[atrium.EntryID]()}}},
	} {
		if done := e.finishErasure(t, e.startErasure(t, rule).ID); done.Quarantined != 0 {
			t.Errorf("%+v erased %d deliveries", rule, done.Quarantined)
		}
	}
	var exported []atrium.QuarantinedID
	for _, r := range e.exportPerson(t, atrium.ErasureRequest{Rule: personal()}) {
		if d, ok := r.(*atrium.QuarantinedDelivery); ok {
			exported = append(exported, d.ID)
		}
	}
	if !slices.Equal(exported, matching) {
		t.Errorf("exported %q, want %q", exported, matching)
	}
	done := e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{Rule: personal()}).ID)
	if done.Quarantined != int64(len(matching)) {
		t.Errorf("erased %d deliveries, want %d", done.Quarantined, len(matching))
	}
	slices.Reverse(others)
	if got := e.quarantined(t, r.ID); !slices.Equal(got, others) {
		t.Errorf("in quarantine are %q, want %q", got, others)
	}
	e.wantTotals(t)
	done = e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{TextContains: "jane.doe"}}).ID)
	if got := e.quarantined(t, r.ID); done.Quarantined != 2 || len(got) != 3 {
		t.Errorf("erased %d deliveries, and %d are left", done.Quarantined, len(got))
	}
}

func quarantineChecked(t *testing.T, e *env) {
	r := e.newReceiver(t, nil)
	matching, _ := e.personalDeliveries(t, r)
	entry := e.record(t, byName("person"), payload(`{"to":"`+person+`"}`))
	if _, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Email: pointer(person)}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 2, 3, 100} {
		var entries, prospects int
		var got []atrium.QuarantinedID
		for after, pages := (*atrium.Position)(nil), 0; pages == 0 || after != nil; pages++ {
			page, next, err := e.CheckErasure(t.Context(), e.tenant, atrium.ErasureRequest{Rule: personal()}, after, limit)
			if err != nil || len(page) > limit || pages > 50 {
				t.Fatal(len(page), pages, err)
			}
			after = next
			for _, m := range page {
				switch {
				case m.QuarantinedID != "":
					if got = append(got, m.QuarantinedID); m.ReceiverID != r.ID || m.CreatedAt == 0 {
						t.Errorf("found %+v", m)
					}
				case m.ProspectID != "":
					prospects++
				case m.EntryID == entry.EntryID:
					entries++
				}
			}
		}
		if entries != 1 || prospects != 1 || !slices.Equal(got, matching) {
			t.Errorf("pages of %d: %d entries, %d prospects and %q, want %q", limit, entries, prospects, got, matching)
		}
	}
}
