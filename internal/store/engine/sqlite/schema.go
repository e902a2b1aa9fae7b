package sqlite

import (
	"errors"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store/engine"
)

// An Object is a table, index, view or trigger of a schema.
type Object struct {
	Type  string // "table", "index", "view" or "trigger"
	Name  string
	Table string // of an index or a trigger; otherwise the name
	SQL   string // the statement that created it
}

// selectObjects omits indexes of constraints: the statements of their tables define them.
const selectObjects = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"

// Objects returns all objects of the schema that a transaction sees.
func Objects(tx engine.Tx) (objects []Object, err error) {
	err = tx.Query(selectObjects, nil, func(r engine.Row) error {
		objects = append(objects, Object{r.Text(0), r.Text(1), r.Text(2), r.Text(3)})
		return nil
	})
	return objects, err
}

// ObjectsOf returns the objects that scripts create in an empty database, which is in memory.
func ObjectsOf(scripts ...string) (objects []Object, err error) {
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, script := range scripts {
		if err := sqlitex.ExecuteScript(c, strings.TrimSpace(script), nil); err != nil {
			return nil, err
		}
	}
	return Objects(&connection{conn: c, statements: map[string]*resultRow{}})
}
