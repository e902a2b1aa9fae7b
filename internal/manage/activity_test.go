package manage_test

import (
	"net/http"
	"strings"
	"testing"

	"atrium/api"
	"atrium/internal/rest/resttest"
	"atrium/internal/strictjson"
)

func FuzzCreateAccountLogsBody(f *testing.F) {
	entry := `{"source":"crm","payload":{}}`
	fuzz(f, "createAccountLogs", http.StatusOK, `{"entries":[`+entry+`]}`, `{"entries":[1,null,{"source":""},`+entry+`]}`,
		`{"entries":[]}`, `{"entries":{}}`, `{"entries":null}`, `{"entries":[`+strings.Repeat("1,", 999)+`1]}`, `{"entries":[`+strings.Repeat("1,", 1000)+`1]}`)
}

func FuzzMoveAccountLogBody(f *testing.F) {
	fuzz(f, "moveAccountLog", http.StatusNotFound, `{"accountId":"account_01kghg01ftes8r65rzyjka792g"}`, `{"accountId":"x"}`)
}

// What a cursor is, and that a number is written in digits, no document can say.
func FuzzCreateMoveBody(f *testing.F) {
	const to = `{"to":"account_01kghg01ftes8r65rzyjka792g",`
	resttest.AddBodies(f, to+`"rule":{"claimedName":"a"}}`, to+`"rule":{}}`, to+`"rule":{"claimedDomain":" "},"limit":1000,"check":true}`,
		to+`"rule":{"payload":{"pointer":"/a~1b/0","equals":null}},"from":"account_01kghg01ftes8r65rzyjka792g"}`,
		to+`"rule":{"payload":{"pointer":"a","equals":[]}},"limit":1001}`, to+`"rule":{"payload":{"pointer":"/","equals":1.5,"x":1}},"limit":0}`)
	o := resttest.New(f, api.Manage, "createMove", routes(f), http.StatusNotFound)
	f.Fuzz(func(t *testing.T, body []byte) {
		if object, err := strictjson.Parse(body); err == nil && (object.Has("cursor") || strings.ContainsAny(string(object.Value("limit")), ".eE")) {
			return
		}
		o.Check(t, body)
	})
}

func FuzzUndoMoveBody(f *testing.F) {
	fuzz(f, "undoMove", http.StatusNotFound, `{}`)
}
