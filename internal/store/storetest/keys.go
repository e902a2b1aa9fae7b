package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
)

var keys = []guarantee{
	{"a key is stored with the hash of its secret", keyAsMade},
	{"EachKey returns the same as Key for each key and skips unknown ones", keysTogether},
	{"creating a key of an unknown tenant is NotFound", keyOfNoTenant},
	{"keys are listed by descending identifier, with and without a filter, at any page size", keysListed},
	{"a key of an operator has no tenant", keysOfOperators},
	{"a key of another tenant or of an operator is NotFound", keyOfAnother},
	{"a repeated request with an idempotency key makes one key with one secret", keyMadeOnce},
	{"a failed precondition leaves a key unchanged", keyRefused},
	{"a revoked key keeps the time of its first revocation", revokedOnce},
	{"a key identifier is used once", keyIdentifierOnce},
	{"after a rotation the previous secret is valid for the grace period", secretsRotate},
	{"a revoked or expired key cannot be rotated", endedKeysDoNotRotate},
	{"the last use of a key is stored and never decreases", lastUseIsNoted},
}

func keyAsMade(t *testing.T, e *env) {
	for _, k := range []atrium.APIKey{
		{Name: "plain", Scopes: atrium.ExternalScopes()},
		{Name: strings.Repeat("\U0001f600", atrium.MaxName), Scopes: atrium.Scopes{"pages:read"}, ExpiresAt: pointer(e.clock.instant() + 1000)},
		{Name: "new", Scopes: atrium.Scopes{"some:later", "thing:read"}, ExpiresAt: pointer(atrium.Time(-1000))},
		{Name: "none"},
		{Name: "site", Scopes: atrium.Scopes{atrium.ScopeContentRead}, Origins: []string{"https://example.com", "http://localhost:3000"}},
	} {
		e.clock.step(time.Minute)
		k.ID, k.TenantID = atrium.NewID[atrium.KeyID](), e.tenant
		hash := bytes.Repeat([]byte{0, 255}, 16)
		made, _, err := e.CreateKey(t.Context(), e.change(), k, hash)
		k.CreatedAt = e.clock.instant()
		if err != nil || !reflect.DeepEqual(made, k) {
			t.Fatalf("made %+v, %v, want %+v", made, err, k)
		}
		e.wantKey(t, k, hash, nil)
	}
	_, _, _, err := e.Key(t.Context(), atrium.NewID[atrium.KeyID]())
	wantCode(t, err, atrium.CodeNotFound)
}

// wantKey checks the stored key and its hashes.
func (e *env) wantKey(t tb, want atrium.APIKey, current, previous []byte) {
	t.Helper()
	got, gotCurrent, gotPrevious, err := e.Key(t.Context(), want.ID)
	if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(gotCurrent, current) || !bytes.Equal(gotPrevious, previous) {
		t.Errorf("read %+v with %x and %x, %v, want %+v with %x and %x", got, gotCurrent, gotPrevious, err, want, current, previous)
	}
}

func keysTogether(t *testing.T, e *env) {
	shown := func(k atrium.APIKey, current, previous []byte) string {
		return fmt.Sprintf("%v %x %x", k, current, previous)
	}
	var ids []atrium.KeyID
	want := map[atrium.KeyID]string{}
	for i := range 300 {
		id := atrium.NewID[atrium.KeyID]()
		ids = append(ids, id)
		switch i % 3 {
		case 0:
			want[id] = shown(e.newKey(t, id), secretHash(1), nil)
		case 1:
			e.newKey(t, id)
			k, _, err := e.RotateKey(t.Context(), e.change(), id, secretHash(byte(i)), time.Hour, func(atrium.APIKey) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			want[id] = shown(k, secretHash(byte(i)), secretHash(1))
		}
	}
	got := map[atrium.KeyID]string{}
	each := func(k atrium.APIKey, current, previous []byte) { got[k.ID] = shown(k, current, previous) }
	if err := e.EachKey(t.Context(), nil, each); err != nil || len(got) > 0 {
		t.Fatalf("of none: %v, %v", got, err)
	}
	if err := e.EachKey(t.Context(), ids, each); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got[id] != want[id] {
			t.Errorf("EachKey returned %s, Key %s", got[id], want[id])
		}
	}
}

