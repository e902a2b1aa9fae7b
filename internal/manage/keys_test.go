package manage_test

import (
	"net/http"
	"testing"
)

// The tenant does not exist, so a valid body returns 404.
func FuzzCreateKeyBody(f *testing.F) {
	fuzz(f, "createKey", http.StatusCreated, `{"name":"a","scopes":["pages:read","manage:keys"],"expiresInSeconds":1}`,
		`{"name":"a","scopes":[]}`, `{"name":"a","scopes":["pages:read","pages:read"]}`, `{"name":"a","scopes":["pages:reed"]}`,
		`{"name":"a","scopes":[null]}`, `{"name":"a","scopes":["null"]}`, `{"name":"a","scopes":["page\u0073:read"]}`, `{"name":"a","scopes":[1,{"a":[]}]}`,
		`{"name":"a","scopes":["content:read"],"origins":["https://example.com","http://[::1]:3000"]}`, `{"name":"a","scopes":["content:read","pages:read"]}`,
		`{"name":"a","scopes":["manage:events"]}`, `{"name":"a","scopes":["manage:events","manage:read"]}`, `{"name":"a","scopes":["manage","manage:events"]}`,
		`{"name":"a","scopes":["content:read"],"origins":["https://null.example",null]}`, `{"name":"a","scopes":["content:read"],"origins":["https://Example.com/"]}`,
		`{"name":"a","origins":[]}`, `{"name":"a","scopes":null}`, `{"name":"a","expiresInSeconds":0}`, `{"name":"a","expiresInSeconds":315360001}`, `{"name":"a","expiresInSeconds":null}`)
}

func FuzzRotateKeyBody(f *testing.F) {
	fuzz(f, "rotateKey", http.StatusNotFound, `{"graceSeconds":0}`, `{"graceSeconds":2592001}`, `{"graceSeconds":-1}`, `{"graceSeconds":"1"}`)
}

func FuzzCreateTenantBody(f *testing.F) {
	fuzz(f, "createTenant", http.StatusCreated, `{"name":"a"}`, `{"name":""}`)
}

func FuzzUpdateTenantBody(f *testing.F) {
	fuzz(f, "updateTenant", http.StatusNotFound, `{"name":"a"}`, `{"name":null}`)
}
