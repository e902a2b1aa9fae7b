package storetest

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"atrium"
)

var brands = []guarantee{
	{"a brand is stored and changed as requested", brandAsMade},
	{"a failed precondition leaves a brand unchanged", brandRefused},
	{"brands are listed newest first, each once, at any page size", brandsListed},
	{"a deleted brand is gone, and a brand with pages cannot be deleted", brandDeleted},
	{"a brand of another tenant is NotFound", brandOfAnother},
	{concurrent + "requests with one idempotency key create one brand", brandMadeOnce},
}

// change returns a change of the env's tenant by a key.
func (e *env) change() atrium.Change {
	return atrium.Change{TenantID: e.tenant, Actor: "key_test", RequestID: "req_test"}
}

// keyed returns a change with an idempotency key, of a request with the given content.
func (e *env) keyed(key, says string) atrium.Change {
	c := e.change()
	c.IdempotencyKey, c.Fingerprint = key, []byte(says)
	return c
}

// accept is a check that accepts every change.
func accept[T any](T) error { return nil }

func (e *env) brand(t tb, name string) atrium.Brand {
	t.Helper()
	b, _, err := e.CreateBrand(t.Context(), e.change(), name)
	if err != nil {
		t.Fatalf("create a brand: %v", err)
	}
	return b
}

func brandAsMade(t *testing.T, e *env) {
	made := e.brand(t, "Hearth")
	if got, err := e.Brand(t.Context(), e.tenant, made.ID); err != nil || got != made {
		t.Fatalf("got %+v, %v, want %+v", got, err, made)
	}
	e.clock.step(1e9)
	changed, err := e.UpdateBrand(t.Context(), e.change(), made.ID, pointer("Hearth & Home"), accept)
	want := made
	want.Name, want.UpdatedAt = "Hearth & Home", e.clock.instant()
	if err != nil || changed != want {
		t.Fatalf("changed to %+v, %v, want %+v", changed, err, want)
	}
	e.clock.step(1e9)
	if same, err := e.UpdateBrand(t.Context(), e.change(), made.ID, pointer("Hearth & Home"), accept); err != nil || same != want {
		t.Errorf("the name that it has changed it to %+v, %v", same, err)
	}
}

func brandRefused(t *testing.T, e *env) {
	made := e.brand(t, "Hearth")
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	refuse := func(b atrium.Brand) error {
		if b != made {
			t.Errorf("check was given %+v", b)
		}
		return no
	}
	if _, err := e.UpdateBrand(t.Context(), e.change(), made.ID, pointer("Other"), refuse); !errors.Is(err, no) {
		t.Errorf("update: %v", err)
	}
	if err := e.DeleteBrand(t.Context(), e.change(), made.ID, refuse); !errors.Is(err, no) {
		t.Errorf("delete: %v", err)
	}
	if got, err := e.Brand(t.Context(), e.tenant, made.ID); err != nil || got != made {
		t.Errorf("it is %+v, %v", got, err)
	}
}

func brandsListed(t *testing.T, e *env) {
	var want []string
	for i := range 7 {
		if i%2 == 0 { // two for each instant
			e.clock.step(1e6)
		}
		want = append(want, e.brand(t, strconv.Itoa(i)).Name)
	}
	slices.Reverse(want)
	for limit := 1; limit <= 8; limit++ {
		var got []string
		var after *atrium.Position
		for more := true; more; {
			var part []atrium.Brand
			var err error
			if part, more, err = e.Brands(t.Context(), e.tenant, after, limit); err != nil {
				t.Fatal(err)
			}
			for _, b := range part {
				got, after = append(got, b.Name), atrium.PositionAt(b.CreatedAt, b.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d a page: %v, want %v", limit, got, want)
		}
	}
}

func brandDeleted(t *testing.T, e *env) {
	used, unused := e.brand(t, "used"), e.brand(t, "unused")
	p := e.newPage(atrium.PageDraft)
	p.BrandID = string(used.ID)
	e.put(t, p)
	if err := e.DeleteBrand(t.Context(), e.change(), used.ID, accept); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("delete a brand with a page: %v", err)
	}
	if err := e.DeleteBrand(t.Context(), e.change(), unused.ID, accept); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Brand(t.Context(), e.tenant, unused.ID); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("after its deletion: %v", err)
	}
	if err := e.DeleteBrand(t.Context(), e.change(), unused.ID, accept); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("a second deletion: %v", err)
	}
}

func brandOfAnother(t *testing.T, e *env) {
	made, other := e.brand(t, "Hearth"), e.as(e.newTenant(t))
	if _, err := other.Brand(t.Context(), other.tenant, made.ID); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("read: %v", err)
	}
	if _, err := other.UpdateBrand(t.Context(), other.change(), made.ID, pointer("x"), accept); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("update: %v", err)
	}
	if err := other.DeleteBrand(t.Context(), other.change(), made.ID, accept); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("delete: %v", err)
	}
	if list, _, err := other.Brands(t.Context(), other.tenant, nil, 10); err != nil || len(list) > 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

func brandMadeOnce(t *testing.T, e *env) {
	results := make([]atrium.Brand, 8)
	replays := make([]bool, 8)
	other := e.node()
	parallel(t, 8, func(i int) {
		node := []*env{e, other}[i%2]
		var err error
		if results[i], replays[i], err = node.CreateBrand(t.Context(), node.keyed("once", "Hearth"), "Hearth"); err != nil {
			t.Error(err)
		}
	})
	first := 0
	for i := range results {
		if !replays[i] {
			first++
		}
		if results[i] != results[0] {
			t.Errorf("got %+v and %+v", results[i], results[0])
		}
	}
	if list, _, err := e.Brands(t.Context(), e.tenant, nil, 10); err != nil || len(list) != 1 || first != 1 {
		t.Errorf("%d brands by %d requests, %v", len(list), first, err)
	}
	if _, _, err := e.CreateBrand(t.Context(), e.keyed("once", "Other"), "Other"); atrium.CodeOf(err) != atrium.CodeIdempotencyKeyReused {
		t.Errorf("another request with the key: %v", err)
	}
}
