package console

import (
	"net/url"
	"strconv"

	"atrium"
)

// A concern is what needs attention: a sentence, and a link to the page where somebody can do something about it.
type concern struct {
	Text         string // without the full stop, and hostile
	At           string // an instant that ends the sentence; "" for none
	Path, Action string // "" for no link
	Bad          bool   // something fails already
}

// What the overview looks at.
const (
	maxConcerns = 3     // of one kind, before one sentence is about all of them
	maxExamined = "100" // webhooks, receivers and refused requests
)

// An atLeast is a count, or the least that it can be.
type atLeast struct {
	count int64
	more  bool
}

// Text shows the count.
func (n atLeast) Text() string {
	if n.more {
		return showCount(n.count) + " or more"
	}
	return showCount(n.count)
}

// countRefused returns how many requests of programs were refused within a day: without those of people among the newest,
// who have seen what was wrong with their form.
func (r *request) countRefused(day refusedCounts) (int64, error) {
	if day.Count == 0 {
		return 0, nil
	}
	var newest list[refused]
	if _, err := r.get(&newest, "/refused_requests", url.Values{"since": {day.Since}, "limit": {maxExamined}}); err != nil {
		return 0, err
	}
	for i := range newest.Items {
		if newest.Items[i].UserID != "" {
			day.Count -= newest.Items[i].Count
		}
	}
	return max(0, day.Count), nil
}

// concerns returns what needs attention, what fails first.
func (r *request) concerns(o *overview, ready bool, refused int64) ([]concern, error) {
	var all []concern
	if !ready {
		c := concern{Text: "The service is not ready; its log has the reason", Bad: true}
		if r.user.TenantID == "" {
			c.Path, c.Action = prefix+"/server/checks", "Check the server"
		}
		all = append(all, c)
	}
	webhooks, err := r.webhookConcerns()
	if err != nil {
		return nil, err
	}
	quarantine, err := r.quarantineConcerns()
	if err != nil {
		return nil, err
	}
	all = append(append(all, webhooks...), quarantine...)
	if refused > 0 {
		all = append(all, concern{Text: showCount(refused) + oneOr(refused, " request was", " requests were") + " refused in 24 hours", Path: address(r.path("refused"), url.Values{"since": {o.Refused.Since}}), Action: "See why"})
	}
	if n := (atLeast{o.Unattributed.Count, o.Unattributed.HasMore}); n.count > 0 {
		c := concern{Text: n.Text() + oneOr(n.count, " entry has", " entries have") + " no account", Path: r.path("activity") + "?unattributed=true", Action: "See them"}
		if r.may(atrium.ScopeManageAccounts) {
			c.Action = "Move them"
		}
		all = append(all, c)
	}
	return append(all, r.keyConcerns(o)...), nil
}

// webhookConcerns returns the webhooks that fail or are disabled.
func (r *request) webhookConcerns() (all []concern, err error) {
	if !r.may(atrium.ScopeManageEvents) {
		return nil, nil
	}
	var found list[webhook]
	if _, err := r.get(&found, "/webhooks", url.Values{"limit": {maxExamined}}); err != nil {
		return nil, err
	}
	for i := range found.Items {
		w := &found.Items[i]
		c := concern{Text: "The webhook " + atrium.Shorten(60, w.Title()), Path: r.path("webhooks", string(w.WebhookID))}
		switch w.State() {
		case failing:
			c.Text, c.At, c.Action, c.Bad = c.Text+" has failed since", w.Progress.FailingSince, "See the attempts", true
		case disabled:
			c.Text, c.Action = c.Text+" is disabled", "Enable it"
			if w.DisabledReason != atrium.DisabledByOperator {
				c.Text, c.Bad = c.Text+": "+w.Reason(), true
			}
		default:
			continue
		}
		all = append(all, c)
	}
	if len(all) > maxConcerns {
		all = []concern{{Text: strconv.Itoa(len(all)) + " webhooks fail or are disabled", Path: r.path("webhooks"), Action: "See them", Bad: true}}
	}
	return all, nil
}

// quarantineConcerns returns the receivers with deliveries in quarantine.
func (r *request) quarantineConcerns() (all []concern, err error) {
	if !r.may(atrium.ScopeManageReceivers) {
		return nil, nil
	}
	var found list[receiver]
	if _, err := r.get(&found, "/receivers", url.Values{"limit": {maxExamined}}); err != nil {
		return nil, err
	}
	total := atLeast{more: found.HasMore}
	for i := range found.Items {
		v := &found.Items[i]
		if v.Quarantined == 0 {
			continue
		}
		total.count += v.Quarantined
		all = append(all, concern{Text: showCount(v.Quarantined) + oneOr(v.Quarantined, " delivery", " deliveries") + " of the receiver " + atrium.Shorten(60, v.Name) + oneOr(v.Quarantined, " is", " are") + " in quarantine", Path: r.path("receivers", string(v.ReceiverID)), Action: "Correct the mapping", Bad: true})
	}
	if len(all) > maxConcerns {
		all = []concern{{Text: total.Text() + " deliveries are in quarantine", Path: r.path("receivers"), Action: "See the receivers", Bad: true}}
	}
	return all, nil
}

// keyConcerns returns the keys that expire soon.
func (r *request) keyConcerns(o *overview) (all []concern) {
	path, action := r.path("keys")+"?state=active", "See it"
	if r.may(atrium.ScopeManageKeys) {
		action = "Replace it"
	}
	if n := len(o.ExpiringKeys); n > maxConcerns {
		return []concern{{Text: strconv.Itoa(n) + " keys expire within 30 days", Path: path, Action: "See them"}}
	}
	for _, k := range o.ExpiringKeys {
		all = append(all, concern{Text: "The key " + atrium.Shorten(60, k.Name) + " expires", At: k.ExpiresAt, Path: path, Action: action})
	}
	return all
}
