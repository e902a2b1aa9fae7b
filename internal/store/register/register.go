// Package register is the register of tables: what each table and column contains, how a cluster
// distributes it, and what each operation on the data of a tenant does with it. A test compares
// it with the migrations of every engine.
package register

import (
	"slices"
	"strings"
	"time"

	"atrium/internal/store/engine"
)

// A Kind says how a cluster distributes a table.
type Kind int

// The kinds.
const (
	Distributed Kind = iota + 1 // sharded by tenant
	Reference                   // replicated to every server, because it is searched across tenants
)

// An Effect is what an operation does with the rows of a table. A row that changes in place is
// Kept; Column.Changes has the columns.
type Effect int

// The effects.
const (
	Kept     Effect = iota + 1
	Added           // adds rows
	Deleted         // deletes rows
	Replaced        // adds and deletes rows
)

// Rows has the effect of each operation on the rows of a table. The audit records, stored results
// and pending activity that every change adds are included.
type Rows struct {
	Import    Effect
	Merge     Effect // of two accounts
	Split     Effect
	Erasure   Effect // of an account, a prospect or a person
	Retention Effect // of entries by retention rules, and of other expired rows, by jobs
}

// Operations is a set of operations that change rows in place.
type Operations int

// The operations.
const (
	Import Operations = 1 << iota // of other rows
	Merge
	Split
	Erasure
	Deletion // of the tenant, when it begins
	Retention
)

// A Transfer says whether exports contain a column, and where imports get it from.
type Transfer int

// The transfers.
const (
	Exported Transfer = iota + 1 // a line of an export contains it
	Derived                      // imports compute it
	Omitted                      // exports do not contain it, and imports leave it or its row out
)

// A Copying says what a copy to another database does with a column.
type Copying int

// The ways to copy.
const (
	Copied     Copying = iota + 1 // and compared
	Uncompared                    // copied and not compared, because reads or jobs of the source change it
	Excluded                      // state of one database, which the other one has itself
)

// A Column is a column of a table.
type Column struct {
	Name     string
	Type     engine.Type
	Transfer Transfer
	Copying  Copying
	Changes  Operations // that change it in a stored row
}

// RequestRetention is the minimum time that idempotency keys and their results are stored.
const RequestRetention = 24 * time.Hour

// An Expiry says when jobs delete a row: some time after the time in a column, in microseconds since
// 1970, or never if that is null. Without a column, no row expires.
type Expiry struct {
	Column string
	After  time.Duration
}

// A Table is a table. Its first column is the tenant, except in settings and api_keys.
type Table struct {
	Name    string
	Kind    Kind
	Key     []string // columns of the primary key, without the tenant
	Rows    Rows
	Expiry  Expiry
	Columns []Column

	// Sealed names the column whose values are encrypted with the keys of secrets, "" for none. The columns of the
	// key are then binary: the values are bound to them.
	Sealed string
}

// Copied reports whether copies contain the table.
func (t *Table) Copied() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Copying != Excluded })
}

// Compared reports whether a comparison of copies includes the table.
func (t *Table) Compared() bool {
	return slices.ContainsFunc(t.Columns[1:], func(c Column) bool { return c.Copying == Copied })
}

// The names of settings.
const (
	CursorKey     = "cursor_key"     // authenticates cursors
	SignInKey     = "sign_in_key"    // encrypts cookies of sign-ins through an identity provider
	LatestExport  = "exports_began"  // start of the latest export
	Finished      = "finished"       // the newest migration of the latest release to which an upgrade is finished
	FirstPosition = "first_position" // of the first event of a feed that begins; 1 without it
	Clock         = "clock"          // the last reading of the nodes' clocks, and since when they have run steadily
	UnfinishedAll = "copy"           // marks a database to which a copy of everything is not complete
	Unfinished    = "copy/"          // before the identifier of a tenant whose copy is not complete
	Probe         = "probe"          // a random text, by which a copy detects that source and target are the same database
	SecretKey     = "secret_key/"    // before the ID of a key with which secrets are encrypted
)

// Settings says what a copy of everything does with each setting. A copy of one tenant copies
// none.
var Settings = map[string]Copying{
	CursorKey:     Copied,   // so that cursors stay valid
	SignInKey:     Excluded, // a sign-in in progress can begin again
	LatestExport:  Excluded,
	Finished:      Excluded,
	FirstPosition: Copied,
	Clock:         Excluded,
	UnfinishedAll: Excluded,
	Probe:         Excluded,
}

// Tables returns all tables except schema_migrations and settings, which belong to the database
// and not to its tenants. A table comes after the tables that it references. Copies are made in this
// order. The caller must not change them.
func Tables() []*Table { return tables }

// Distribution returns how a cluster distributes the tables.
func Distribution() engine.Tables {
	const first = "accounts" // the others are placed together with it
	d := engine.Tables{Reference: []string{"settings"}, Sharded: []string{first}}
	for _, t := range tables {
		switch {
		case t.Kind == Reference:
			d.Reference = append(d.Reference, t.Name)
		case t.Name != first:
			d.Sharded = append(d.Sharded, t.Name)
		}
	}
	return d
}

// columns returns columns, each given as "name type", that have the same rules.
func columns(transfer Transfer, copying Copying, changes Operations, specs ...string) []Column {
	all := make([]Column, len(specs))
	for i, spec := range specs {
		name, kind, _ := strings.Cut(spec, " ")
		all[i] = Column{name, engine.Type(kind), transfer, copying, changes}
	}
	return all
}

// tenant is the column of the tenant. Exports omit it: an import is into any tenant.
var tenant = columns(Omitted, Copied, 0, engine.TenantColumn+" bytea")
