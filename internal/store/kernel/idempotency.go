package kernel

import (
	"crypto/sha256"

	"atrium"
)

// The index of idempotency keys stores keys of up to shortKey bytes as they are. A longer key is
// stored as its first keyPrefix bytes and a part of its SHA-256, longKey bytes in total, so that
// it never equals a short key. Keeping the prefix is faster than hashing: most clients number or
// date their keys, which keeps inserts close together in the index.
const (
	shortKey  = 32
	longKey   = 33
	keyPrefix = 16
)

// KeyMatch returns the indexed form of an idempotency key, for key_match columns.
func KeyMatch(key string) []byte {
	if len(key) <= shortKey {
		return []byte(key)
	}
	sum := sha256.Sum256([]byte(key))
	return append([]byte(key[:keyPrefix]), sum[:longKey-keyPrefix]...)
}

// KeyReused returns the error for an idempotency key that was used for a different request.
func KeyReused() error {
	return atrium.Errorf(atrium.CodeIdempotencyKeyReused, "The idempotency key was already used by a different request.")
}
