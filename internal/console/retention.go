package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A retentionRule is a retention rule as the API shows it.
type retentionRule struct {
	Source      string `json:"source,omitempty"`
	Type        string `json:"type,omitempty"`
	Days        int64  `json:"days"`
	AccountLogs int64  `json:"accountLogs,omitzero"` // entries that it would delete now; only in checks
}

// retention is the rules of a tenant.
type retention struct {
	Rules []retentionRule `json:"rules"`
}

const (
	maxRetentionRules = 50 // that the API accepts
	emptyRules        = 2  // rows for new rules in the form
)

type retentionPage struct {
	Rows    []ruleRow
	Rules   []retentionRule // checked, to be confirmed; nil if the form is shown first
	Tag     string          // what the user has seen
	Checked bool
	Changed bool            // since the user has seen the rules
	Stored  []retentionRule // if Changed
	More    bool            // the check has not examined all entries
}

// A ruleRow is a row of the form for retention rules.
type ruleRow struct {
	Number             int
	Source, Type, Days string
}

// Label returns the label of a field.
func (row ruleRow) Label(field string) string {
	return field + " of rule " + strconv.Itoa(row.Number+1)
}

// showRetention shows the form for retention rules.
func (c *Console) showRetention(r *request) error {
	if err := r.require(atrium.ScopeManageErase); err != nil {
		return err
	}
	var p retentionPage
	var current retention
	var err error
	if p.Tag, err = r.get(&current, "/retention", nil); err != nil {
		return err
	}
	for _, rule := range current.Rules {
		p.Rows = append(p.Rows, ruleRow{Source: rule.Source, Type: rule.Type, Days: strconv.FormatInt(rule.Days, 10)})
	}
	return r.showRules(p)
}

// showRules shows the page with rows for new rules.
func (r *request) showRules(p retentionPage) error {
	for range min(emptyRules, maxRetentionRules-len(p.Rows)) {
		p.Rows = append(p.Rows, ruleRow{})
	}
	for i := range p.Rows {
		p.Rows[i].Number = i
	}
	return r.show("retention", "privacy", "Retention rules", p)
}

// changeRetention shows what the rules of the form would delete, and sets them when the user confirms that.
func (c *Console) changeRetention(r *request) error {
	p := retentionPage{Tag: r.form("tag"), Rows: r.readRules()}
	rules, err := parseRules(p.Rows)
	if err == nil && r.http.PostForm.Has("confirm") {
		_, err = r.call(call{method: http.MethodPut, path: "/retention", ifMatch: p.Tag, body: retention{rules}})
		if err == nil {
			return r.redirect(r.path("privacy"), "retention")
		}
	} else if err == nil {
		err = r.checkRules(&p, rules)
	}
	if err := r.refuse(ofRows(p.Rows, err)); err != nil {
		return err
	}
	if p.Changed = errors.Is(r.refused, errChanged); p.Changed {
		var current retention
		if p.Tag, err = r.get(&current, "/retention", nil); err != nil {
			return err
		}
		p.Stored = current.Rules
	}
	return r.showRules(p)
}

// readRules returns the rows of the form that are not empty.
func (r *request) readRules() (rows []ruleRow) {
	for i := range maxRetentionRules {
		at := ":" + strconv.Itoa(i)
		row := ruleRow{Source: r.http.PostForm.Get("source" + at), Type: r.http.PostForm.Get("type" + at), Days: r.form("days" + at)}
		if row != (ruleRow{}) {
			rows = append(rows, row)
		}
	}
	return rows
}

// parseRules returns the rules of rows. A row without a number of days removes its rule.
func parseRules(rows []ruleRow) ([]retentionRule, error) {
	rules := []retentionRule{}
	for i, row := range rows {
		if row.Days == "" {
			continue
		}
		days, err := strconv.ParseInt(row.Days, 10, 32)
		if err != nil {
			return nil, wrong("days:"+strconv.Itoa(i), "must be a number")
		}
		rules = append(rules, retentionRule{Source: row.Source, Type: row.Type, Days: days})
	}
	return rules, nil
}

// ofRows returns an error about rules as one about rows, of which those without a number of days are no rules.
func ofRows(rows []ruleRow, err error) error {
	e, ok := asError(err)
	if !ok {
		return err
	}
	moved := *e
	moved.Faults = slices.Clone(e.Faults)
	for i, f := range moved.Faults {
		if parts := strings.Split(f.Where, "/"); len(parts) == 4 && parts[1] == "rules" {
			left, _ := strconv.Atoi(parts[2])
			for row := range rows {
				if rows[row].Days != "" {
					left--
				}
				if left < 0 {
					moved.Faults[i].Where = "/" + parts[3] + ":" + strconv.Itoa(row)
					break
				}
			}
		}
	}
	return &moved
}

// checkRules counts the entries that rules would delete, as far as some calls examine them.
func (r *request) checkRules(p *retentionPage, rules []retentionRule) error {
	p.Rules = slices.Clone(rules)
	body := map[string]any{"rules": rules}
	for range maxCalls {
		a, err := r.call(call{method: http.MethodPost, path: "/retention/check", body: body})
		if err != nil {
			return err
		}
		var checked struct {
			retention
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.body, &checked); err != nil {
			return err
		}
		for i, rule := range checked.Rules {
			p.Rules[i].AccountLogs += rule.AccountLogs
		}
		if p.More = checked.NextCursor != ""; !p.More {
			break
		}
		body["cursor"] = checked.NextCursor
	}
	p.Checked = true
	return nil
}

// Applies describes the entries that a rule is for.
func (rule retentionRule) Applies() string {
	var parts []string
	if rule.Source != "" {
		parts = append(parts, "source "+atrium.Shorten(60, rule.Source))
	}
	if rule.Type != "" {
		parts = append(parts, "type "+atrium.Shorten(60, rule.Type))
	}
	if len(parts) == 0 {
		return "all other entries"
	}
	return "entries with " + strings.Join(parts, " and ")
}
