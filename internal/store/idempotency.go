package store

import (
	"atrium"
	"crypto/sha256"
)

// A key as the index has it: all of it up to shortKey bytes, and else its first
// keyPrefix bytes and enough of its SHA-256 to make longKey in all, so that no
// short one can be equal. Most senders number their entries or date them, and
// an index that keeps that order stores them at more than the rate of one that
// hashes them.
const (
	shortKey  = 32
	longKey   = 33
	keyPrefix = 16
)

func keyMatch(key string) []byte {
	if len(key) <= shortKey {
		return []byte(key)
	}
	sum := sha256.Sum256([]byte(key))
	return append([]byte(key[:keyPrefix]), sum[:longKey-keyPrefix]...)
}

// reused is the error for an idempotency key that another request had.
func reused() error {
	return atrium.Errorf(atrium.CodeIdempotencyKeyReused, "The idempotency key belongs to an earlier request that was not the same as this one.")
}