// secretHash returns a test value for the hash of a secret.
func secretHash(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// newKey stores a key of the tenant.
func (e *env) newKey(t tb, id atrium.KeyID) atrium.APIKey {
	t.Helper()
	k, _, err := e.CreateKey(t.Context(), e.change(), atrium.APIKey{ID: id, Name: "key", Scopes: atrium.ExternalScopes()}, secretHash(1))
	if err != nil {
		t.Fatalf("create a key: %v", err)
	}
	return k
}

func keyOfNoTenant(t *testing.T, e *env) {
	k := atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "key"}
	_, _, err := e.CreateKey(t.Context(), e.as(atrium.NewID[atrium.TenantID]()).change(), k, make([]byte, 32))
	wantCode(t, err, atrium.CodeNotFound)
	_, _, _, err = e.Key(t.Context(), k.ID)
	wantCode(t, err, atrium.CodeNotFound)
}

func keysListed(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	var want []atrium.KeyID
	for range 5 {
		id := atrium.NewID[atrium.KeyID]()
		suffix := []byte(id)[len(id.Prefix()):]
		slices.Reverse(suffix) // not in the order of creation
		id = as[atrium.KeyID](string(suffix))
		want = append(want, e.newKey(t, id).ID)
		them.newKey(t, atrium.NewID[atrium.KeyID]())
	}
	slices.Sort(want)
	slices.Reverse(want)
	for limit := 1; limit <= 6; limit++ {
		if got := e.keyIDs(t, nil, limit); !slices.Equal(got, want) {
			t.Errorf("%d a page: %v, want %v", limit, got, want)
		}
		some := func(k atrium.APIKey) bool { return k.ID != want[1] && k.ID != want[4] }
		if got := e.keyIDs(t, some, limit); !slices.Equal(got, []atrium.KeyID{want[0], want[2], want[3]}) {
			t.Errorf("%d a page of some: %v of %v", limit, got, want)
		}
	}
	if got := e.as(e.newTenant(t)).keyIDs(t, nil, 9); len(got) != 0 {
		t.Errorf("a tenant without keys has %v", got)
	}
}

// keyIDs returns the identifiers of all keys of a list.
func (e *env) keyIDs(t tb, keep func(atrium.APIKey) bool, limit int) (ids []atrium.KeyID) {
	t.Helper()
	var next *atrium.Position
	for pages := 0; pages == 0 || next != nil; pages++ {
		found, after, err := e.Keys(t.Context(), e.tenant, keep, next, limit)
		if err != nil || len(found) > limit {
			t.Fatalf("list keys: %d of %d, %v", len(found), limit, err)
		}
		next = after
		for i := range found {
			if found[i].TenantID != e.tenant && e.tenant != atrium.OperatorChain {
				t.Errorf("%s is of %s", found[i].ID, found[i].TenantID)
			}
			ids = append(ids, found[i].ID)
		}
	}
	return ids
}

func keysOfOperators(t *testing.T, e *env) {
	ops := e.as(atrium.OperatorChain)
	k, other := ops.newKey(t, atrium.NewID[atrium.KeyID]()), e.newKey(t, atrium.NewID[atrium.KeyID]())
	if k.TenantID != "" {
		t.Errorf("an operator's key is of %s", k.TenantID)
	}
	if ids := ops.keyIDs(t, nil, 2); !slices.Contains(ids, k.ID) || slices.Contains(ids, other.ID) {
		t.Errorf("the operators have %v", ids)
	}
	if ids := e.keyIDs(t, nil, 2); !slices.Equal(ids, []atrium.KeyID{other.ID}) {
		t.Errorf("the tenant has %v", ids)
	}
	k.PreviousEndsAt = pointer(e.clock.instant() + 1000)
	if got, _, err := ops.RotateKey(t.Context(), ops.change(), k.ID, secretHash(2), time.Millisecond, accept); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("rotated %+v, %v, want %+v", got, err, k)
	}
	k.RevokedAt = pointer(e.clock.instant())
	if got, err := ops.RevokeKey(t.Context(), ops.change(), k.ID, accept); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("revoked %+v, %v, want %+v", got, err, k)
	}
	if got, err := ops.TenantKey(t.Context(), atrium.OperatorChain, k.ID); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("read %+v, %v, want %+v", got, err, k)
	}
	e.wantKey(t, k, secretHash(2), secretHash(1))
}

