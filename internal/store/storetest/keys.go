package storetest

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
)

var keys = []guarantee{
	{"a key is as it was made, with the hash of its secret", keyAsMade},
	{"a key of a tenant that does not exist is NotFound", keyOfNoTenant},
	{"the keys of a tenant are listed in the order of their identifiers", keysListed},
	{"a revoked key keeps the time of its first revocation", revokedOnce},
	{"an identifier of a key is given out once", keyIdentifierOnce},
	{"a rotated key has its last two secrets, the former one for the grace", secretsRotate},
	{"a key that is revoked or expired cannot be rotated", endedKeysDoNotRotate},
	{"the last use of a key is noted and never goes back", lastUseIsNoted},
}

func keyAsMade(t *testing.T, e *env) {
	for _, k := range []atrium.APIKey{
		{Name: "plain", Scopes: atrium.ExternalScopes()},
		{Name: strings.Repeat("\U0001f600", atrium.MaxName), Scopes: atrium.Scopes{"pages:read"}, ExpiresAt: pointer(e.clock.shows() + 1000)},
		{Name: "new", Scopes: atrium.Scopes{"some:later", "thing:read"}, ExpiresAt: pointer(atrium.Time(-1000))},
		{Name: "none"},
	} {
		e.clock.step(time.Minute)
		k.ID, k.TenantID = atrium.NewID[atrium.KeyID](), e.tenant
		hash := bytes.Repeat([]byte{0, 255}, 16)
		made, err := e.CreateKey(t.Context(), k, hash)
		k.CreatedAt = e.clock.shows()
		if err != nil || !reflect.DeepEqual(made, k) {
			t.Fatalf("made %+v, %v, want %+v", made, err, k)
		}
		e.wantKey(t, k, hash, nil)
	}
	_, _, _, err := e.Key(t.Context(), atrium.NewID[atrium.KeyID]())
	wantCode(t, err, atrium.CodeNotFound)
}

// wantKey holds what is stored of a key.
func (e *env) wantKey(t tb, want atrium.APIKey, current, previous []byte) {
	t.Helper()
	got, gotCurrent, gotPrevious, err := e.Key(t.Context(), want.ID)
	if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(gotCurrent, current) || !bytes.Equal(gotPrevious, previous) {
		t.Errorf("read %+v with %x and %x, %v, want %+v with %x and %x", got, gotCurrent, gotPrevious, err, want, current, previous)
	}
}

// secretHash makes what stands for the hash of a secret.
func secretHash(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// newKey stores a key of the tenant.
func (e *env) newKey(t tb, id atrium.KeyID) atrium.APIKey {
	t.Helper()
	k, err := e.CreateKey(t.Context(), atrium.APIKey{ID: id, TenantID: e.tenant, Name: "key", Scopes: atrium.ExternalScopes()}, secretHash(1))
	if err != nil {
		t.Fatalf("create a key: %v", err)
	}
	return k
}

func keyOfNoTenant(t *testing.T, e *env) {
	k := atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), TenantID: atrium.NewID[atrium.TenantID](), Name: "key"}
	_, err := e.CreateKey(t.Context(), k, make([]byte, 32))
	wantCode(t, err, atrium.CodeNotFound)
	_, _, _, err = e.Key(t.Context(), k.ID)
	wantCode(t, err, atrium.CodeNotFound)
}

func keysListed(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	var want []atrium.KeyID
	for range 4 {
		id := atrium.NewID[atrium.KeyID]()
		suffix := []byte(id)[len(id.Prefix()):]
		slices.Reverse(suffix) // in another order than they are made in
		id = as[atrium.KeyID](string(suffix))
		want = append(want, e.newKey(t, id).ID)
		them.newKey(t, atrium.NewID[atrium.KeyID]())
	}
	slices.Sort(want)
	all, err := e.Keys(t.Context(), e.tenant)
	if err != nil || len(all) != len(want) {
		t.Fatalf("%d keys, %v, want %d", len(all), err, len(want))
	}
	for i := range want {
		if all[i].ID != want[i] || all[i].TenantID != e.tenant {
			t.Errorf("place %d has %s of %s, want %s", i, all[i].ID, all[i].TenantID, want[i])
		}
	}
	if none, err := e.Keys(t.Context(), e.newTenant(t)); err != nil || len(none) != 0 {
		t.Errorf("a tenant without keys has %v, %v", none, err)
	}
}

