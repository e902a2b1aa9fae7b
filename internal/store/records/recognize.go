package records

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Recognition is how an import recognizes a prospect that has no identifier: which values its identifier is derived from.
type Recognition string

// The ways to recognize a prospect.
const (
	ByIdentifier Recognition = ""       // it has one, or is always new
	ByEmail      Recognition = "email"  // which it must have; case does not matter
	ByValues     Recognition = "values" // all values except links and times
)

// A Recognizer derives the identifiers of prospects from their values with HMAC-SHA256 (RFC 2104). The key is a secret of the
// tenant: identifiers stay in the audit log after prospects are erased, and without the secret, nobody can test guesses of their
// values. It is safe for concurrent use.
type Recognizer struct{ secret []byte }

// recognitionSecretSize is the size of a secret in bytes, that of the hash (RFC 2104 section 3).
const recognitionSecretSize = sha256.Size

// Recognizer returns the Recognizer of the tenant of a change. It stores the tenant's secret if there is none.
func (s *Store) Recognizer(ctx context.Context, c atrium.Change) (*Recognizer, error) {
	secret, err := recognitionSecret(s.db.OutsideTx(ctx), c.TenantID)
	if err == nil && secret == nil {
		secret, _, err = kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) ([]byte, error) {
			// A concurrent import may have stored another one: all use the one that is stored.
			if _, err := tx.Exec("INSERT INTO prospect_secrets (tenant_id, secret) VALUES ($1, $2) ON CONFLICT DO NOTHING",
				kernel.IDArg(c.TenantID), newRecognitionSecret()); err != nil {
				return nil, err
			}
			return recognitionSecret(tx.Query, c.TenantID)
		})
	}
	return newRecognizer(secret, err)
}

// Recognizer returns a Recognizer with which Import returns what it would with that of the store. If the tenant has no secret,
// no stored prospect was recognized by it, so any secret will do.
func (t *Trial) Recognizer(ctx context.Context) (*Recognizer, error) {
	secret, err := recognitionSecret(t.store.db.OutsideTx(ctx), t.tenant)
	if err == nil && secret == nil {
		secret = newRecognitionSecret()
	}
	return newRecognizer(secret, err)
}

func newRecognizer(secret []byte, err error) (*Recognizer, error) {
	if err == nil && len(secret) != recognitionSecretSize {
		err = fmt.Errorf("it has %d bytes", len(secret))
	}
	if err != nil {
		return nil, fmt.Errorf("read the secret of the identifiers of prospects: %w", err)
	}
	return &Recognizer{secret}, nil
}

func newRecognitionSecret() []byte {
	secret := make([]byte, recognitionSecretSize)
	_, _ = rand.Read(secret) // never fails: crypto/rand crashes the process instead
	return secret
}

// recognitionSecret returns the secret of a tenant, nil for none.
func recognitionSecret(query kernel.QueryFunc, tenant atrium.TenantID) (secret []byte, err error) {
	err = query("SELECT secret FROM prospect_secrets WHERE tenant_id = $1", engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		secret = r.Bytes(0)
		return nil
	})
	return secret, err
}

// Recognize sets the identifier of a prospect that is recognized by its values.
func (r *Recognizer) Recognize(item Import) {
	if item.Recognition == ByIdentifier {
		return
	}
	p := item.Record.(*atrium.LinkedProspect)
	h := hmac.New(sha256.New, r.secret)
	if item.Recognition == ByEmail {
		fmt.Fprintf(h, "email %s", strings.ToLower(*p.Email))
	} else {
		h.Write([]byte("values "))
		for _, value := range []*string{p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL} {
			if value == nil {
				value = new(string)
			}
			fmt.Fprintf(h, "%d %s", len(*value), *value)
		}
	}
	p.ID = atrium.DerivedID[atrium.ProspectID](h.Sum(nil))
}
