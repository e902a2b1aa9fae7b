package console

import "testing"

func TestAPageNamesItsEmptyLists(t *testing.T) {
	full := node{Children: []node{{}}}
	for want, parts := range map[string][]part{
		"":                                 {{Title: "Actions", Tree: full}},
		"actions":                          {{Title: "Actions"}, {Title: "Scripts", Tree: full}},
		"actions or footer links":          {{Title: "Actions"}, {Title: "Scripts", Tree: full}, {Title: "Footer links"}},
		"actions, scripts or footer links": {{Title: "Actions"}, {Title: "Scripts"}, {Title: "Footer links"}},
	} {
		if got := (sitePagePage{Parts: parts}).EmptyParts(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
