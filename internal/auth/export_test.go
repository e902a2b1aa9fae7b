package auth

import (
	"crypto/subtle"
	"sync/atomic"
)

// Internals for tests.

const (
	MaxCached    = maxCached
	BatchPause   = batchPause
	MaxBatchKeys = maxBatchKeys
	MaxWaiting   = maxWaiting
)

var Checksum = checksum

var compared atomic.Int64

func init() {
	compare = func(x, y []byte) int {
		compared.Add(1)
		return subtle.ConstantTimeCompare(x, y)
	}
}

// Compared returns the number of constant-time hash comparisons so far.
func Compared() int { return int(compared.Load()) }