func revokedOnce(t *testing.T, e *env) {
	k, other := e.newKey(t, atrium.NewID[atrium.KeyID]()), e.newKey(t, atrium.NewID[atrium.KeyID]())
	if !k.WorksAt(e.clock.shows()) {
		t.Error("a new key does not work")
	}
	e.clock.step(time.Hour)
	k.RevokedAt = pointer(e.clock.shows())
	for range 2 {
		got, err := e.RevokeKey(t.Context(), k.ID)
		if err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("revoked %+v, %v, want %+v", got, err, k)
		}
		e.wantKey(t, k, secretHash(1), nil)
		if k.WorksAt(e.clock.shows()) {
			t.Error("a revoked key works")
		}
		e.clock.step(time.Hour)
	}
	e.wantKey(t, other, secretHash(1), nil)
	_, err := e.RevokeKey(t.Context(), atrium.NewID[atrium.KeyID]())
	wantCode(t, err, atrium.CodeNotFound)
}

func keyIdentifierOnce(t *testing.T, e *env) {
	k := e.newKey(t, atrium.NewID[atrium.KeyID]())
	them := e.as(e.newTenant(t))
	if _, err := them.CreateKey(t.Context(), atrium.APIKey{ID: k.ID, TenantID: them.tenant, Name: "stolen"}, make([]byte, 32)); err == nil {
		t.Error("two keys have one identifier")
	}
	e.wantKey(t, k, secretHash(1), nil)
}

func secretsRotate(t *testing.T, e *env) {
	k, other := e.newKey(t, atrium.NewID[atrium.KeyID]()), e.newKey(t, atrium.NewID[atrium.KeyID]())
	for i, grace := range []time.Duration{24 * time.Hour, 0, time.Hour} {
		e.clock.step(time.Minute)
		k.PreviousEndsAt = pointer(atrium.At(e.clock.now().Add(grace)))
		got, err := e.RotateKey(t.Context(), k.ID, secretHash(byte(i+2)), grace)
		if err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("rotated %+v, %v, want %+v", got, err, k)
		}
		e.wantKey(t, k, secretHash(byte(i+2)), secretHash(byte(i+1)))
	}
	e.wantKey(t, other, secretHash(1), nil)
}

func endedKeysDoNotRotate(t *testing.T, e *env) {
	revoked, err := e.RevokeKey(t.Context(), e.newKey(t, atrium.NewID[atrium.KeyID]()).ID)
	if err != nil {
		t.Fatalf("revoke a key: %v", err)
	}
	expired, err := e.CreateKey(t.Context(), atrium.APIKey{
		ID: atrium.NewID[atrium.KeyID](), TenantID: e.tenant, Name: "key", ExpiresAt: pointer(e.clock.shows()),
	}, secretHash(1))
	if err != nil {
		t.Fatalf("create a key: %v", err)
	}
	for _, k := range []atrium.APIKey{revoked, expired} {
		_, err := e.RotateKey(t.Context(), k.ID, secretHash(2), time.Hour)
		wantCode(t, err, atrium.CodeConflict)
		e.wantKey(t, k, secretHash(1), nil)
	}
	_, err = e.RotateKey(t.Context(), atrium.NewID[atrium.KeyID](), secretHash(2), time.Hour)
	wantCode(t, err, atrium.CodeNotFound)
}

func lastUseIsNoted(t *testing.T, e *env) {
	k, other := e.newKey(t, atrium.NewID[atrium.KeyID]()), e.newKey(t, atrium.NewID[atrium.KeyID]())
	newest := atrium.Time(0)
	for _, at := range []atrium.Time{5000, 7000, 6000} { // what is noted late does not take it back
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
