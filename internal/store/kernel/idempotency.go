package kernel

import (
	"crypto/sha256"

	"atrium"
)

// The index of idempotency keys has a key of up to shortKey bytes as a whole, and of a longer
// one the first keyPrefix bytes and so much of its SHA-256 that it has longKey bytes, so that it
// equals no short one. Most senders number or date their keys. An index in that order is
// faster than one of hashes.
const (
	shortKey  = 32
	longKey   = 33
	keyPrefix = 16
)

// KeyMatch returns an idempotency key as the index has it.
func KeyMatch(key string) []byte {
	if len(key) <= shortKey {
		return []byte(key)
	}
	sum := sha256.Sum256([]byte(key))
	return append([]byte(key[:keyPrefix]), sum[:longKey-keyPrefix]...)
}

// KeyReused is the error for an idempotency key that another request had.
func KeyReused() error {
	return atrium.Errorf(atrium.CodeIdempotencyKeyReused, "The idempotency key belongs to an earlier request that was not the same as this one.")
}
