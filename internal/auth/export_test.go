package auth

import (
	"crypto/subtle"
	"sync/atomic"
)

// What tests see of the package's inside.

const (
	MaxCached   = maxCached
	LanePause   = lanePause
	LaneKeys    = laneKeys
	LaneWaiting = laneWaiting
)

var Checksum = checksum

var compared atomic.Int64

func init() {
	compare = func(x, y []byte) int {
		compared.Add(1)
		return subtle.ConstantTimeCompare(x, y)
	}
}

// Compared returns how many hashes were compared so far, in constant time.
func Compared() int { return int(compared.Load()) }
