package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var (
	placeholder = regexp.MustCompile(`\{\{(.+?)\}\}`)
	literal     = regexp.MustCompile(`^("(?:[^"\\]|\\.)*")(?:\*(\d+))?$`)
	matcher     = regexp.MustCompile(`^\{\{(?:([\w.-]+) )?is (?:(not|after|before|not after|not before) )?([\w.:-]+)\}\}$`)
	fixtureID   = regexp.MustCompile(`\b[a-z]+_0[a-z0-9]{25}\b`)
)

const (
	id26    = `[a-z0-9]{26}`
	instant = `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z`
)

// kinds are the kinds of text that a matcher can require.
var kinds = map[string]*regexp.Regexp{
	"account":  regexp.MustCompile(`^account_` + id26 + `$`),
	"audience": regexp.MustCompile(`^audience_` + id26 + `$`),
	"brand":    regexp.MustCompile(`^brand_` + id26 + `$`),
	"entry":    regexp.MustCompile(`^prospectlog_` + id26 + `$`),
	"move":     regexp.MustCompile(`^move_` + id26 + `$`),
	"prospect": regexp.MustCompile(`^prospect_` + id26 + `$`),
	"page":     regexp.MustCompile(`^page_` + id26 + `$`),
	"version":  regexp.MustCompile(`^version_` + id26 + `$`),
	"request":  regexp.MustCompile(`^req_` + id26 + `$`),
	"time":     regexp.MustCompile(`^` + instant + `$`),
	"tag":      regexp.MustCompile(`^"[!#-~]+"$`),
	"cursor":   regexp.MustCompile(`^[A-Za-z0-9_-]+$`),
	"text":     regexp.MustCompile(`(?s).`),
	"key":      regexp.MustCompile(`^key_` + id26 + `$`),
	"preview":  regexp.MustCompile(`^preview_` + id26 + `$`),
	"token":    regexp.MustCompile(`^atp_` + id26 + `_[0-9A-Za-z]{33}$`),
	"secret":   regexp.MustCompile(`^atr_` + id26 + `_[0-9A-Za-z]{33}$`),
	"mapping":  regexp.MustCompile(`^mapping_` + id26 + `$`),
	"user":     regexp.MustCompile(`^user_` + id26 + `$`),
	"login":    regexp.MustCompile(`^atl_` + id26 + `_[0-9A-Za-z]{33}$`),
	"tenant":   regexp.MustCompile(`^tenant_` + id26 + `$`),
	"hash":     regexp.MustCompile(`^[0-9a-f]{64}$`),
}

// expand replaces {{name}} with the variable and {{"text"*3}} with a Go string, repeated.
// It leaves matchers unchanged.
func expand(text string, vars map[string]string) (expanded string, err error) {
	expanded = placeholder.ReplaceAllStringFunc(text, func(whole string) string {
		inside := whole[2 : len(whole)-2]
		if matcher.MatchString(whole) {
			return whole
		}
		if parts := literal.FindStringSubmatch(inside); parts != nil {
			unquoted, bad := strconv.Unquote(parts[1])
			times, _ := strconv.Atoi("0" + parts[2])
			if bad != nil {
				err = fmt.Errorf("%s: %w", whole, bad)
			}
			return strings.Repeat(unquoted, max(times, 1))
		}
		value, ok := vars[inside]
		if !ok {
			err = fmt.Errorf("unknown variable %q", inside)
		}
		return value
	})
	return expanded, err
}

// matchText compares a text with a pattern: a matcher, or the text itself. A matcher
// requires a kind, or compares with a variable; times compare as texts. A matcher with a
// name sets the variable.
func matchText(want, got string, vars map[string]string) string {
	m := matcher.FindStringSubmatch(want)
	if m == nil {
		if want != got {
			return fmt.Sprintf("is %q, want %q", clip(got), clip(want))
		}
		return ""
	}
	name, relation, operand := m[1], m[2], m[3]
	switch {
	case relation == "" && kinds[operand] == nil || relation != "" && vars[operand] == "":
		return want + " asks for something unknown"
	case relation == "not" && got == vars[operand],
		relation == "after" && got <= vars[operand], relation == "not before" && got < vars[operand],
		relation == "before" && got >= vars[operand], relation == "not after" && got > vars[operand],
		relation == "" && !kinds[operand].MatchString(got):
		return fmt.Sprintf("is %q, want one that %s", clip(got), want)
	}
	if name != "" {
		vars[name] = got
	}
	return ""
}

// matchJSON compares JSON values. In want, a string may be a matcher, and a member or last
// element "..." allows additional ones.
func matchJSON(at string, want, got any, vars map[string]string) (faults []string) {
	fault := func(format string, args ...any) []string {
		return append(faults, at+": "+fmt.Sprintf(format, args...))
	}
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fault("is %s, want an object", show(got))
		}
		_, open := want["..."]
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, there := object[name]
			switch {
			case name == "...":
			case !there:
				faults = fault("has no member %q", name)
			default:
				faults = append(faults, matchJSON(at+"/"+name, want[name], value, vars)...)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, named := want[name]; !named && !open {
				faults = fault("has a member %q, which is %s", name, show(object[name]))
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok {
			return fault("is %s, want an array", show(got))
		}
		if n := len(want); n > 0 && want[n-1] == "..." && len(list) >= n-1 {
			want, list = want[:n-1], list[:n-1]
		}
		if len(list) != len(want) {
			return fault("has %d elements, want %d: %s", len(list), len(want), show(got))
		}
		for i := range want {
			faults = append(faults, matchJSON(at+"/"+strconv.Itoa(i), want[i], list[i], vars)...)
		}
	case string:
		text, ok := got.(string)
		if !ok {
			return fault("is %s, want a string", show(got))
		}
		if wrong := matchText(want, text, vars); wrong != "" {
			return fault("%s", wrong)
		}
	default: // a number, compared as text, or a literal
		if want != got {
			return fault("is %s, want %s", show(got), show(want))
		}
	}
	return faults
}

// readJSON decodes JSON and keeps the text of numbers.
func readJSON(text []byte) (any, error) {
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

func show(v any) string {
	b, _ := json.Marshal(v)
	return clip(string(b))
}

func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}
