// Package soak runs the service for long under everything at once: all operations of
// both APIs from many clients of several tenants, hostile requests beside them, and
// faults at random. An audit at the end compares what the clients were told with what
// is stored, and judges every answer, and the growth of the processes.
//
//	make soak SOAK=1h
//
// Phases with a fault and quiet ones take turns. In a quiet phase nothing may fail; with
// a fault a request may be answered 503, or not at all, and then it is sent again.
package soak

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"atrium/test/nodes"
)

var (
	length = flag.Duration("soak", 15*time.Second, "how long the service is under load, on each engine")
	seed   = flag.Uint64("seed", 0, "seed of the random choices; 0 takes that of ATRIUM_TEST_SEED, or one from the clock")
	out    = flag.String("report", "", "folder that gets the report of each engine as JSON; empty for none")
)

func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }

// However long the service is under load and whatever fails meanwhile, nothing that it
// acknowledged is lost, doubled or altered, no request of a client makes it fail, no
// tenant sees another's data, and its processes do not grow.
func TestSoakLosesDoublesAndLeaksNothing(t *testing.T) {
	if *seed == 0 {
		*seed, _ = strconv.ParseUint(os.Getenv("ATRIUM_TEST_SEED"), 10, 64)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	for i, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(*seed, uint64(i)))
			s := newSoak(t, engine, rng)
			s.run(*length)
			r := s.audit()
			t.Logf("\n%s", r)
			if *out != "" {
				if err := os.MkdirAll(*out, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(*out, fmt.Sprintf("soak-%s.json", engine)), r.json(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, fault := range r.Failures {
				t.Error(fault)
			}
		})
	}
}
