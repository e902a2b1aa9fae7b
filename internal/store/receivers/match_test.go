package receivers

import (
	"testing"

	"atrium"
)

// What matches a text as a whole also has it as a part, and nothing in a delivery makes the search panic.
func FuzzMatchesPartsOfWhatItMatches(f *testing.F) {
	for _, body := range []string{
		`{"to":"jane@example.com"}`, `{"to":"jane@example.com"`, `to=jane%40example.com`, `payload=%7B%22to%22%3A%22jane%40example.com%22%7D`, "{\"\xff\":\"JANE@example.com\"}", `jane@example.com`, ``,
	} {
		f.Add([]byte(body), "a=jane%40example.com", "application/x-www-form-urlencoded", "Jane@Example.com")
		f.Add([]byte(body), "%zz", "application/json", "jane@example.com")
	}
	f.Fuzz(func(t *testing.T, body []byte, query, kind, text string) {
		d := &atrium.QuarantinedDelivery{Headers: []atrium.Header{{Name: "content-type", Value: kind}}, Query: query, Body: body}
		whole := NewMatcher(&atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: text}})
		part := NewMatcher(&atrium.ErasureRequest{Rule: atrium.ErasureRule{TextContains: text}})
		if whole != nil && whole.matches(d) && !part.matches(d) {
			t.Errorf("%q matches as a whole and not as a part", text)
		}
	})
}
