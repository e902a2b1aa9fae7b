// Package crash tests forced failures of the service and its database: the tests kill
// processes, cut power and connections, and fill the disk under load, and then verify that
// everything acknowledged is stored.
//
// Clients record their requests and the responses in a ledger. An audit compares it with
// the contents of the closed database.
package crash

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"atrium/internal/cli"
	"atrium/internal/store/engine/postgrestest"
)

var (
	rounds = flag.Int("rounds", 10, "how many times the server is killed under load")
	// Each kill takes some seconds, until the leases of the server before end.
	kills   = flag.Int("kills", 3, "how many times a server that delivers events is killed")
	entries = flag.Int("entries", 200, "how many entries are about to be acknowledged before each of these kills")
	pause   = flag.Duration("pause", 6*time.Second, "how long a database server hangs under load")
	seed    = flag.Uint64("seed", 0, "seed of all random choices; 0 takes that of ATRIUM_TEST_SEED, or one from the clock")
)

// serverVariable makes this binary run the server instead of its tests.
const serverVariable = "ATRIUM_CRASH_TEST_SERVER"

func TestMain(m *testing.M) {
	if url := os.Getenv(countVariable); url != "" {
		if err := countAhead(url); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	if os.Getenv(serverVariable) != "" {
		if dir := os.Getenv(diskVariable); dir != "" {
			if err := failingDisk(dir); err != nil {
				panic(err)
			}
		}
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(postgrestest.Main(m))
}

// random returns the source of a test's random choices. A failed test logs the seed, but
// the scheduling of the server is not reproducible.
func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s, _ = strconv.ParseUint(os.Getenv("ATRIUM_TEST_SEED"), 10, 64)
	}
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}
