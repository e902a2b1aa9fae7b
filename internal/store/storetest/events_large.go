package storetest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"atrium"
)

func eventsOfLongClaims(t *testing.T, e *env) {
	e = e.withEvents(t)
	const n = 20
	var names []string
	for i := range n {
		names = append(names, strings.Repeat("x", 300<<10+i))
		e.record(t, atrium.Claim{Domain: "acme.example", Name: names[i]})
		e.record(t, byDomain("acme.example"))
	}
	e.sequence(t)
	var all []atrium.Event
	for after := int64(0); ; after = all[len(all)-1].Position {
		page, err := e.Events(t.Context(), e.tenant, after, atrium.MaxEventPage)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		size := 0
		for _, event := range page {
			if event.Entry != nil {
				size += len(event.Entry.Claim.Name)
			}
		}
		if size > 1<<20 {
			t.Errorf("a page of %d events has claims of %d bytes", len(page), size)
		}
		all = append(all, page...)
	}
	var found []string
	for _, event := range all {
		if event.Entry != nil && event.Entry.Claim.Name != "" {
			found = append(found, event.Entry.Claim.Name)
		}
	}
	if !slices.Equal(found, names) {
		t.Errorf("%d events have a long name, want %d", len(found), n)
	}
}

func eventsOfLargePayloads(t *testing.T, e *env) {
	e = e.withEvents(t)
	for size, whole := range map[int]bool{atrium.MaxEventPayload: true, atrium.MaxEventPayload + 1: false} {
		text := `{"t":"` + strings.Repeat("x", size-8) + `"}`
		r := e.record(t, byDomain("acme.example"), payload(text))
		events := e.allEvents(t)
		ev := events[len(events)-1]
		if ev.EntryID != r.EntryID || ev.Erased || ev.Entry == nil || (ev.Entry.Payload != nil) != whole || whole && !bytes.Equal(ev.Entry.Payload, []byte(text)) {
			t.Errorf("with a payload of %d bytes, the event has %+v", size, ev.Entry)
		}
	}
}
