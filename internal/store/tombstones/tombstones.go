// Package tombstones stores what remains of erased entries: enough to recognize a retry of their
// requests, and no content.
//
// A tombstone has HMACs of the idempotency key and of the fingerprint of its entry. The secret
// belongs to the tenant and is exported with the tombstones, so that they work in every database. It
// is not derived from a secret of the database: the export of one tenant would then allow guesses
// about all others.
package tombstones

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// MaxSecrets is the maximum number of secrets of a tenant. An append with an idempotency key looks
// for its HMAC under each of them: with 16, an append of 64 entries took 2.5 times as long as with one.
const MaxSecrets = 4

// SecretSize is the size of a secret and of an HMAC in bytes.
const SecretSize = sha256.Size

// KeyHMAC returns the HMAC of an idempotency key, given as kernel.KeyMatch.
func KeyHMAC(secret, keyMatch []byte) []byte { return sum(secret, "key", keyMatch) }

// RequestHMAC returns the HMAC of the fingerprint of a request.
func RequestHMAC(secret, fingerprint []byte) []byte { return sum(secret, "request", fingerprint) }

func sum(secret []byte, purpose string, data []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(purpose))
	h.Write([]byte{0})
	h.Write(data)
	return h.Sum(nil)
}

// Columns returns the columns of a tombstone t in the order in which Scan reads them. tenant is the SQL
// expression by which the statement names the tenant: with a column of t, a cluster would read the
// shards of all tenants.
func Columns(tenant string) string {
	return "t.entry_id, t.account_id, t.created_at, t.source, t.type, t.key_hmac, t.request_hmac, t.expires_at, t.secret_number, " +
		"(SELECT s.secrets FROM tombstone_secrets s WHERE s.tenant_id = " + tenant + ")"
}

const columnsLen = 10

// Scan reads Columns, starting at column 0. If the stored number of the secret is invalid, Secret is
// nil, which matches no request.
func Scan(r engine.Row, tenant atrium.TenantID) atrium.Tombstone {
	t := atrium.Tombstone{
		EntryID: kernel.IDAt[atrium.EntryID](r, 0), TenantID: tenant, AccountID: kernel.IDAt[atrium.AccountID](r, 1), CreatedAt: atrium.Time(r.Int(2)),
		Source: r.Text(3), Type: r.Text(4), KeyHMAC: r.Bytes(5), RequestHMAC: r.Bytes(6), ExpiresAt: kernel.TimeAt(r, 7),
	}
	if secrets := split(r.Bytes(9)); !r.Null(8) && uint64(r.Int(8)) < uint64(len(secrets)) {
		t.Secret = secrets[r.Int(8)]
	}
	return t
}

// split returns the secrets in a column secrets.
func split(secrets []byte) [][]byte { return slices.Collect(slices.Chunk(secrets, SecretSize)) }

// Batches that find tombstones. After Columns, their rows have the tenant.
var (
	ByID = engine.NewBatch("SELECT "+Columns("batch.tenant_id")+`, t.tenant_id FROM batch JOIN tombstones t
		ON t.tenant_id = batch.tenant_id AND t.entry_id = batch.id`, "tenant_id bytea", "id bytea")
	ByKey = engine.NewBatch("SELECT "+Columns("batch.tenant_id")+`, t.tenant_id FROM batch JOIN tombstones t
		ON t.tenant_id = batch.tenant_id AND t.key_hmac = batch.key_hmac`, "tenant_id bytea", "key_hmac bytea")
)

var insert = engine.NewBatch(`INSERT INTO tombstones (tenant_id, entry_id, account_id, created_at, source, type, secret_number, key_hmac, request_hmac, expires_at)
	SELECT batch.tenant_id, entry_id, account_id, created_at, source, type, secret_number, key_hmac, request_hmac, expires_at
	FROM batch WHERE true ON CONFLICT DO NOTHING RETURNING entry_id`,
	"tenant_id bytea", "entry_id bytea", "account_id bytea", "created_at bigint", "source text", "type text",
	"secret_number bigint", "key_hmac bytea", "request_hmac bytea", "expires_at bigint")

