package manage_test

import (
	"net/http"
	"testing"

	"atrium/api"
	"atrium/internal/rest/resttest"
	"atrium/internal/strictjson"
)

// The document cannot describe which cursors are valid, so bodies with one are skipped.
func FuzzCreateErasureBody(f *testing.F) {
	resttest.AddBodies(f, `{"rule":{"text":"jane@example.com","prospectEmail":"jane@example.com"}}`, `{"rule":{}}`, `{"rule":{"text":""}}`,
		`{"rule":{"claimedName":"a","claimedDomain":" "},"check":true,"limit":100}`, `{"rule":{"text":"a"},"check":true,"limit":101}`,
		`{"rule":{"text":"a"},"limit":1}`, `{"rule":{"text":"nobody"},"check":false,"limit":1}`,
		`{"rule":{"payload":{"pointer":"/a~1b/0","equals":null}},"accountId":"account_01kghg01ftes8r65rzyjka792g"}`,
		`{"rule":{"payload":{"pointer":"a","equals":[]}},"accountId":"x"}`, `{"rule":{"textContains":"ann","accountLogIds":["prospectlog_01kjpx722qezctqvhx0xb2v8ej"]},"check":true}`,
		`{"rule":{"textContains":"an","accountLogIds":[]}}`, `{"rule":{"accountLogIds":[1,"x",null]}}`, `{"rule":null}`, `{"check":true}`)
	o := resttest.New(f, api.Manage, "createErasure", routes(f), http.StatusOK, http.StatusCreated, http.StatusNotFound, http.StatusConflict)
	f.Fuzz(func(t *testing.T, body []byte) {
		if object, err := strictjson.Parse(body); err == nil && object.Has("cursor") {
			return
		}
		o.Check(t, body)
	})
}
