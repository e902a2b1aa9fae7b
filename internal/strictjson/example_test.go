package strictjson_test

import (
	"fmt"

	"atrium"
	"atrium/internal/strictjson"
)

// All faults of a request are reported together.
func Example() {
	o, err := strictjson.Parse([]byte(`{"name": "", "limit": 1e3, "sort": "name"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	o.Text("name", strictjson.Required, func(s string) string { return atrium.CheckText(s, 1, atrium.MaxName) })
	o.Text("domain", strictjson.Required, atrium.CheckDomain)
	o.Integer("limit", 1, 100)
	o.RejectUnknown()
	for _, f := range o.Faults() {
		fmt.Println(f.Where, f.Detail)
	}
	// Output:
	// /name must be 1 to 255 characters long
	// /domain is required
	// /limit must be a whole number from 1 to 100
	// /sort is not a known field
}

// The value of a member is returned exactly as the client sent it.
func ExampleObject_Value() {
	o, err := strictjson.Parse([]byte(`{"payload": {"price": 1.50, "a": [ ]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", o.Value("payload"))
	fmt.Printf("%s\n", strictjson.Compact(o.Value("payload")))
	// Output:
	// {"price": 1.50, "a": [ ]}
	// {"price":1.50,"a":[]}
}

func ExampleParse() {
	_, err := strictjson.Parse([]byte(`{"a": {"b": 1, "\u0062": 2}}`))
	fmt.Println(err)
	// Output:
	// invalid_request: The request is not valid; see errors for each fault. [pointer "/a/b": duplicates the name of an earlier field]
}
