package canonical

import "testing"

func TestAPartOfAnyStringIsFoundInEveryCaseAndScript(t *testing.T) {
	const payload = `{"note":"Call Ann@Example.com or JÜRGEN.","\u0050hone":{"x":["0049 30 1234",5678]}}`
	for part, want := range map[string]bool{
		"ann@example.com": true, "ANN@": true, "jürgen": true, "Call Ann@Example.com or JÜRGEN.": true, "phone": true, "30 123": true,
		"5678": false, "ann @": false, "nn@example.com.": false,
	} {
		if got := ContainsText([]byte(payload), Name(part)); got != want {
			t.Errorf("%q: %t", part, got)
		}
	}
	if ContainsText([]byte(`{"a":"x"`), "y") || ContainsText(nil, "y") {
		t.Error("found in something that is not JSON")
	}
}
