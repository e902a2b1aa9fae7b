package limit_test

import (
	"context"
	"fmt"

	"atrium/internal/limit"
)

// A tenant cannot use up the quota, whatever it requests.
func ExampleQuota() {
	q := limit.NewQuota[string](600)
	fmt.Println(q.Take("tenant a", 400)) // more than would remain
	fmt.Println(q.Take("tenant a", 300))
	fmt.Println(q.Take("tenant b", 200)) // more than would remain
	fmt.Println(q.Take("tenant b", 150))
	q.Return("tenant a", 300)
	fmt.Println(q.Take("tenant b", 75))
	// Output:
	// false
	// true
	// false
	// true
	// true
}

// A tenant alone gets half of the slots.
func ExampleSemaphore() {
	s := limit.NewSemaphore[string](limit.SemaphoreBounds{Slots: 4})
	ctx := context.Background()
	for range 3 {
		fmt.Println("tenant a:", s.Acquire(ctx, "tenant a"))
	}
	fmt.Println("tenant b:", s.Do(ctx, "tenant b", func() error {
		fmt.Println("holders:", s.Held())
		return nil
	}))
	// Output:
	// tenant a: <nil>
	// tenant a: <nil>
	// tenant a: too much is in flight
	// holders: 3
	// tenant b: <nil>
}
