package storetest

import (
	"bytes"
	"slices"
	"testing"

	"atrium/internal/store/register"
	"atrium/internal/transfer"
)

// exportAsRegistered exports a tenant and imports it into another one.
func exportAsRegistered(t *testing.T, e *env) {
	e.fill(t)
	var file bytes.Buffer
	if _, err := transfer.Export(t.Context(), e.Store, e.tenant, &file); err != nil {
		t.Fatal(err)
	}
	to := e.as(e.newTenant(t))
	exported, before := e.dump(t), to.dump(t)
	if _, err := transfer.Import(t.Context(), to.Store, to.tenant, &file, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	imported := to.dump(t)
	for _, table := range register.Tables() {
		has := func(kind register.Transfer) bool {
			return slices.ContainsFunc(table.Columns, func(c register.Column) bool { return c.Transfer == kind })
		}
		switch from, rows := exported[table.Name], imported[table.Name]; {
		case has(register.Exported):
			compareTransfer(t, table, from, rows)
		case table.Name == "audit" || table.Name == "audit_heads": // every change adds a record
		case !has(register.Derived) && len(rows) != len(before[table.Name]):
			t.Errorf("%s has %d rows after the import, and %d before", table.Name, len(rows), len(before[table.Name]))
		}
	}
}

// compareTransfer compares the rows of a table before an export with those that were imported.
func compareTransfer(t *testing.T, table *register.Table, from, to map[string][]string) {
	t.Helper()
	for key := range to {
		if from[key] == nil {
			t.Errorf("%s %s is only imported", table.Name, key)
		}
	}
	given := map[string]bool{} // columns with a value
	for key, row := range from {
		if to[key] == nil {
			t.Errorf("%s %s is not imported", table.Name, key)
			continue
		}
		for i, c := range table.Columns {
			null := row[i] == "null"
			given[c.Name] = given[c.Name] || !null
			if equal := row[i] == to[key][i]; c.Transfer == register.Exported && !equal || c.Transfer == register.Omitted && equal && !null {
				t.Errorf("%s.%s of %s is %.300s, and %.300s when imported", table.Name, c.Name, key, row[i], to[key][i])
			}
		}
	}
	for _, c := range table.Columns {
		if c.Transfer != register.Derived && !given[c.Name] {
			t.Errorf("no row has a value in %s.%s", table.Name, c.Name)
		}
	}
}
