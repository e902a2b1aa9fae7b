package store

import (
	"atrium"
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A tenantKey is a tenant with a hash or an identifier of something it has.
type tenantKey struct {
	tenant atrium.TenantID
	key    string
}

func compareKeys(a, b tenantKey) int {
	return cmp.Or(strings.Compare(string(a.tenant), string(b.tenant)), strings.Compare(a.key, b.key))
}

// sorted returns the keys of a map in one order on every node.
func sorted[V any](all map[tenantKey]V) []tenantKey {
	return slices.SortedFunc(maps.Keys(all), compareKeys)
}
