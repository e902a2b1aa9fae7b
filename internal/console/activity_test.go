package console

import (
	"slices"
	"testing"
)

func TestSentencesNameAccounts(t *testing.T) {
	const a, b = "account_01kzdemo00000000000000000a", "account_01kzdemo00000000000000000b"
	for sentence, want := range map[string][]phrase{
		"No account.":                   {{Text: "No account."}},
		"It chose " + a + ".":           {{Text: "It chose "}, {Account: a}, {Text: "."}},
		a + b + " " + a + ", then " + b: {{Text: a + b + " "}, {Account: a}, {Text: ", then "}, {Account: b}, {Text: ""}},
	} {
		if got := phrases(sentence); !slices.Equal(got, want) {
			t.Errorf("%q has the phrases %q, want %q", sentence, got, want)
		}
	}
}
