package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// kinds are the kinds of values that differ in every run. A page shows an example of each.
var kinds = map[string]*regexp.Regexp{
	"identifier": regexp.MustCompile(`^[a-z]+_[a-z0-9]{26}$`),
	"day":        regexp.MustCompile(`^\d{4}-\d\d-\d\d$`),
	"time":       regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`),
	"tag":        regexp.MustCompile(`^"[!#-~]+"$`),
	"cursor":     regexp.MustCompile(`^[A-Za-z0-9_-]{40,}$`),
	"key":        regexp.MustCompile(`^at[rp]_[a-z0-9]{26}_[0-9A-Za-z]{33}$`),
}

// values maps the example values of a page to the values of this run. Each example maps to
// one value throughout the page. Values that the page or the demo set map to themselves.
type values struct {
	given  string
	actual map[string]string // by the page's value
	shown  map[string]string // the page's value, by the actual identifier or key
}

func newValues(given string) values {
	return values{given, map[string]string{}, map[string]string{}}
}

// give records the values that the page sends.
func (v *values) give(text string) { v.given += "\n" + text }

// expand replaces the page's values in a text with those of this run.
func (v *values) expand(text string) string {
	for page, actual := range v.actual {
		text = strings.ReplaceAll(text, page, actual)
	}
	return text
}

// compare compares a value with that of the page and returns the difference.
func (v *values) compare(page, got string) string {
	wrong := fmt.Sprintf("is %q, the page has %q", got, page)
	if actual, known := v.actual[page]; known {
		if actual != got {
			return wrong + fmt.Sprintf(", which was %q before", actual)
		}
		return ""
	}
	if page == got {
		return ""
	}
	if strings.Contains(v.given, strings.Trim(page, `"`)) || strings.Contains(v.given, strings.Trim(got, `"`)) {
		return wrong
	}
	for name, kind := range kinds {
		if !kind.MatchString(page) || !kind.MatchString(got) {
			continue
		}
		if name == "identifier" || name == "key" {
			prefix, _, _ := strings.Cut(page, "_")
			if !strings.HasPrefix(got, prefix+"_") {
				return wrong
			}
			if other, taken := v.shown[got]; taken && other != page {
				return wrong + fmt.Sprintf(", and has %q for it elsewhere", other)
			}
			v.shown[got] = page
		}
		v.actual[page] = got
		return ""
	}
	return wrong
}

// compareText compares texts word by word, ignoring white space.
func (v *values) compareText(page, got string) []string {
	want, have := strings.Fields(page), strings.Fields(got)
	if len(want) != len(have) {
		return []string{fmt.Sprintf("is %q, the page has %q", got, page)}
	}
	var faults []string
	for i := range want {
		if wrong := v.compare(want[i], have[i]); wrong != "" {
			faults = append(faults, wrong)
		}
	}
	return faults
}

// compareBody compares JSON as JSON, lines of JSON as such, and anything else as text.
func (v *values) compareBody(page, got string) (faults []string) {
	lines := strings.Split(strings.TrimSpace(page), "\n")
	if len(lines) > 1 && !slices.ContainsFunc(lines, func(line string) bool { return !json.Valid([]byte(line)) }) {
		have := strings.Split(strings.TrimSpace(got), "\n")
		if len(have) != len(lines) {
			return []string{fmt.Sprintf("has %d lines, the page %d", len(have), len(lines))}
		}
		for i := range lines {
			faults = append(faults, v.compareBody(lines[i], have[i])...)
		}
		return faults
	}
	if page = strings.TrimSpace(page); page == "" || strings.IndexByte("{[", page[0]) < 0 {
		return v.compareText(page, got)
	}
	want, err := readJSON(page)
	if err != nil {
		return []string{"the page's response is not JSON:  " + err.Error()}
	}
	have, err := readJSON(got)
	if err != nil {
		return []string{fmt.Sprintf("is not JSON: %v: %q", err, got)}
	}
	return v.compareJSON("", want, have)
}

func (v *values) compareJSON(at string, want, got any) (faults []string) {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: is %v, the page has an object", at, got)}
		}
		if w, g := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(object)); !slices.Equal(w, g) {
			return []string{fmt.Sprintf("%s: has the members %v, on the page %v", at, g, w)}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			faults = append(faults, v.compareJSON(at+"/"+name, want[name], object[name])...)
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return []string{fmt.Sprintf("%s: is %v, the page has an array of %d", at, got, len(want))}
		}
		for i := range want {
			faults = append(faults, v.compareJSON(fmt.Sprintf("%s/%d", at, i), want[i], list[i])...)
		}
	case string:
		text, ok := got.(string)
		if !ok {
			return []string{fmt.Sprintf("%s: is %v, the page has %q", at, got, want)}
		}
		if wrong := v.compare(want, text); wrong != "" {
			return []string{at + ": " + wrong}
		}
	default:
		if want != got {
			return []string{fmt.Sprintf("%s: is %v, the page has %v", at, got, want)}
		}
	}
	return faults
}

// readJSON decodes JSON and keeps the text of numbers.
func readJSON(text string) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = fmt.Errorf("unexpected data at byte %d", d.InputOffset())
	}
	return v, err
}