func keyOfAnother(t *testing.T, e *env) {
	for _, owner := range []*env{e.as(e.newTenant(t)), e.as(atrium.OperatorChain)} {
		k := owner.newKey(t, atrium.NewID[atrium.KeyID]())
		_, err := e.TenantKey(t.Context(), e.tenant, k.ID)
		wantCode(t, err, atrium.CodeNotFound)
		_, _, err = e.RotateKey(t.Context(), e.change(), k.ID, secretHash(2), time.Hour, accept)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = e.RevokeKey(t.Context(), e.change(), k.ID, accept)
		wantCode(t, err, atrium.CodeNotFound)
		e.wantKey(t, k, secretHash(1), nil)
	}
}

func keyMadeOnce(t *testing.T, e *env) {
	first, replayed, err := e.CreateKey(t.Context(), e.keyed("once", "key"), atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "key", Scopes: atrium.ManageScopes()}, secretHash(1))
	if err != nil || replayed {
		t.Fatalf("made %+v, %v, %v", first, replayed, err)
	}
	again, replayed, err := e.CreateKey(t.Context(), e.keyed("once", "key"), atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "key", Scopes: atrium.ManageScopes()}, secretHash(2))
	if err != nil || !replayed || !reflect.DeepEqual(again, first) {
		t.Errorf("the same request made %+v, %v, %v, want %+v", again, replayed, err, first)
	}
	e.wantKey(t, first, secretHash(1), nil)
	for i := range 2 {
		first.PreviousEndsAt = pointer(atrium.At(e.clock.now().Add(time.Hour)))
		got, replayed, err := e.RotateKey(t.Context(), e.keyed("rotated", "key"), first.ID, secretHash(byte(i+2)), time.Hour, accept)
		if err != nil || replayed != (i == 1) || !reflect.DeepEqual(got, first) {
			t.Errorf("rotated %+v, %v, %v, want %+v", got, replayed, err, first)
		}
		e.wantKey(t, first, secretHash(2), secretHash(1))
	}
}

func keyRefused(t *testing.T, e *env) {
	k := e.newKey(t, atrium.NewID[atrium.KeyID]())
	no := atrium.Errorf(atrium.CodeForbidden, "no")
	refuse := func(given atrium.APIKey) error {
		if !reflect.DeepEqual(given, k) {
			t.Errorf("check was given %+v, want %+v", given, k)
		}
		return no
	}
	if _, _, err := e.RotateKey(t.Context(), e.change(), k.ID, secretHash(2), time.Hour, refuse); !errors.Is(err, no) {
		t.Errorf("rotate: %v", err)
	}
	if _, err := e.RevokeKey(t.Context(), e.change(), k.ID, refuse); !errors.Is(err, no) {
		t.Errorf("revoke: %v", err)
	}
	e.wantKey(t, k, secretHash(1), nil)
}

