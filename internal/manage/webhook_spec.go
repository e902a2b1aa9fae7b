package manage

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/filter"
	"atrium/internal/strictjson"
	"atrium/internal/webhook"
)

// decodeWebhook decodes what operators decide about a webhook. change sets the fields that o has. headers are the
// custom headers, nil if o has none. presence is that of the URL.
func (a *API) decodeWebhook(o *strictjson.Object, presence strictjson.Presence) (change func(*atrium.WebhookSpec), headers []atrium.WebhookSecret) {
	var changes []func(*atrium.WebhookSpec)
	set := func(f func(*atrium.WebhookSpec)) { changes = append(changes, f) }
	if url, ok := o.Text("url", presence, nil); ok {
		for _, f := range webhook.CheckURL(url, a.WebhookAllow) {
			o.Fault("url", f.Detail)
		}
		set(func(s *atrium.WebhookSpec) { s.URL = url })
	}
	if text, ok := o.Text("description", strictjson.Optional, func(text string) string {
		return atrium.CheckText(text, 0, atrium.MaxWebhookDescription)
	}); ok {
		set(func(s *atrium.WebhookSpec) { s.Description = text })
	}
	if texts, ok := decodeSelection(o, "eventTypes", func(text string) string {
		if !slices.Contains(atrium.EventTypes(), atrium.EventType(text)) {
			return "must be a type of event: " + eventTypes
		}
		return ""
	}); ok {
		set(func(s *atrium.WebhookSpec) {
			s.EventTypes = make([]atrium.EventType, len(texts))
			for i, text := range texts {
				s.EventTypes[i] = atrium.EventType(text)
			}
		})
	}
	if texts, ok := decodeSelection(o, "sources", checkSource); ok {
		set(func(s *atrium.WebhookSpec) { s.Sources = texts })
	}
	if texts, ok := decodeSelection(o, "entryTypes", checkType); ok {
		set(func(s *atrium.WebhookSpec) { s.EntryTypes = texts })
	}
	decodeConditions(o, presence, set)
	if text, ok := o.Text("format", strictjson.Optional, func(text string) string {
		switch atrium.WebhookFormat(text) {
		case atrium.FormatStandard, atrium.FormatLegacy, atrium.FormatCloudEvents:
			return ""
		default:
			return "must be one of standard, legacy, cloudevents"
		}
	}); ok {
		set(func(s *atrium.WebhookSpec) { s.Format = atrium.WebhookFormat(text) })
	}
	if o.Has("ordered") {
		ordered := o.Bool("ordered")
		set(func(s *atrium.WebhookSpec) { s.Ordered = ordered })
	}
	if o.Has("rateLimit") {
		rate := o.Integer("rateLimit", 0, atrium.MaxWebhookRate)
		set(func(s *atrium.WebhookSpec) { s.RateLimit = rate })
	}
	return func(s *atrium.WebhookSpec) {
		for _, f := range changes {
			f(s)
		}
	}, decodeWebhookHeaders(o)
}

// decodeConditions decodes the conditions that a change of a webhook removes by null. A new webhook has none without.
func decodeConditions(o *strictjson.Object, presence strictjson.Presence, set func(func(*atrium.WebhookSpec))) {
	nullable := strictjson.Nullable
	if presence == strictjson.Required {
		nullable = strictjson.Optional
	}
	if o.Has("accountId") {
		id, _ := o.Text("accountId", nullable, checkID[atrium.AccountID])
		set(func(s *atrium.WebhookSpec) { s.AccountID = atrium.AccountID(id) })
	}
	if o.Has("filter") {
		source, ok := o.Text("filter", nullable, func(text string) string { return atrium.CheckText(text, 1, atrium.MaxWebhookFilter) })
		if ok {
			if _, err := filter.Compile(source); err != nil {
				for _, f := range faultsOf(err) {
					o.Fault("filter", f)
				}
			}
		}
		set(func(s *atrium.WebhookSpec) { s.Filter = source })
	}
}

// faultsOf returns the details of the faults of an error, or its own.
func faultsOf(err error) (details []string) {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return []string{err.Error()}
	}
	for _, f := range e.Faults {
		details = append(details, f.Detail)
	}
	if len(details) == 0 {
		details = append(details, e.Detail)
	}
	return details
}

// decodeSelection decodes an array of different texts, which may be empty. ok is false if it is absent or has a fault.
func decodeSelection(o *strictjson.Object, name string, check func(string) string) (texts []string, ok bool) {
	array := o.Array(name, strictjson.Optional)
	if array == nil {
		return nil, false
	}
	if elements, few := strictjson.Elements(array, atrium.MaxWebhookSelections); few && len(elements) == 0 {
		return []string{}, true
	}
	if texts = o.Texts(name, strictjson.Optional, atrium.MaxWebhookSelections, check); texts == nil {
		return nil, false
	}
	if sorted := slices.Sorted(slices.Values(texts)); len(slices.Compact(sorted)) < len(texts) {
		o.Fault(name, "must not repeat an element")
		return nil, false
	}
	return texts, true
}

// decodeWebhookHeaders decodes the custom headers, nil if there is no such member. An empty object removes them.
func decodeWebhookHeaders(o *strictjson.Object) []atrium.WebhookSecret {
	inner := o.Inner("headers", strictjson.Optional)
	if inner == nil {
		return nil
	}
	headers := []webhook.Header{}
	for _, name := range inner.Names() {
		value, _ := inner.Text(name, strictjson.Required, nil)
		headers = append(headers, webhook.Header{Name: name, Value: value})
	}
	for _, f := range webhook.CheckHeaders(headers) {
		if name, ok := strings.CutPrefix(f.Where, "/headers/"); ok {
			inner.Fault(strings.NewReplacer("~1", "/", "~0", "~").Replace(name), f.Detail)
			continue
		}
		o.Fault("headers", f.Detail)
	}
	if len(headers) == 0 {
		return []atrium.WebhookSecret{}
	}
	value, err := json.Marshal(headers)
	if err != nil {
		o.Fault("headers", "must be valid UTF-8") // unreachable: bodies are
		return nil
	}
	return []atrium.WebhookSecret{{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretHeaders, Value: value}}
}

// eventTypes are all types of events, for an error.
var eventTypes = func() string {
	var names []string
	for _, t := range atrium.EventTypes() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}()
