package atrium

// A Tombstone is what remains of an erased entry: its receipt, so that a retry of its request is
// still a replay, and no content. The idempotency key and the request are stored as HMAC-SHA256
// under a secret of the tenant. Guesses of a key can be tested only with
// the secret.
type Tombstone struct {
	EntryID   EntryID
	TenantID  TenantID
	AccountID AccountID // that the receipt of the entry names
	CreatedAt Time
	Source    string
	Type      string

	// The HMACs of the idempotency key and of the fingerprint of the request, and their secret, 32
	// bytes each; nil if the entry had no key.
	Secret, KeyHMAC, RequestHMAC []byte

	ExpiresAt *Time // when it may be deleted; nil for never
}

// Receipt returns the receipt of the erased entry.
func (t *Tombstone) Receipt() Receipt {
	return Receipt{EntryID: t.EntryID, AccountID: t.AccountID, CreatedAt: t.CreatedAt, Source: t.Source, Type: t.Type}
}
