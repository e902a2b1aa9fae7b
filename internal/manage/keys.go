package manage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// A KeyCache caches keys: an *auth.Authenticator.
type KeyCache interface {
	Forget(id atrium.KeyID)
	ForgetTenant(id atrium.TenantID) // all of its keys
}

type key struct {
	KeyID          atrium.KeyID    `json:"keyId"`
	TenantID       atrium.TenantID `json:"tenantId,omitzero"` // absent in operator keys, which only the command line creates
	Name           string          `json:"name"`
	Scopes         atrium.Scopes   `json:"scopes"`
	Origins        []string        `json:"origins,omitzero"`
	CreatedAt      atrium.Time     `json:"createdAt"`
	ExpiresAt      *atrium.Time    `json:"expiresAt,omitzero"`
	RevokedAt      *atrium.Time    `json:"revokedAt,omitzero"`
	PreviousEndsAt *atrium.Time    `json:"previousEndsAt,omitzero"`
	LastUsedAt     *atrium.Time    `json:"lastUsedAt,omitzero"`
	Key            string          `json:"key,omitzero"` // only in the response that creates the secret
}

func newKey(k atrium.APIKey) key {
	return key{k.ID, k.TenantID, k.Name, k.Scopes, k.Origins, k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.PreviousEndsAt, k.LastUsedAt, ""}
}

// keyWithSecret returns a key with its secret, unless an earlier response had it.
func keyWithSecret(k atrium.APIKey, text string, replayed bool) key {
	view := newKey(k)
	if !replayed {
		view.Key = text
	}
	return view
}

// A keyState is a value of the parameter state.
type keyState string

const (
	keyActive  keyState = "active"
	keyExpired keyState = "expired"
	keyRevoked keyState = "revoked"
)

// matches reports whether a key is in the state.
func (s keyState) matches(k *atrium.APIKey, now atrium.Time) bool {
	switch s {
	case keyActive:
		return k.WorksAt(now)
	case keyExpired:
		return k.RevokedAt == nil && !k.WorksAt(now)
	default:
		return k.RevokedAt != nil
	}
}

func (a *API) listKeys(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	state, given := q.Text("state")
	if given && !slices.Contains([]keyState{keyActive, keyExpired, keyRevoked}, keyState(state)) {
		q.Fault("state", "must be one of active, expired, revoked")
	}
	binding := []string{string(who.TenantID), "keys", state}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	now := atrium.At(a.Store.Now())
	var keep func(atrium.APIKey) bool
	if given {
		keep = func(k atrium.APIKey) bool { return keyState(state).matches(&k, now) }
	}
	found, next, err := a.Store.Keys(ctx, who.TenantID, keep, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponseTo(a.Cursors, found, next, limit, newKey, binding), nil
}

// The limits of a key's lifetime and of the grace period of a previous secret.
const (
	maxLife      = 10 * 365 * 24 * time.Hour
	defaultGrace = 24 * time.Hour
	maxGrace     = 30 * 24 * time.Hour
)

func (a *API) createKey(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var k atrium.APIKey
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		k = decodeKey(o, who, a.Store.Now())
	})
	if err != nil {
		return rest.Response{}, err
	}
	if !who.Scopes.MayGrant(k.Scopes) {
		return rest.Response{}, atrium.Errorf(atrium.CodeForbidden, "A key can grant only its own scopes and those of the external and the content API.")
	}
	id, text, hash := auth.NewKey()
	k.ID = id
	k, replayed, err := a.Store.CreateKey(ctx, c, k, hash)
	return rest.Created(keyWithSecret(k, text, replayed), replayed), err
}

func decodeKey(o *strictjson.Object, who auth.Principal, now time.Time) (k atrium.APIKey) {
	k.Name, _ = o.Text("name", strictjson.Required, checkName)
	all := atrium.AllScopes()
	if k.Scopes = atrium.ExternalScopes(); who.TenantID == atrium.OperatorChain {
		all, k.Scopes = atrium.ManageScopes(), atrium.Scopes{atrium.ScopeManage} // the external API needs a tenant
	}
	if given := o.Array("scopes", strictjson.Optional); given != nil {
		k.Scopes = decodeScopes(o, given, all)
	}
	if given := o.Array("origins", strictjson.Optional); given != nil {
		k.Origins = decodeOrigins(o, given)
		if !slices.Contains(k.Scopes, atrium.ScopeContentRead) {
			o.Fault("origins", "requires the scope content:read")
		}
	}
	if seconds := o.Integer("expiresInSeconds", 1, int64(maxLife/time.Second)); seconds > 0 {
		at := atrium.At(now.Add(time.Duration(seconds) * time.Second))
		k.ExpiresAt = &at
	}
	return k
}

