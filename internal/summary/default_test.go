package summary_test

import (
	"strings"
	"testing"

	"atrium"
	"atrium/internal/summary"
)

func TestTheDefaultIsShortAndOfTheFirstValues(t *testing.T) {
	for payload, want := range map[string]string{
		`{"deal":"D-7","amount":18500.0,"list":[1],"won":true}`: "deal D-7 · amount 18500.0 · won true",
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`:                 "a 1 · b 2 · c 3 · d 4 · e 5",
		`{"o":{"x":{"y":1}},"n":null,"a":1,"a":2}`:              "n null · a 1 · a 2",
		"\n" + "[1, 2]" + " ":                                   "[1, 2]", `{}`: "", "": "",
		`{"a":"` + strings.Repeat("x", 100) + `"}`:    "a " + strings.Repeat("x", 39) + "…",
		`{"a":"` + strings.Repeat("é", 40) + `"}`:     "a " + strings.Repeat("é", 40),
		`{"a":"one\n\ttwo","` + "b\u202e" + `":"\""}`: "a one two · b\uFFFD \"",
	} {
		if got := summary.Default([]byte(payload)); got != want {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
	for _, payload := range []string{`{"` + strings.Repeat("n", 1000) + `":1}`, strings.Repeat("[", 1000)} {
		if got := []rune(summary.Default([]byte(payload))); len(got) != atrium.MaxSummary || got[len(got)-1] != '…' {
			t.Errorf("%.40s: %d code points", payload, len(got))
		}
	}
}

func TestAnEntryWithoutATemplateHasTheDefault(t *testing.T) {
	all := summary.New(atrium.SummaryTemplates{{Source: "web", Type: "form", Template: "By {/name}"}})
	for key, want := range map[[2]string]string{{"web", "form"}: "By Robin", {"web", "visit"}: "name Robin", {"crm", "form"}: "name Robin"} {
		if got := all.Of(key[0], key[1], []byte(`{"name":"Robin"}`)); got != want {
			t.Errorf("%v: %q, want %q", key, got, want)
		}
	}
}
