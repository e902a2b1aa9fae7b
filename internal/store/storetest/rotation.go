package storetest

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"atrium"
)

var rotation = []guarantee{
	{"other nodes see a rotation and its end at once", rotationIsSeen},
	{"a rotation keeps the scopes and the last use of a key", rotationKeepsTheRest},
	{concurrent + "rotations run one after the other", rotationsAtOnce},
	{"a revoked key keeps its secrets, but neither is valid", revokedAfterRotation},
	{"uses of keys of several tenants are stored together, including revoked keys", usesTogether},
}

// rotate gives a key a new secret.
func (e *env) rotate(t tb, id atrium.KeyID, hash []byte, grace time.Duration) atrium.APIKey {
	t.Helper()
	k, _, err := e.RotateKey(t.Context(), e.change(), id, hash, grace, accept)
	if err != nil {
		t.Fatalf("rotate a key: %v", err)
	}
	return k
}

func (e *env) use(t tb, used map[atrium.KeyID]atrium.Time) {
	t.Helper()
	if err := e.UseKeys(t.Context(), used); err != nil {
		t.Fatalf("note the use of keys: %v", err)
	}
}

func rotationIsSeen(t *testing.T, e *env) {
	other := e.node()
	k := e.newKey(t, atrium.NewID[atrium.KeyID]())
	other.wantKey(t, k, secretHash(1), nil)
	k = e.rotate(t, k.ID, secretHash(2), time.Hour)
	other.wantKey(t, k, secretHash(2), secretHash(1))
	k = other.rotate(t, k.ID, secretHash(3), 0)
	e.wantKey(t, k, secretHash(3), nil)
	if want := e.clock.instant(); k.PreviousEndsAt == nil || *k.PreviousEndsAt != want {
		t.Errorf("without a grace period the previous secret ends at %v, want %s", k.PreviousEndsAt, want)
	}
}

func rotationKeepsTheRest(t *testing.T, e *env) {
	made, _, err := e.CreateKey(t.Context(), e.change(), atrium.APIKey{
		ID: atrium.NewID[atrium.KeyID](), Name: "Straße \U0001f600", Scopes: atrium.Scopes{"pages:read"},
		ExpiresAt: pointer(atrium.At(e.clock.now().Add(time.Hour))),
	}, secretHash(1))
	if err != nil {
		t.Fatalf("create a key: %v", err)
	}
	e.use(t, map[atrium.KeyID]atrium.Time{made.ID: 5000})
	e.clock.step(time.Minute)
	want := made
	want.LastUsedAt = pointer(atrium.Time(5000))
	want.PreviousEndsAt = pointer(atrium.At(e.clock.now().Add(24 * time.Hour))) // may be after the key expires
	if got := e.rotate(t, made.ID, secretHash(2), 24*time.Hour); !reflect.DeepEqual(got, want) {
		t.Errorf("rotated %+v, want %+v", got, want)
	}
	e.wantKey(t, want, secretHash(2), secretHash(1))
}

func rotationsAtOnce(t *testing.T, e *env) {
	k := e.newKey(t, atrium.NewID[atrium.KeyID]())
	const n = 8
	parallel(t, n, func(i int) {
		if _, _, err := e.RotateKey(t.Context(), e.change(), k.ID, secretHash(byte(i+2)), time.Hour, accept); err != nil {
			t.Errorf("rotate a key: %v", err)
		}
	})
	_, current, previous, err := e.Key(t.Context(), k.ID)
	if err != nil {
		t.Fatalf("read a key: %v", err)
	}
	for _, hash := range [][]byte{current, previous} {
		if len(hash) != 32 || hash[0] < 2 || hash[0] >= n+2 || !bytes.Equal(hash, secretHash(hash[0])) {
			t.Errorf("%x is none of the new secrets", hash)
		}
	}
	if bytes.Equal(current, previous) {
		t.Errorf("both secrets are %x", current)
	}
}

func revokedAfterRotation(t *testing.T, e *env) {
	k := e.newKey(t, atrium.NewID[atrium.KeyID]())
	k = e.rotate(t, k.ID, secretHash(2), time.Hour)
	k.RevokedAt = pointer(e.clock.instant())
	got, err := e.RevokeKey(t.Context(), e.change(), k.ID, accept)
	if err != nil || !reflect.DeepEqual(got, k) || got.WorksAt(e.clock.instant()) {
		t.Errorf("revoked %+v, %v, want %+v", got, err, k)
	}
	_, _, err = e.RotateKey(t.Context(), e.change(), k.ID, secretHash(3), time.Hour, accept)
	wantCode(t, err, atrium.CodeConflict)
	e.wantKey(t, k, secretHash(2), secretHash(1))
}

func usesTogether(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	keys := []atrium.APIKey{e.newKey(t, atrium.NewID[atrium.KeyID]()), them.newKey(t, atrium.NewID[atrium.KeyID]())}
	ended, err := e.RevokeKey(t.Context(), e.change(), e.newKey(t, atrium.NewID[atrium.KeyID]()).ID, accept)
	if err != nil {
		t.Fatalf("revoke a key: %v", err)
	}
	keys = append(keys, ended)
	used := map[atrium.KeyID]atrium.Time{atrium.NewID[atrium.KeyID](): 1000}
	for i := range keys {
		keys[i].LastUsedAt = pointer(atrium.Time((i + 1) * 1000))
		used[keys[i].ID] = *keys[i].LastUsedAt
	}
	e.use(t, used)
	for _, k := range keys {
		e.wantKey(t, k, secretHash(1), nil)
	}
	for id := range used {
		used[id] = -1000
	}
	e.use(t, used)
	for _, k := range keys {
		e.wantKey(t, k, secretHash(1), nil)
	}
}
