// Package crash holds the tests that end the service by force: they kill its
// process, cut its power and fill its disk under load, and then count what it
// had acknowledged.
//
// Clients note in a ledger what they sent and what they were told; an audit
// compares that with what a database file holds when nobody has it open.
package crash

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"atrium/internal/cli"
)

var (
	rounds = flag.Int("rounds", 20, "how many times the server is killed under load")
	seed   = flag.Uint64("seed", 0, "seed of all random choices; 0 takes one from the clock")
)

// serverVariable makes this binary the server instead of its test.
const serverVariable = "ATRIUM_CRASH_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// random returns the source of a test's random choices. A failed test tells the
// seed; what the threads of the server make of it is not repeatable.
func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}
