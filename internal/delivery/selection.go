package delivery

import (
	"slices"

	"atrium"
	"atrium/internal/filter"
)

// A Selection decides which events a webhook receives.
type Selection struct {
	webhook *atrium.Webhook
	filter  *filter.Filter // nil for none
	broken  bool           // the filter does not compile
}

// NewSelection returns the selection of a webhook.
func NewSelection(w *atrium.Webhook) *Selection {
	s := &Selection{webhook: w}
	if w.Filter != "" {
		compiled, err := filter.Compile(w.Filter)
		s.filter, s.broken = compiled, err != nil
	}
	return s
}

// Selects reports whether the webhook receives an event, whose JSON is given. An event for which the filter fails is selected:
// faulty is then true. The contents of an erased event are not known, so only its type and account decide.
func (s *Selection) Selects(e *atrium.Event, body []byte) (selected, faulty bool) {
	w := s.webhook
	switch e.Type {
	case atrium.EventWebhookTest:
		return e.Audit != nil && e.Audit.Subject == string(w.ID), false
	case atrium.EventWebhookDisabled, atrium.EventWebhookExhausted:
		if e.Audit == nil || e.Audit.Subject == string(w.ID) { // no webhook reports itself
			return false, false
		}
	}
	if len(w.EventTypes) > 0 && !slices.Contains(w.EventTypes, e.Type) || w.AccountID != "" && w.AccountID != e.AccountID {
		return false, false
	}
	if e.Erased {
		return true, false
	}
	source, entryType := "", ""
	if e.Entry != nil {
		source, entryType = e.Entry.Source, e.Entry.Type
	}
	if len(w.Sources) > 0 && (e.Entry == nil || !slices.Contains(w.Sources, source)) {
		return false, false
	}
	if len(w.EntryTypes) > 0 && (e.Entry == nil || !slices.Contains(w.EntryTypes, entryType)) {
		return false, false
	}
	switch {
	case s.broken:
		return true, true
	case s.filter == nil:
		return true, false
	}
	matches, err := s.filter.Match(filter.Event{Type: string(e.Type), Source: source, EntryType: entryType, AccountID: string(e.AccountID), Body: body})
	return matches || err != nil, err != nil
}

// subjectOf returns what an event is about: deliveries of one subject are in order if the webhook is ordered.
func subjectOf(e *atrium.Event) string {
	switch {
	case e.AccountID != "":
		return string(e.AccountID)
	case e.Audit != nil:
		return e.Audit.Subject
	}
	return ""
}
