//go:build citus

package store_test

import (
	"os"
	"testing"

	"atrium/internal/store/storetest"
)

func TestCitusKeepsEveryGuarantee(t *testing.T) {
	address := os.Getenv("CITUS_URL")
	if address == "" {
		t.Fatal("CITUS_URL must be the address of a database on a Citus coordinator: make test-citus CITUS_URL=postgres://…")
	}
	storetest.Run(t, clusterEngine(address, true))
}
