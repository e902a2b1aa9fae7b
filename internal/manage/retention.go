package manage

import (
	"cmp"
	"context"
	"strconv"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type retentionRule struct {
	Source string `json:"source,omitzero"`
	Type   string `json:"type,omitzero"`
	Days   int64  `json:"days"`
}

type retention struct {
	TenantID  atrium.TenantID `json:"tenantId"`
	Rules     []retentionRule `json:"rules"`
	UpdatedAt *atrium.Time    `json:"updatedAt,omitzero"`
}

func newRetention(r atrium.Retention) retention {
	all := retention{r.TenantID, make([]retentionRule, len(r.Rules)), r.UpdatedAt}
	for i, rule := range r.Rules {
		all.Rules[i] = retentionRule(rule)
	}
	return all
}

func (a *API) getRetention(ctx context.Context, who auth.Principal, _ *rest.Request) (rest.Response, error) {
	r, err := a.Store.Retention(ctx, who.TenantID)
	return rest.Response{Body: newRetention(r)}, err
}

func (a *API) setRetention(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var rules atrium.RetentionRules
	c, err := r.DecodeChange(who, func(o *strictjson.Object) { rules = decodeRetentionRules(o, strictjson.Required) })
	if err := cmp.Or(err, checkDistinct(rules)); err != nil {
		return rest.Response{}, err
	}
	set, err := a.Store.SetRetention(ctx, c, rules, func(now atrium.Retention) error { return r.RequireState(newRetention(now)) })
	return rest.Response{Body: newRetention(set), Tagged: true}, err
}

// decodeRetentionRules decodes the member rules and adds its faults to o.
func decodeRetentionRules(o *strictjson.Object, presence strictjson.Presence) (rules atrium.RetentionRules) {
	for _, inner := range o.InnerArray("rules", presence, atrium.MaxRetentionRules) {
		var rule atrium.RetentionRule
		rule.Source, _ = inner.Text("source", strictjson.Optional, checkSource)
		rule.Type, _ = inner.Text("type", strictjson.Optional, checkType)
		if rule.Days = inner.Integer("days", 1, atrium.MaxRetentionDays); !inner.Has("days") {
			inner.Fault("days", "is required")
		}
		inner.RejectUnknown()
		rules = append(rules, rule)
	}
	return rules
}

// checkDistinct returns a Conflict if two rules have the same source and type.
func checkDistinct(rules atrium.RetentionRules) error {
	first := map[atrium.RetentionRule]int{}
	for i, rule := range rules {
		rule.Days = 0
		if other, ok := first[rule]; ok {
			return atrium.Errorf(atrium.CodeConflict, "The rules at %d and %d of the list have the same source and type. Keep one of them.", other, i)
		}
		first[rule] = i
	}
	return nil
}

// A checkedRule is a rule, and how many of the examined entries it would delete.
type checkedRule struct {
	retentionRule
	AccountLogs int `json:"accountLogs"`
}

type retentionCheck struct {
	Rules      []checkedRule `json:"rules"`
	Examined   int           `json:"examined"`
	HasMore    bool          `json:"hasMore"`
	NextCursor string        `json:"nextCursor,omitzero"`
}

func (a *API) checkRetention(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var rules atrium.RetentionRules
	var after *atrium.Position
	var binding []string
	var storeErr error
	_, err := r.DecodeChange(who, func(o *strictjson.Object) {
		if rules = decodeRetentionRules(o, strictjson.Optional); !o.Has("rules") {
			var stored atrium.Retention
			stored, storeErr = a.Store.Retention(ctx, who.TenantID)
			rules = stored.Rules
		}
		// Stored rules may change between two pages, whose counts then must not be added.
		binding = []string{string(who.TenantID), "check of retention"}
		for _, rule := range rules {
			binding = append(binding, rule.Source, rule.Type, strconv.FormatInt(rule.Days, 10))
		}
		o.Text("cursor", strictjson.Optional, func(text string) (fault string) {
			var ok bool
			if after, ok = a.Cursors.OpenPosition(text, binding...); !ok {
				return "is not a nextCursor of the same check"
			}
			return ""
		})
	})
	if err := cmp.Or(storeErr, err, checkDistinct(rules)); err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.CheckRetention(ctx, who.TenantID, rules, after)
	if err != nil {
		return rest.Response{}, err
	}
	check := retentionCheck{Rules: make([]checkedRule, len(rules)), Examined: found.Examined, HasMore: next != nil}
	for i, rule := range rules {
		check.Rules[i] = checkedRule{retentionRule(rule), found.Expired[i]}
	}
	if next != nil {
		check.NextCursor = a.Cursors.SealPosition(next, binding...)
	}
	return rest.Response{Body: check}, nil
}