// Insert stores tombstones of one tenant, and calls inserted for each that was new. The others have
// the identifier or the key of a stored one. AddSecrets must have stored their secrets: Insert
// returns an error if one is missing.
func Insert(tx engine.Tx, tenant atrium.TenantID, all []*atrium.Tombstone, inserted func(atrium.EntryID)) error {
	secrets, err := Secrets(tx, tenant)
	if err != nil {
		return fmt.Errorf("find the secrets of tombstones: %w", err)
	}
	rows := make([]engine.Args, len(all))
	for i, t := range all {
		var number any
		if t.Secret != nil {
			n := slices.IndexFunc(secrets, func(s []byte) bool { return bytes.Equal(s, t.Secret) })
			if n < 0 {
				return fmt.Errorf("store tombstones: the secret of %s is not stored", t.EntryID)
			}
			number = int64(n)
		}
		rows[i] = engine.Args{
			kernel.IDArg(tenant), kernel.IDArg(t.EntryID), kernel.IDArg(t.AccountID), int64(t.CreatedAt), t.Source, t.Type,
			number, t.KeyHMAC, t.RequestHMAC, kernel.NullableTime(t.ExpiresAt),
		}
	}
	if _, err := tx.Batch(insert, rows, func(r engine.Row) error {
		inserted(kernel.IDAt[atrium.EntryID](r, 0))
		return nil
	}); err != nil {
		return fmt.Errorf("store tombstones: %w", err)
	}
	return nil
}

// An Erased is an entry that is deleted.
type Erased struct {
	atrium.Tombstone        // without HMACs and secret
	KeyMatch         []byte // of its idempotency key; nil for none
	Fingerprint      []byte
}

// Write stores the tombstones of entries of one tenant, which the transaction deletes.
func Write(tx engine.Tx, tenant atrium.TenantID, erased []Erased) error {
	if len(erased) == 0 {
		return nil
	}
	secret, err := secretOf(tx, tenant)
	if err != nil {
		return fmt.Errorf("find the secret of tombstones: %w", err)
	}
	all := make([]*atrium.Tombstone, len(erased))
	for i := range erased {
		e := &erased[i]
		if all[i] = &e.Tombstone; e.KeyMatch != nil {
			e.Secret, e.KeyHMAC, e.RequestHMAC = secret, KeyHMAC(secret, e.KeyMatch), RequestHMAC(secret, e.Fingerprint)
		}
	}
	return Insert(tx, tenant, all, func(atrium.EntryID) {})
}

// secretOf returns the secret of the tenant for new tombstones, and creates it if there is none.
func secretOf(tx engine.Tx, tenant atrium.TenantID) (secret []byte, err error) {
	secrets, err := Secrets(tx, tenant)
	if err != nil {
		return nil, err
	}
	if len(secrets) > 0 {
		return secrets[0], nil
	}
	fresh := make([]byte, SecretSize)
	_, _ = rand.Read(fresh) // never fails: crypto/rand crashes the process instead
	if err := addSecrets(tx, tenant, func(stored [][]byte) [][]byte {
		if len(stored) > 0 { // by a concurrent transaction
			fresh = stored[0]
			return nil
		}
		return [][]byte{fresh}
	}); err != nil {
		return nil, err
	}
	return fresh, nil
}

// ErrTooManySecrets says that a tenant would have more than MaxSecrets.
var ErrTooManySecrets = errors.New("too many secrets")

// AddSecrets stores secrets of a tenant, unless they are stored already. It returns ErrTooManySecrets
// if there would be more than MaxSecrets.
func AddSecrets(tx engine.Tx, tenant atrium.TenantID, secrets [][]byte) error {
	if len(secrets) == 0 {
		return nil
	}
	stored, err := Secrets(tx, tenant)
	if err != nil || len(missing(stored, secrets)) == 0 {
		return err
	}
	return addSecrets(tx, tenant, func(stored [][]byte) [][]byte { return missing(stored, secrets) })
}

// missing returns the secrets that are not stored, each once.
func missing(stored, secrets [][]byte) (rest [][]byte) {
	for _, s := range secrets {
		if !contains(stored, s) && !contains(rest, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// addSecrets locks the secrets of a tenant and adds those that more returns.
func addSecrets(tx engine.Tx, tenant atrium.TenantID, more func(stored [][]byte) [][]byte) error {
	if _, err := tx.Exec("INSERT INTO tombstone_secrets (tenant_id, secrets) VALUES ($1, $2) ON CONFLICT DO NOTHING", kernel.IDArg(tenant), []byte{}); err != nil {
		return err
	}
	var stored [][]byte
	if err := tx.Lock("SELECT secrets FROM tombstone_secrets WHERE tenant_id = $1", engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		stored = split(r.Bytes(0))
		return nil
	}); err != nil {
		return err
	}
	added := more(stored)
	if len(stored)+len(added) > MaxSecrets {
		return ErrTooManySecrets
	}
	if len(added) == 0 {
		return nil
	}
	_, err := tx.Exec("UPDATE tombstone_secrets SET secrets = $1 WHERE tenant_id = $2", slices.Concat(slices.Concat(stored, added)...), kernel.IDArg(tenant))
	return err
}

// Secrets returns the secrets of a tenant.
func Secrets(tx engine.Tx, tenant atrium.TenantID) (secrets [][]byte, err error) {
	err = tx.Query("SELECT secrets FROM tombstone_secrets WHERE tenant_id = $1", engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		secrets = split(r.Bytes(0))
		return nil
	})
	return secrets, err
}
