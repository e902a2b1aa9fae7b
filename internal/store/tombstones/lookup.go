package tombstones

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Cache has the secrets of tenants that this process has read. A stored secret never changes, so a
// Cache can only lack secrets, and a Lookup reads those. It is safe for concurrent use. The zero
// value is empty.
type Cache struct {
	mu      sync.RWMutex
	secrets map[atrium.TenantID][][]byte // guarded by mu; the slices are never changed
}

func (c *Cache) of(tenant atrium.TenantID) [][]byte {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.secrets[tenant]
}

func (c *Cache) add(tenant atrium.TenantID, secret []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.secrets[tenant]
	if contains(known, secret) {
		return
	}
	if c.secrets == nil {
		c.secrets = map[atrium.TenantID][][]byte{}
	}
	c.secrets[tenant] = append(slices.Clip(known), secret)
}

func contains(secrets [][]byte, secret []byte) bool {
	return slices.ContainsFunc(secrets, func(s []byte) bool { return bytes.Equal(s, secret) })
}

// A Lookup finds the tombstones of idempotency keys in a transaction.
type Lookup struct {
	tx    engine.Tx
	cache *Cache
	keys  map[atrium.TenantID][][]byte // key_match
	hmacs map[kernel.TenantKey]string  // the key_match of each HMAC
	found map[kernel.TenantKey]atrium.Tombstone

	missing map[atrium.TenantID]bool // tenants that do not exist, or are being deleted
}

// NewLookup returns a Lookup in a transaction.
func NewLookup(tx engine.Tx, cache *Cache) *Lookup {
	return &Lookup{
		tx: tx, cache: cache,
		keys: map[atrium.TenantID][][]byte{}, hmacs: map[kernel.TenantKey]string{}, found: map[kernel.TenantKey]atrium.Tombstone{},
		missing: map[atrium.TenantID]bool{},
	}
}

// Add adds a key, given as kernel.KeyMatch.
func (l *Lookup) Add(tenant atrium.TenantID, keyMatch []byte) {
	l.keys[tenant] = append(l.keys[tenant], keyMatch)
}

// AddTenant adds a tenant without a key, for Missing.
func (l *Lookup) AddTenant(tenant atrium.TenantID) { l.keys[tenant] = slices.Clip(l.keys[tenant]) }

// Missing reports whether an added tenant does not exist, or is being deleted. Call it after Run.
func (l *Lookup) Missing(tenant atrium.TenantID) bool { return l.missing[tenant] }

var findSecrets = engine.NewBatch(`SELECT batch.tenant_id, (SELECT s.secrets FROM tombstone_secrets s WHERE s.tenant_id = batch.tenant_id),
	`+kernel.Exists("batch.tenant_id")+` FROM batch`, "tenant_id bytea")

// Run returns the tombstones, by tenant and key_match. If tenants were added, statements that were
// pipelined before and those of Run share a round trip: Run looks for HMACs under the secrets in the
// cache, and reads which secrets the tenants have. If the cache lacks one, which happens once for each
// process and secret, Run needs another round trip.
func (l *Lookup) Run() (map[kernel.TenantKey]atrium.Tombstone, error) {
	tenants := make([]engine.Args, 0, len(l.keys))
	used := map[atrium.TenantID][][]byte{}
	var rows []engine.Args
	for tenant := range l.keys {
		tenants = append(tenants, engine.Args{kernel.IDArg(tenant)})
		used[tenant] = l.cache.of(tenant)
		for _, secret := range used[tenant] {
			rows = append(rows, l.rows(tenant, secret)...)
		}
	}
	// The secrets are read last: the transaction that stores the first tombstone also stores the
	// secret, so no tombstone is missed between the two.
	if err := l.tx.PipelineQuery(ByKey, rows, l.scan); err != nil {
		return nil, fmt.Errorf("find tombstones: %w", err)
	}
	unread := map[atrium.TenantID][][]byte{}
	if _, err := l.tx.Batch(findSecrets, tenants, func(r engine.Row) error {
		tenant := kernel.IDAt[atrium.TenantID](r, 0)
		l.missing[tenant] = r.Null(2)
		if more := missing(used[tenant], split(r.Bytes(1))); len(more) > 0 {
			unread[tenant] = more
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find the secrets of tombstones: %w", err)
	}
	if len(unread) == 0 {
		return l.found, nil
	}
	rows = nil
	for tenant, secrets := range unread {
		for _, secret := range secrets {
			l.cache.add(tenant, secret)
			rows = append(rows, l.rows(tenant, secret)...)
		}
	}
	if _, err := l.tx.Batch(ByKey, rows, func(r engine.Row) error {
		l.scan(r)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find tombstones: %w", err)
	}
	return l.found, nil
}

// rows returns rows of ByKey for the keys of a tenant under a secret.
func (l *Lookup) rows(tenant atrium.TenantID, secret []byte) []engine.Args {
	rows := make([]engine.Args, len(l.keys[tenant]))
	for i, k := range l.keys[tenant] {
		sum := KeyHMAC(secret, k)
		l.hmacs[kernel.TenantKey{Tenant: tenant, Key: string(sum)}] = string(k)
		rows[i] = engine.Args{kernel.IDArg(tenant), sum}
	}
	return rows
}

func (l *Lookup) scan(r engine.Row) {
	tenant := kernel.IDAt[atrium.TenantID](r, columnsLen)
	t := Scan(r, tenant)
	l.found[kernel.TenantKey{Tenant: tenant, Key: l.hmacs[kernel.TenantKey{Tenant: tenant, Key: string(t.KeyHMAC)}]}] = t
}
