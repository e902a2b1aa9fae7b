package receivers

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Matcher finds deliveries in quarantine by the texts of an erasure's rule, as it compares them with payloads: Text with a
// whole string, TextContains with a part of one, both ignoring case. The strings of a delivery are those of its JSON or form,
// of its query and of its headers. A body that is neither JSON nor a form is one long string, of which a part matches Text.
type Matcher struct {
	text, part string // canonical.Name; "" matches every delivery
}

// NewMatcher returns the Matcher of a rule, nil if the rule selects no deliveries.
func NewMatcher(r *atrium.ErasureRequest) *Matcher {
	if r.AccountID != "" || !r.Rule.HasTextsOnly() {
		return nil // no delivery has an account, a claim or a payload yet
	}
	return &Matcher{canonical.Name(r.Rule.Text), canonical.Name(r.Rule.TextContains)}
}

// Find returns deliveries of a tenant that match, oldest first, after a position, nil for the first ones, and the position to
// continue after, nil at the end. It reads about batchBytes, and may find none before the end.
func (m *Matcher) Find(tx engine.Tx, tenant atrium.TenantID, after *atrium.Position, limit int) (found []atrium.QuarantinedDelivery, next *atrium.Position, err error) {
	all, more, err := read(tx.Query, tenant, kernel.Select("SELECT "+wholeColumns+" FROM quarantine WHERE tenant_id = ", kernel.IDArg(tenant)), after, batchDeliveries)
	for i := range all {
		if more || i < len(all)-1 {
			next = PositionOf(&all[i])
		} else {
			next = nil
		}
		if m.matches(&all[i]) {
			if found = append(found, all[i]); len(found) == limit {
				break
			}
		}
	}
	return found, next, err
}

func (m *Matcher) matches(d *atrium.QuarantinedDelivery) bool {
	return (m.text == "" || anyString(d, func(s string, whole bool) bool { return s == m.text || !whole && strings.Contains(s, m.text) })) &&
		(m.part == "" || anyString(d, func(s string, _ bool) bool { return strings.Contains(s, m.part) }))
}

// anyString reports whether one of the delivery's strings is what is reports, in canonical form. whole is false for a string
// that contains others.
func anyString(d *atrium.QuarantinedDelivery, is func(s string, whole bool) bool) bool {
	form := false
	for _, h := range d.Headers {
		if is(canonical.Name(h.Name), true) || is(canonical.Name(h.Value), true) {
			return true
		}
		form = form || h.Name == "content-type" && strings.HasPrefix(strings.ToLower(h.Value), "application/x-www-form-urlencoded")
	}
	if anyParameter(d.Query, is) {
		return true
	}
	found, valid := anyToken(d.Body, is)
	switch {
	case found:
		return true
	case valid:
		return false
	case form:
		return anyParameter(string(d.Body), is)
	}
	text := string(d.Body)
	if is(canonical.Name(text), false) {
		return true
	}
	unescaped, err := url.QueryUnescape(text)
	return err == nil && is(canonical.Name(unescaped), false)
}

// anyParameter is anyString for the parameters of a form, whose values may be JSON.
func anyParameter(form string, is func(s string, whole bool) bool) bool {
	if form == "" {
		return false
	}
	all, err := url.ParseQuery(form)
	if err != nil && is(canonical.Name(form), false) {
		return true
	}
	for name, values := range all {
		if is(canonical.Name(name), true) {
			return true
		}
		for _, value := range values {
			if is(canonical.Name(value), true) {
				return true
			}
			if found, _ := anyToken([]byte(value), is); found {
				return true
			}
		}
	}
	return false
}

// anyToken is anyString for JSON. valid reports whether all of the body is.
func anyToken(body []byte, is func(s string, whole bool) bool) (found, valid bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return false, d.InputOffset() > 0 && len(bytes.TrimSpace(body[d.InputOffset():])) == 0 && d.StackDepth() == 0
		}
		if token.Kind() == '"' && is(canonical.Name(token.String()), true) {
			return true, true
		}
	}
}
