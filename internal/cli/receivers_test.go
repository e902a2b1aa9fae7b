package cli

import "testing"

func TestDiscardOfAPartOfTheQuarantineSaysHowToGoOn(t *testing.T) {
	for response, want := range map[string]string{
		`{"discarded":2000,"hasMore":true}`: "There are more: to continue, repeat the command.",
		`{"discarded":3,"hasMore":false}`:   "",
	} {
		if have := restToDiscard(t.Context(), nil, effect{response: []byte(response)}); have != want {
			t.Errorf("%s: %q, want %q", response, have, want)
		}
	}
}