func decodeScopes(o *strictjson.Object, array []byte, all atrium.Scopes) (scopes atrium.Scopes) {
	var texts []string
	if err := json.Unmarshal(array, &texts); err != nil || strings.Contains(string(array), "null") {
		o.Fault("scopes", "must be an array of strings")
		return nil
	}
	if len(texts) == 0 {
		o.Fault("scopes", "must not be empty")
	}
	for _, text := range texts {
		if !slices.Contains(all, atrium.Scope(text)) {
			o.Fault("scopes", fmt.Sprintf("must have only these scopes: %s", all))
			return nil
		}
		scopes = append(scopes, atrium.Scope(text))
	}
	slices.Sort(scopes)
	if len(slices.Compact(slices.Clone(scopes))) < len(scopes) {
		o.Fault("scopes", "must not repeat a scope")
	}
	if len(scopes) > 1 && slices.Contains(scopes, atrium.ScopeContentRead) {
		o.Fault("scopes", "must have content:read alone: sites show the key to their visitors")
	}
	if slices.Contains(scopes, atrium.ScopeManageEvents) && !scopes.Has(atrium.ScopeManageRead) {
		o.Fault("scopes", "must have manage:read with manage:events: events contain everything that it reads")
	}
	return scopes
}

func decodeOrigins(o *strictjson.Object, array []byte) (origins []string) {
	var texts []*string
	if err := json.Unmarshal(array, &texts); err != nil || slices.Contains(texts, nil) {
		o.Fault("origins", "must be an array of strings")
		return nil
	}
	if len(texts) > atrium.MaxOrigins {
		o.Fault("origins", fmt.Sprintf("must have at most %d origins", atrium.MaxOrigins))
		return nil
	}
	for _, text := range texts {
		origin, ok := atrium.ParseOrigin(*text)
		if !ok {
			o.Fault("origins", "must have only origins: scheme, host and perhaps port, in lower case and without a path, such as https://www.example.com")
			return nil
		}
		origins = append(origins, origin)
	}
	slices.Sort(origins)
	return slices.Compact(origins)
}

func (a *API) getKey(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.KeyID](r, "key_id")
	if err != nil {
		return rest.Response{}, err
	}
	k, err := a.Store.TenantKey(ctx, who.TenantID, id)
	return rest.Response{Body: newKey(k)}, err
}

// decodeGrace returns how long a replaced secret remains valid.
func decodeGrace(o *strictjson.Object) time.Duration {
	if !o.Has("graceSeconds") {
		return defaultGrace
	}
	return time.Duration(o.Integer("graceSeconds", 0, int64(maxGrace/time.Second))) * time.Second
}

func (a *API) rotateKey(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var grace time.Duration
	c, id, err := rest.DecodeChangeOf[atrium.KeyID](r, who, "key_id", func(o *strictjson.Object) { grace = decodeGrace(o) })
	if err != nil {
		return rest.Response{}, err
	}
	text, hash := auth.NewSecret(id)
	k, _, err := a.Store.RotateKey(ctx, c, id, hash, grace, func(k atrium.APIKey) error {
		if !who.Scopes.MayGrant(k.Scopes) {
			return atrium.Errorf(atrium.CodeForbidden, "The key has scopes that your key lacks, so you cannot rotate it.")
		}
		return r.CheckState(newKey(k))
	})
	if err != nil {
		return rest.Response{}, err
	}
	a.Keys.Forget(id)
	return rest.Response{Body: keyWithSecret(k, text, false), Tagged: true}, nil
}

func (a *API) revokeKey(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.KeyID](r, who, "key_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	k, err := a.Store.RevokeKey(ctx, c, id, func(k atrium.APIKey) error { return r.CheckState(newKey(k)) })
	if err != nil {
		return rest.Response{}, err
	}
	a.Keys.Forget(id)
	return rest.Response{Body: newKey(k), Tagged: true}, nil
}
