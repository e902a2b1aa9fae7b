package manage

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"atrium"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// checkName returns the fault of a name, or "".
func checkName(text string) string { return atrium.CheckText(text, 1, atrium.MaxName) }

// optionalText decodes a text of a partial update. It returns nil if the text is absent.
func optionalText(o *strictjson.Object, name string, check func(string) string) *string {
	text, ok := o.Text(name, strictjson.Optional, check)
	if !ok {
		return nil
	}
	return &text
}

// requireMember adds a fault if a partial update is empty.
func requireMember(o *strictjson.Object) {
	if len(o.Names()) == 0 {
		o.WholeFault("must have at least one field")
	}
}

// compactJSON returns a value in its stored form, without white space between tokens. It
// returns nil for nil.
func compactJSON(v []byte) []byte {
	if v == nil {
		return nil
	}
	return strictjson.Compact(v)
}

// optionalTime decodes a time. It returns nil if there is none.
func optionalTime(o *strictjson.Object, name string) *atrium.Time {
	var at atrium.Time
	if _, ok := o.Text(name, strictjson.Optional, func(text string) string {
		var err error
		if at, err = atrium.ParseTime(text); err != nil {
			return err.Error()
		}
		return ""
	}); !ok {
		return nil
	}
	return &at
}

// checkID returns the fault of an identifier of kind T, or "".
func checkID[T atrium.Identifier](text string) string {
	if _, ok := atrium.ParseID[T](text); !ok {
		var kind T
		return "must match ^" + kind.Prefix() + "[a-z0-9]{26}$"
	}
	return ""
}

// boolParameter decodes a parameter that is true or false. It returns nil if it is absent.
func boolParameter(q *rest.Query, name string) *bool {
	text, ok := q.Text(name)
	if ok && text != "true" && text != "false" {
		q.Fault(name, "must be true or false")
	}
	if !ok {
		return nil
	}
	yes := text == "true"
	return &yes
}

// pageResponse returns one page of a list. Its cursor is bound to binding.
func pageResponse[T, V any](k rest.CursorKey, found []T, more bool, limit int, view func(T) V, position func(T) *atrium.Position, binding []string) rest.Response {
	var next *atrium.Position
	if more {
		next = position(found[len(found)-1])
	}
	return pageResponseTo(k, found, next, limit, view, binding)
}

// pageResponseTo is pageResponse for a list whose next position is known: nil at the end
// of the list. A page that is empty can have a next position.
func pageResponseTo[T, V any](k rest.CursorKey, found []T, next *atrium.Position, limit int, view func(T) V, binding []string) rest.Response {
	list := rest.List[V]{Items: make([]V, len(found)), HasMore: next != nil, Limit: limit}
	for i := range found {
		list.Items[i] = view(found[i])
	}
	if next != nil {
		list.NextCursor = k.SealPosition(next, binding...)
	}
	return rest.Response{Body: list}
}

// anyText returns the fault of a text of any length, or "".
func anyText(text string) string { return atrium.CheckText(text, 1, atrium.Unbounded) }

// textParameter decodes a text parameter and checks it. It returns "" if it is absent.
func textParameter(q *rest.Query, name string, check func(string) string) string {
	text, ok := q.Text(name)
	if !ok {
		return ""
	}
	fault := "must be UTF-8"
	if utf8.ValidString(text) {
		fault = check(text)
	}
	if fault != "" {
		q.Fault(name, fault)
	}
	return text
}

// idsParameter decodes a parameter with identifiers, separated by commas. given is its value.
func idsParameter[T atrium.Identifier](q *rest.Query, name string) (ids []T, given string) {
	given = textParameter(q, name, func(text string) string {
		for part := range strings.SplitSeq(text, ",") {
			id, ok := atrium.ParseID[T](part)
			if !ok {
				return "must be identifiers of the form " + id.Prefix() + "…, separated by commas"
			}
			if ids = append(ids, id); len(ids) > atrium.MaxListedIDs {
				return fmt.Sprintf("must have at most %d identifiers", atrium.MaxListedIDs)
			}
		}
		return ""
	})
	return ids, given
}