func revokedOnce(t *testing.T, e *env) {
	k, other := e.newKey(t, atrium.NewID[atrium.KeyID]()), e.newKey(t, atrium.NewID[atrium.KeyID]())
	if !k.WorksAt(e.clock.instant()) {
		t.Error("a new key does not work")
	}
	e.clock.step(time.Hour)
	k.RevokedAt = pointer(e.clock.instant())
	for range 2 {
		got, err := e.RevokeKey(t.Context(), e.change(), k.ID, accept)
		if err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("revoked %+v, %v, want %+v", got, err, k)
		}
		e.wantKey(t, k, secretHash(1), nil)
		if k.WorksAt(e.clock.instant()) {
			t.Error("a revoked key works")
		}
		e.clock.step(time.Hour)
	}
	e.wantKey(t, other, secretHash(1), nil)
	_, err := e.RevokeKey(t.Context(), e.change(), atrium.NewID[atrium.KeyID](), accept)
	wantCode(t, err, atrium.CodeNotFound)
}

func keyIdentifierOnce(t *testing.T, e *env) {
	k := e.newKey(t, atrium.NewID[atrium.KeyID]())
	them := e.as(e.newTenant(t))
	if _, _, err := them.CreateKey(t.Context(), them.change(), atrium.APIKey{ID: k.ID, Name: "stolen"}, make([]byte, 32)); err == nil {
		t.Error("two keys have one identifier")
	}
	e.wantKey(t, k, secretHash(1), nil)
}

func secretsRotate(t *testing.T, e *env) {
	k, other := e.newKey(t, atrium.NewID[atrium.KeyID]()), e.newKey(t, atrium.NewID[atrium.KeyID]())
	for i, grace := range []time.Duration{24 * time.Hour, 0, time.Hour} {
		e.clock.step(time.Minute)
		k.PreviousEndsAt = pointer(atrium.At(e.clock.now().Add(grace)))
		got, _, err := e.RotateKey(t.Context(), e.change(), k.ID, secretHash(byte(i+2)), grace, accept)
		if err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("rotated %+v, %v, want %+v", got, err, k)
		}
		former := secretHash(byte(i + 1))
		if grace == 0 {
			former = nil
		}
		e.wantKey(t, k, secretHash(byte(i+2)), former)
	}
	e.wantKey(t, other, secretHash(1), nil)
}

func endedKeysDoNotRotate(t *testing.T, e *env) {
	revoked, err := e.RevokeKey(t.Context(), e.change(), e.newKey(t, atrium.NewID[atrium.KeyID]()).ID, accept)
	if err != nil {
		t.Fatalf("revoke a key: %v", err)
	}
	expired, _, err := e.CreateKey(t.Context(), e.change(), atrium.APIKey{
		ID: atrium.NewID[atrium.KeyID](), Name: "key", ExpiresAt: pointer(e.clock.instant()),
	}, secretHash(1))
	if err != nil {
		t.Fatalf("create a key: %v", err)
	}
	for _, k := range []atrium.APIKey{revoked, expired} {
		_, _, err := e.RotateKey(t.Context(), e.change(), k.ID, secretHash(2), time.Hour, accept)
		wantCode(t, err, atrium.CodeConflict)
		e.wantKey(t, k, secretHash(1), nil)
	}
	_, _, err = e.RotateKey(t.Context(), e.change(), atrium.NewID[atrium.KeyID](), secretHash(2), time.Hour, accept)
	wantCode(t, err, atrium.CodeNotFound)
}

func lastUseIsNoted(t *testing.T, e *env) {
	k, other := e.newKey(t, atrium.NewID[atrium.KeyID]()), e.newKey(t, atrium.NewID[atrium.KeyID]())
	newest := atrium.Time(0)
	for _, at := range []atrium.Time{5000, 7000, 6000} { // a late update does not lower it
		newest = max(newest, at)
		if err := e.UseKeys(t.Context(), map[atrium.KeyID]atrium.Time{k.ID: at, atrium.NewID[atrium.KeyID](): at}); err != nil {
			t.Fatalf("note the use of keys: %v", err)
		}
		k.LastUsedAt = pointer(newest)
		e.wantKey(t, k, secretHash(1), nil)
	}
	e.wantKey(t, other, secretHash(1), nil)
	if err := e.UseKeys(t.Context(), nil); err != nil {
		t.Errorf("note the use of none: %v", err)
	}
}
