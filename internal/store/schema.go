package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/migrations"
)

// Limits of what SchemaFaults returns.
const (
	maxSchemaFaults = 20
	maxQuotedSchema = 200 // characters of one name or definition
)

// SchemaFaults returns the differences between the schema of an embedded database and the schema
// that its migrations create: missing, altered and additional objects. The database must have at
// least one migration. Additional tables and views are no faults, because no statement of the store
// uses them; Litestream adds tables. The result is empty if a newer binary has migrated the
// database, and on a server.
func (s *Store) SchemaFaults(ctx context.Context) ([]string, error) {
	if s.db.Engine.Name() != "sqlite" {
		return nil, nil
	}
	all, err := migrations.For("sqlite")
	if err != nil {
		return nil, err
	}
	var at int64
	var found []sqlite.Object
	err = s.db.Read(ctx, func(tx engine.Tx) (err error) { // one snapshot, which no migration changes
		found, err = sqlite.Objects(tx)
		if err != nil {
			return err
		}
		return engine.Find(tx.Query, "SELECT COALESCE(MAX(number), 0) FROM schema_migrations", nil, func(r engine.Row) { at = r.Int(0) })
	})
	if err != nil || at > int64(len(all)) {
		return nil, err
	}
	scripts := []string{createMigrationsTable}
	for _, m := range all[:max(at, 0)] {
		scripts = append(scripts, m.SQL)
	}
	want, err := sqlite.ObjectsOf(scripts...)
	if err != nil {
		return nil, err
	}
	faults := compareObjects(found, want)
	if more := len(faults) - maxSchemaFaults; more > 0 {
		faults = append(faults[:maxSchemaFaults], fmt.Sprintf("%d more", more))
	}
	return faults, nil
}

// compareObjects returns the differences between two schemas.
func compareObjects(found, want []sqlite.Object) (faults []string) {
	type key struct {
		trigger bool // triggers have their own namespace
		name    string
	}
	byKey := func(objects []sqlite.Object) map[key]sqlite.Object {
		m := map[key]sqlite.Object{}
		for _, o := range objects {
			m[key{o.Type == "trigger", o.Name}] = o
		}
		return m
	}
	foundByKey, wantByKey := byKey(found), byKey(want)
	for _, w := range want {
		f, ok := foundByKey[key{w.Type == "trigger", w.Name}]
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("%s %s is missing", w.Type, w.Name))
		case f.Type != w.Type:
			faults = append(faults, fmt.Sprintf("%s is of type %s, want %s", w.Name, f.Type, w.Type))
		default:
			if fault := compareDefinitions(f.SQL, w.SQL); fault != "" {
				faults = append(faults, fmt.Sprintf("%s %s %s", w.Type, w.Name, fault))
			}
		}
	}
	for _, f := range found {
		_, known := wantByKey[key{f.Type == "trigger", f.Name}]
		_, ours := wantByKey[key{name: f.Table}]
		if !known && (f.Type == "trigger" || f.Type == "index" && ours) {
			faults = append(faults, fmt.Sprintf("%s %s on %s was added", f.Type, quoteSchema(f.Name), quoteSchema(f.Table)))
		}
	}
	return faults
}

// compareDefinitions describes the difference between two CREATE statements, "" for none. White
// space and comments make no difference.
func compareDefinitions(found, want string) string {
	foundTokens, wantTokens := sqlTokens(found), sqlTokens(want)
	if slices.Equal(foundTokens, wantTokens) {
		return ""
	}
	f, w := definitionParts(foundTokens), definitionParts(wantTokens)
	var texts []string
	for _, part := range w {
		if !slices.Contains(f, part) {
			texts = append(texts, "lacks "+quoteSchema(part))
		}
	}
	for _, part := range f {
		if !slices.Contains(w, part) {
			texts = append(texts, "has "+quoteSchema(part))
		}
	}
	if texts == nil {
		return "is defined in another order"
	}
	return strings.Join(texts, " and ")
}

// sqlToken matches a token of a statement, or a comment or white space, which are the first group.
var sqlToken = regexp.MustCompile(`(?s)(--[^\n]*|/\*.*?\*/|\s+)|'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|.`)

// sqlTokens returns the tokens of a statement without comments and white space.
func sqlTokens(sql string) (tokens []string) {
	for _, m := range sqlToken.FindAllStringSubmatch(sql, -1) {
		if m[1] == "" {
			tokens = append(tokens, m[0])
		}
	}
	return tokens
}

// definitionParts splits a CREATE statement at its outermost commas and parentheses: into columns,
// constraints and options.
func definitionParts(tokens []string) (parts []string) {
	start, depth := 0, 0
	for i, token := range append(slices.Clip(tokens), ",") {
		if token == ")" {
			depth--
		}
		if token == "," && depth <= 1 || token == "(" && depth == 0 || token == ")" && depth == 0 {
			if i > start {
				parts = append(parts, strings.Join(tokens[start:i], " "))
			}
			start = i + 1
		}
		if token == "(" {
			depth++
		}
	}
	return parts
}

// quoteSchema quotes text of a schema for a message.
func quoteSchema(s string) string {
	if r := []rune(s); len(r) > maxQuotedSchema {
		s = string(r[:maxQuotedSchema]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
