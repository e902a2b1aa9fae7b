package console

import (
	"net/url"
	"slices"
	"strconv"

	"atrium"
)

// A concern is something that needs attention. The page shows its text, its time, a full stop, and the link.
type concern struct {
	Text         string // a sentence without its full stop, or its beginning before At; hostile
	At           string // an instant that ends the sentence; "" for none
	Path, Action string // the link to where it can be resolved; "" for none
	Bad          bool   // something fails already
}

// What the overview looks at.
const (
	maxConcerns = 3     // of one kind, before one sentence is about all of them
	maxExamined = "100" // webhooks and receivers
)

// A boundedCount is a count that may have ended early.
type boundedCount struct {
	count int64
	more  bool // there can be more
}

// Text shows the count.
func (n boundedCount) Text() string {
	if n.more {
		return showCount(n.count) + " or more"
	}
	return showCount(n.count)
}

// concerns returns what needs attention. What fails is first.
func (r *request) concerns(o *overview, ready bool) (all []concern, err error) {
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
	if refused := o.Refused.Count; refused > 0 {
		all = append(all, concern{Text: showCount(refused) + oneOr(refused, " request was", " requests were") + " refused in 24 hours", Path: r.refusedPath(o), Action: "See why"})
	}
	if n := (boundedCount{o.Unattributed.Count, o.Unattributed.HasMore}); n.count > 0 {
		c := concern{Text: n.Text() + oneOr(n.count, " entry has", " entries have") + " no account", Path: r.path("activity") + "?unattributed=true", Action: "See them"}
		if r.may(atrium.ScopeManageAccounts) {
			c.Action = "Move entries"
		}
		all = append(all, c)
	}
	all = append(all, r.keyConcerns(o)...)
	slices.SortStableFunc(all, func(a, b concern) int {
		switch {
		case a.Bad == b.Bad:
			return 0
		case a.Bad:
			return -1
		}
		return 1
	})
	return all, nil
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
		count := boundedCount{int64(len(all)), found.HasMore}
		bad := slices.ContainsFunc(all, func(c concern) bool { return c.Bad })
		all = []concern{{Text: count.Text() + " webhooks fail or are disabled", Path: r.path("webhooks"), Action: "See them", Bad: bad}}
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
	total := boundedCount{more: found.HasMore}
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
