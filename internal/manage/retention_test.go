package manage_test

import (
	"net/http"
	"testing"

	"atrium/api"
	"atrium/internal/rest/resttest"
	"atrium/internal/strictjson"
)

// Two rules with the same source and type are a conflict.
func FuzzSetRetentionBody(f *testing.F) {
	fuzzAny(f, "setRetention", []int{http.StatusOK, http.StatusConflict}, `{"rules":[]}`, `{"rules":[{"days":1},{"source":"a","type":"b","days":36500}]}`,
		`{"rules":[{"days":1e1},{"days":10.0}]}`, `{"rules":[{"days":0}]}`, `{"rules":[{"days":36501}]}`, `{"rules":[{"source":"","days":1}]}`,
		`{"rules":[{"source":"a"}]}`, `{"rules":[{"days":1,"more":1}]}`, `{"rules":[1,null]}`, `{"rules":null}`, `{}`)
}

// The document cannot describe which cursors are valid, so bodies with one are skipped.
func FuzzCheckRetentionBody(f *testing.F) {
	resttest.AddBodies(f, `{}`, `{"rules":[]}`, `{"rules":[{"days":1},{"days":2}]}`, `{"rules":[{"type":"a","days":1.5}]}`, `{"rules":{}}`)
	o := resttest.New(f, api.Manage, "checkRetention", routes(f), http.StatusOK, http.StatusConflict)
	f.Fuzz(func(t *testing.T, body []byte) {
		if object, err := strictjson.Parse(body); err == nil && object.Has("cursor") {
			return
		}
		o.Check(t, body)
	})
}
