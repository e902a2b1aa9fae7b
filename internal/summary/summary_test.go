package summary_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"atrium"
	"atrium/internal/summary"
)

func TestASummaryHasTheTextAndTheValuesOfItsTemplate(t *testing.T) {
	const payload = `{"name":"Jane \"J\" Doe","n":1.50,"big":12345678901234567890,"ok":true,"no":false,"null":null,"o":{"a/b":"deep","~":{"":"empty"}},` +
		`"list":["first",["inner"],{"x":"second"}],"lines":"  one\n\ttwo\u2028three  ","":"nameless","markup":"<b>&amp;</b>","braces":"{/name}","rtl":"a\u202eb\u0007c","twice":1,"twice":2}`
	for template, want := range map[string]string{
		"plain":                      "plain",
		"{/name} filled {/n}":        `Jane "J" Doe filled 1.50`,
		"{/big}{/ok}/{/no}":          "12345678901234567890true/false",
		"a {/null} b {/missing} c":   "a b c",
		"{/o}{/list}{/list/1}":       "",
		"{/o/a~1b}, {/o/~0/}":        "deep, empty",
		"{/list/0}+{/list/2/x}":      "first+second",
		"{/list/00}{/list/-}":        "",
		"{/list/3}{/list/18446}":     "",
		"{/name/0}{/n/x}":            "",
		"[{/lines}]":                 "[ one two three ]",
		"  {/lines}\n":               "one two three",
		"{/}":                        "nameless",
		"{/markup}":                  "<b>&amp;</b>",
		"{/braces}":                  "{/name}", // values are not templates
		"{/rtl}":                     "a\uFFFDb\uFFFDc",
		"}{/n}}":                     "}1.50}",
		"{/twice}":                   "1",
		" \n ":                       "",
		"\U0001f600{/n}\U0001f600\t": "\U0001f6001.50\U0001f600",
	} {
		parsed, fault := summary.Parse(template)
		if fault != "" {
			t.Errorf("%q: %s", template, fault)
			continue
		}
		if got := parsed.Render([]byte(payload)); got != want {
			t.Errorf("%q: %q, want %q", template, got, want)
		}
	}
}

func TestATemplateOfAnotherFormIsRefused(t *testing.T) {
	for template, want := range map[string]string{
		"": "must be 1 to 1000 characters long",
		strings.Repeat("\U0001f600", atrium.MaxSummaryTemplate+1): "must be 1 to 1000 characters long",
		"\x00":          "must not contain U+0000",
		"{":             "must have a } after the { at character 1",
		"é {/a} {/name": "must have a } after the { at character 8",
		"{}":            "must have a JSON Pointer, such as /name, in the braces at character 1",
		"{{/a}}":        "must have a JSON Pointer, such as /name, in the braces at character 1",
		"ab {name}":     "must have a JSON Pointer, such as /name, in the braces at character 4",
		"{/a~2}":        "must have a JSON Pointer, such as /name, in the braces at character 1",
		"{/a~}":         "must have a JSON Pointer, such as /name, in the braces at character 1",
		strings.Repeat("{/a}", atrium.MaxSummaryPointers+1): "must have at most 20 pointers",
	} {
		if parsed, fault := summary.Parse(template); fault != want || parsed != nil {
			t.Errorf("%.40q: %v, %q, want %q", template, parsed, fault, want)
		}
	}
	for _, template := range []string{strings.Repeat("\U0001f600", atrium.MaxSummaryTemplate), strings.Repeat("{/a}", atrium.MaxSummaryPointers)} {
		if _, fault := summary.Parse(template); fault != "" {
			t.Errorf("%.40q: %s", template, fault)
		}
	}
}

func TestASummaryHasAtMost200CodePoints(t *testing.T) {
	for n, want := range map[int]string{
		199: strings.Repeat("é", 199), 200: strings.Repeat("é", 200), 201: strings.Repeat("é", 199) + "…", 100_000: strings.Repeat("é", 199) + "…",
	} {
		payload := fmt.Appendf(nil, `{"a":%q,"b":"more"}`, strings.Repeat("é", n))
		parsed, _ := summary.Parse("{/a}")
		if got := parsed.Render(payload); got != want {
			t.Errorf("%d code points: %q", n, got)
		}
		parsed, _ = summary.Parse("{/a} {/b} ")
		if got := utf8.RuneCountInString(parsed.Render(payload)); got > atrium.MaxSummary {
			t.Errorf("%d code points", got)
		}
	}
}

// The template for a source and a type is more specific than the one for the source.
func TestTheMostSpecificTemplateWins(t *testing.T) {
	all := summary.New(atrium.SummaryTemplates{{Source: "web", Template: "source"}, {Source: "web", Type: "form", Template: "both"}, {Source: "later", Template: "{{if}}"}})
	for key, want := range map[[2]string]string{
		{"web", "form"}: "both", {"web", "visit"}: "source", {"web", ""}: "source", {"Web", "form"}: "none", {"crm", "form"}: "none", {"later", ""}: "none",
	} {
		got := "none"
		if found := all.Find(key[0], key[1]); found != nil {
			got = found.Render(nil)
		}
		if got != want {
			t.Errorf("%v: %s, want %s", key, got, want)
		}
	}
	if (summary.Templates)(nil).Find("web", "form") != nil {
		t.Error("no templates have one")
	}
}

// A template with the most and the longest pointers, and a payload that makes each of them read all of it, cost
// a bounded number of passes: the work does not depend on how they are nested.
func TestHostilePayloadsAreRenderedInBoundedMemory(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	wide := `{"x":[` + strings.Repeat("0,", 100_000) + `0],"a":` + deep + "}"
	template := strings.Repeat("{/x/99999}{"+strings.Repeat("/a", 15)+"}", atrium.MaxSummaryPointers/2)
	parsed, fault := summary.Parse(template)
	if fault != "" {
		t.Fatal(fault)
	}
	payload := []byte(wide)
	if got := parsed.Render(payload); got != strings.Repeat("0", atrium.MaxSummaryPointers/2) {
		t.Errorf("%q", got)
	}
	if allocs := testing.AllocsPerRun(3, func() { parsed.Render(payload) }); allocs > 1000 {
		t.Errorf("%v allocations", allocs)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{/name} filled {/form/0}", `{"name":"Jane","form":[1]}`)
	f.Add("{/a~1b}{/~0}", `{"a/b":"\u202e","~":null}`)
	f.Add("{{/a}", `{`)
	f.Fuzz(func(t *testing.T, template, payload string) {
		parsed, fault := summary.Parse(template)
		if (fault == "") != (parsed != nil) {
			t.Fatalf("%v, %q", parsed, fault)
		}
		if fault != "" {
			return
		}
		got := parsed.Render([]byte(payload))
		switch n := utf8.RuneCountInString(got); {
		case !utf8.ValidString(got):
			t.Error("the summary is not UTF-8")
		case n > atrium.MaxSummary:
			t.Errorf("%d code points", n)
		case got != strings.Join(strings.Fields(got), " "):
			t.Errorf("white space is not collapsed: %q", got)
		case strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }):
			t.Errorf("a character cannot be seen: %q", got)
		case !strings.Contains(template, "{") && strings.Join(strings.Fields(template), " ") != got && n < atrium.MaxSummary && atrium.Printable(template) == template:
			t.Errorf("the text %q became %q", template, got)
		}
	})
}
