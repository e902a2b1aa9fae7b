package console

import (
	"slices"
	"testing"
)

func TestSentencesNameAccountsAndReceivers(t *testing.T) {
	const a, b, receiver = "account_01kzdemo00000000000000000a", "account_01kzdemo00000000000000000b", "receiver_01kzdemo00000000000000000a"
	for sentence, want := range map[string][]phrase{
		"No account.":                   {{Text: "No account."}},
		receiver + " made it.":          {{}, {Receiver: receiver}, {Text: " made it."}},
		"It chose " + a + ".":           {{Text: "It chose "}, {Account: a}, {Text: "."}},
		a + b + " " + a + ", then " + b: {{Text: a + b + " "}, {Account: a}, {Text: ", then "}, {Account: b}, {Text: ""}},
	} {
		if got := phrases(sentence); !slices.Equal(got, want) {
			t.Errorf("%q has the phrases %q, want %q", sentence, got, want)
		}
	}
}
