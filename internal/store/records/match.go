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

// A MatchBy is how an import matches a prospect that has no identifier: which values its identifier is derived from.
type MatchBy string

// The ways to match a prospect.
const (
	ByIdentifier MatchBy = ""       // it has one, or is always new
	ByEmail      MatchBy = "email"  // which it must have; case does not matter
	ByValues     MatchBy = "values" // all values except links and times
)

// A Matcher derives the identifiers of prospects from their values with HMAC-SHA256 (RFC 2104). The key is a secret of the
// tenant: identifiers stay in the audit log after prospects are erased, and without the secret they cannot be tested against
// guesses of the values. It is safe for concurrent use.
type Matcher struct{ secret []byte }

// matchSecretSize is the size of a secret in bytes, that of the hash (RFC 2104 section 3).
const matchSecretSize = sha256.Size

// Matcher returns the Matcher of the tenant of c. It stores the tenant's secret if there is none.
func (s *Store) Matcher(ctx context.Context, c atrium.Change) (*Matcher, error) {
	secret, err := matchSecret(s.db.OutsideTx(ctx), c.TenantID)
	if err == nil && secret == nil {
		secret, _, err = kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) ([]byte, error) {
			// A concurrent import may have stored another one: all use the one that is stored.
			if _, err := tx.Exec("INSERT INTO prospect_secrets (tenant_id, secret) VALUES ($1, $2) ON CONFLICT DO NOTHING",
				kernel.IDArg(c.TenantID), newMatchSecret()); err != nil {
				return nil, err
			}
			return matchSecret(tx.Query, c.TenantID)
		})
	}
	return newMatcher(secret, err)
}

// Matcher returns a Matcher whose identifiers match as in an import. If the tenant has no secret,
// no stored prospect was matched by it, so any secret will do.
func (t *Trial) Matcher(ctx context.Context) (*Matcher, error) {
	secret, err := matchSecret(t.store.db.OutsideTx(ctx), t.tenant)
	if err == nil && secret == nil {
		secret = newMatchSecret()
	}
	return newMatcher(secret, err)
}

func newMatcher(secret []byte, err error) (*Matcher, error) {
	if err == nil && len(secret) != matchSecretSize {
		err = fmt.Errorf("it has %d bytes instead of %d", len(secret), matchSecretSize)
	}
	if err != nil {
		return nil, fmt.Errorf("read the tenant's secret for identifiers of prospects: %w", err)
	}
	return &Matcher{secret}, nil
}

func newMatchSecret() []byte {
	secret := make([]byte, matchSecretSize)
	_, _ = rand.Read(secret) // never fails: crypto/rand crashes the process instead
	return secret
}

// matchSecret returns the secret of a tenant, nil for none.
func matchSecret(query kernel.QueryFunc, tenant atrium.TenantID) (secret []byte, err error) {
	err = query("SELECT secret FROM prospect_secrets WHERE tenant_id = $1", engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		secret = r.Bytes(0)
		return nil
	})
	return secret, err
}

// SetID sets the identifier of a prospect that is matched by its values.
func (m *Matcher) SetID(item Import) {
	if item.MatchBy == ByIdentifier {
		return
	}
	p := item.Record.(*atrium.LinkedProspect)
	h := hmac.New(sha256.New, m.secret)
	if item.MatchBy == ByEmail {
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
