package canonical_test

import (
	"bytes"
	"fmt"

	"atrium"
	"atrium/internal/canonical"
)

func ExampleDomain() {
	for _, s := range []string{"https://www.Acme.example/about", "jane@acme.example", "bücher.example:443", "Not a host"} {
		fmt.Println(canonical.Domain(s))
	}
	// Output:
	// acme.example
	// acme.example
	// xn--bcher-kva.example
	// not a host
}

// A retry may encode the same payload differently.
func ExampleFingerprint() {
	for _, payload := range []string{`{"a":1,"b":[2]}`, `{ "b": [2.0], "a": 10e-1 }`, `{"a":"1","b":[2]}`} {
		first, _ := canonical.Fingerprint(atrium.Submission{Source: "crm", Payload: []byte(`{"a":1,"b":[2]}`)})
		retry, _ := canonical.Fingerprint(atrium.Submission{Source: "crm", Payload: []byte(payload)})
		fmt.Println(bytes.Equal(first, retry))
	}
	// Output:
	// true
	// true
	// false
}
