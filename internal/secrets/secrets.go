// Package secrets encrypts the secrets that the database stores and that the server must be able to read
// again, such as the keys that sign webhooks. The keys are in a file outside of the database and its backups.
//
// A sealed value is a version (1 byte), the ID of its key (8 bytes), and the nonce, ciphertext and tag of
// AES-256-GCM. Version, key ID and the place where the value is stored are authenticated, so that a value
// that was moved to another row, tenant or table does not open.
package secrets

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"

	"atrium"
)

// KeyLen is the length of a key in bytes.
const KeyLen = 32

// version is the first byte of a sealed value.
const version = 1

// Overhead is the number of bytes by which a sealed value is longer than the plain one.
const Overhead = headerLen + nonceLen + tagLen

const (
	headerLen = 1 + len(KeyID{})
	nonceLen  = 12
	tagLen    = 16
)

// Errors of Open.
var (
	ErrNoKeys     = errors.New("no key to decrypt secrets: set secrets-key-file")
	ErrUnknownKey = errors.New("the secrets-key-file does not have the key of the secret")
	ErrDamaged    = errors.New("the secret is damaged, or belongs to another row")
)

// A KeyID names a key. It is derived from the key, and reveals nothing about it.
type KeyID [8]byte

// String returns the ID as 16 hexadecimal digits.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// JoinKeyIDs returns IDs as a list for people.
func JoinKeyIDs(ids []KeyID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ", ")
}

// ParseKeyID returns the ID with a text, and whether the text is one.
func ParseKeyID(text string) (id KeyID, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return KeyID(b), true
}

// KeyOf returns the ID of the key that has encrypted a sealed value, and whether the value has the
// form of one.
func KeyOf(sealed []byte) (id KeyID, ok bool) {
	if len(sealed) < Overhead || sealed[0] != version {
		return id, false
	}
	return KeyID(sealed[1:headerLen]), true
}

// A Ref is the place where a value is stored.
type Ref struct {
	Table  string
	Tenant atrium.TenantID
	ID     string // of the row, unique for the table and tenant
}

// RowRef returns the Ref of a row of a table. key has the values of the columns of its primary key after the
// tenant, as they are stored.
func RowRef(table string, tenant atrium.TenantID, key ...[]byte) Ref {
	parts := make([]string, len(key))
	for i, k := range key {
		parts[i] = hex.EncodeToString(k)
	}
	return Ref{table, tenant, strings.Join(parts, "/")}
}

// additional returns the additional data of a value: its header and where it is stored, with a length before
// each text so that different places differ.
func (r Ref) additional(header []byte) []byte {
	data := bytes.Clone(header)
	for _, text := range []string{r.Table, string(r.Tenant), r.ID} {
		data = append(binary.BigEndian.AppendUint64(data, uint64(len(text))), text...)
	}
	return data
}

// A Keyring has the keys of a file. The first one encrypts, and all decrypt. A nil *Keyring has no keys. A
// Keyring is safe for concurrent use.
type Keyring struct {
	keys      []sealingKey // at least one
	onlyOpens atomic.Bool
}

type sealingKey struct {
	id   KeyID
	aead cipher.AEAD
}

// idLabel separates IDs of keys from other uses of HMAC with them.
const idLabel = "atrium secrets: key ID"

// idOf returns the ID of a key.
func idOf(secret []byte) (id KeyID) {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(idLabel)) // never fails
	copy(id[:], mac.Sum(nil))
	return id
}

// newKey returns a key of KeyLen bytes.
func newKey(secret []byte) (sealingKey, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return sealingKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealingKey{idOf(secret), aead}, err
}

// Keys returns the IDs of the keys; the first one encrypts.
func (k *Keyring) Keys() (ids []KeyID) {
	if k == nil {
		return nil
	}
	for _, key := range k.keys {
		ids = append(ids, key.id)
	}
	return ids
}

// Has reports whether the Keyring has a key.
func (k *Keyring) Has(id KeyID) bool { return k.find(id) != nil }

func (k *Keyring) find(id KeyID) *sealingKey {
	if k == nil {
		return nil
	}
	for i := range k.keys {
		if k.keys[i].id == id {
			return &k.keys[i]
		}
	}
	return nil
}

// Current reports whether the key that encrypts has encrypted a sealed value.
func (k *Keyring) Current(sealed []byte) bool {
	id, ok := KeyOf(sealed)
	return ok && k != nil && k.keys[0].id == id
}

// AllowSeal sets whether Seal encrypts, as it does at first. A process whose file lacks a key that others use has
// a wrong file, and others may lack its keys.
func (k *Keyring) AllowSeal(allow bool) {
	if k != nil {
		k.onlyOpens.Store(!allow)
	}
}

// Seal encrypts a value for the place where it is going to be stored. The result differs each time. Without
// keys, or if AllowSeal forbids it, Seal returns Conflict.
func (k *Keyring) Seal(at Ref, plain []byte) ([]byte, error) {
	switch {
	case k == nil:
		return nil, atrium.Errorf(atrium.CodeConflict, "This server cannot store secrets: its setting secrets-key-file is not set. Create the file with atrium secrets add-key, and set it on every server and for commands on the database.")
	case k.onlyOpens.Load():
		return nil, atrium.Errorf(atrium.CodeConflict, "This server cannot store secrets: its secrets-key-file lacks a key of stored ones.")
	}
	sealed := make([]byte, 0, len(plain)+Overhead)
	sealed = append(append(sealed, version), k.keys[0].id[:]...)
	return k.keys[0].aead.Seal(sealed, nil, plain, at.additional(sealed)), nil
}

// Open decrypts a value that Seal has returned for the same place. It returns ErrNoKeys, ErrUnknownKey or
// ErrDamaged if it cannot.
func (k *Keyring) Open(at Ref, sealed []byte) ([]byte, error) {
	if k == nil {
		return nil, ErrNoKeys
	}
	id, ok := KeyOf(sealed)
	if !ok {
		return nil, ErrDamaged
	}
	key := k.find(id)
	if key == nil {
		return nil, ErrUnknownKey
	}
	plain, err := key.aead.Open(nil, nil, sealed[headerLen:], at.additional(sealed[:headerLen]))
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}
