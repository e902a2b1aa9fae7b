package kernel

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"atrium"
)

// A TenantKey is a key within a tenant, such as an identifier or a hash.
type TenantKey struct {
	Tenant atrium.TenantID
	Key    string
}

// CompareKeys compares keys by tenant and then by key.
func CompareKeys(a, b TenantKey) int {
	return cmp.Or(strings.Compare(string(a.Tenant), string(b.Tenant)), strings.Compare(a.Key, b.Key))
}

// SortedKeys returns the keys of a map, sorted with CompareKeys.
func SortedKeys[V any](all map[TenantKey]V) []TenantKey {
	return slices.SortedFunc(maps.Keys(all), CompareKeys)
}
