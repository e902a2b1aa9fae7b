package manage

import (
	"unicode/utf8"

	"atrium"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// checkName says what is wrong with a name, or "".
func checkName(text string) string { return atrium.CheckText(text, 1, atrium.MaxName) }

// textIfGiven takes a text of a partial update, and nil if it is to stay as it is.
func textIfGiven(o *strictjson.Object, name string, check func(string) string) *string {
	text, ok := o.Text(name, strictjson.Optional, check)
	if !ok {
		return nil
	}
	return &text
}

// needMember notes a fault if a partial update says nothing.
func needMember(o *strictjson.Object) {
	if len(o.Names()) == 0 {
		o.WholeFault("must have a member")
	}
}

// jsonIfGiven returns a value as it is kept, without the white space between its
// tokens; nil stays nil.
func jsonIfGiven(v []byte) []byte {
	if v == nil {
		return nil
	}
	return strictjson.Compact(v)
}

// instantIfGiven takes an instant, and nil if there is none.
func instantIfGiven(o *strictjson.Object, name string) *atrium.Time {
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

// checkID returns the check for an identifier of kind T.
func checkID[T atrium.Identifier](text string) string {
	if _, ok := atrium.ParseID[T](text); !ok {
		var kind T
		return "must match ^" + kind.Prefix() + "[a-z0-9]{26}$"
	}
	return ""
}

// yesOrNo takes a parameter that is true or false, and nil if it was not given.
func yesOrNo(q *rest.Query, name string) *bool {
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

// listed answers one page of a list. binding is what its cursors open with.
func listed[T, V any](k rest.CursorKey, found []T, more bool, limit int, view func(T) V, position func(T) *atrium.Position, binding []string) rest.Response {
	var next *atrium.Position
	if more {
		next = position(found[len(found)-1])
	}
	return listedTo(k, found, next, limit, view, binding)
}

// listedTo is listed for a list that goes on at a position, nil for one that ends,
// whatever was found before it.
func listedTo[T, V any](k rest.CursorKey, found []T, next *atrium.Position, limit int, view func(T) V, binding []string) rest.Response {
	list := rest.List[V]{Items: make([]V, len(found)), HasMore: next != nil, Limit: limit}
	for i := range found {
		list.Items[i] = view(found[i])
	}
	if next != nil {
		list.NextCursor = k.SealPosition(next, binding...)
	}
	return rest.Response{Body: list}
}

// anyText says what is wrong with a text of any length, or "".
func anyText(text string) string { return atrium.CheckText(text, 1, atrium.Unbounded) }

// textParameter takes a parameter that check finds nothing wrong with, and "" without
// it.
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
