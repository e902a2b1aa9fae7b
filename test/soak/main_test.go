// Package soak runs the service for a long time under all kinds of load at once: all
// operations of both APIs from many clients of several tenants, hostile requests, and
// random faults. At the end, an audit compares the stored data with the responses, and
// checks every response and the growth of the processes.
//
//	make soak SOAK=1h
//
// Phases with and without faults alternate. Without a fault, no request may fail. During a
// fault, a request may get 503 or no response, and is retried.
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

// Whatever the duration and the faults, nothing acknowledged is lost, duplicated or
// altered, no request causes a failure, no tenant sees another's data, and the processes
// do not grow.
func TestSoakLosesDuplicatesAndLeaksNothing(t *testing.T) {
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
