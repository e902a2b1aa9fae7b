package manage

import (
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

// listed answers one page of a list. binding is what its cursors open with.
func listed[T, V any](k rest.CursorKey, found []T, more bool, limit int, view func(T) V, position func(T) *atrium.Position, binding []string) rest.Response {
	list := rest.List[V]{Items: make([]V, len(found)), HasMore: more, Limit: limit}
	for i := range found {
		list.Items[i] = view(found[i])
	}
	if more {
		list.NextCursor = k.SealPosition(position(found[len(found)-1]), binding...)
	}
	return rest.Response{Body: list}
}
