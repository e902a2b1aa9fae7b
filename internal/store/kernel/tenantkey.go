package kernel

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"atrium"
)

// A TenantKey is a tenant with a hash or an identifier of something it has.
type TenantKey struct {
	Tenant atrium.TenantID
	Key    string
}

// CompareKeys is the order of SortedKeys.
func CompareKeys(a, b TenantKey) int {
	return cmp.Or(strings.Compare(string(a.Tenant), string(b.Tenant)), strings.Compare(a.Key, b.Key))
}

// SortedKeys returns the keys of a map in one order on every node.
func SortedKeys[V any](all map[TenantKey]V) []TenantKey {
	return slices.SortedFunc(maps.Keys(all), CompareKeys)
}
