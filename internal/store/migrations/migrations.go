// Package migrations holds the schema of each engine as numbered steps. There are no down
// migrations. After all steps of a release, the binary of the release before can still use the
// database, so that nodes can be upgraded one by one.
package migrations

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Previous is the newest migration of the previous release, whose nodes may still run during an upgrade
// to this one. Change it with each release. It is at least the mark of databases without one
// (kernel.FinishedAt).
const Previous = 3

// TenantDeletions is the migration that adds the deletion of tenants. Nodes of releases without it
// would still accept the keys of a tenant that is being deleted.
const TenantDeletions = 13

// Events is the migration that adds events. Nodes of releases without it store entries without them.
const Events = 20

// Receivers is the migration that adds receivers. Nodes of releases without it do not find them.
const Receivers = 22

//go:embed sqlite postgres
var files embed.FS

// A Migration is one step.
type Migration struct {
	Number int64 // from 1, without gaps
	Name   string
	SQL    string
}

// Newest returns the number of the newest migration of the named engine.
func Newest(engine string) (int64, error) {
	all, err := For(engine)
	return int64(len(all)), err
}

// For returns the migrations of the named engine in the order of their numbers.
func For(engine string) ([]Migration, error) {
	entries, err := fs.ReadDir(files, engine)
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", engine, err)
	}
	var all []Migration
	for i, entry := range entries { // sorted by name
		base := strings.TrimSuffix(entry.Name(), ".sql")
		digits, name, _ := strings.Cut(base, "_")
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || number != int64(i+1) {
			return nil, fmt.Errorf("migration %s/%s is not number %d", engine, entry.Name(), i+1)
		}
		sql, err := fs.ReadFile(files, engine+"/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("migration %s/%s: %w", engine, entry.Name(), err)
		}
		all = append(all, Migration{number, name, string(sql)})
	}
	return all, nil
}
