package jsonpatch_test

import (
	"fmt"

	"atrium/internal/jsonpatch"
)

func ExampleDiff() {
	from := []byte(`{"title":"Welcome","tags":["new","draft","public"],"theme":{"color":"blue","font":"serif"}}`)
	to := []byte(`{"title":"Welcome","tags":["new","public"],"theme":{"color":"green","font":"serif"}}`)
	patch, err := jsonpatch.Diff(from, to)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", patch)
	// Output:
	// [{"op":"remove","path":"/tags/1"},{"op":"replace","path":"/theme/color","value":"green"}]
}
