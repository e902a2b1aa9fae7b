package manage_test

import (
	"net/http"
	"testing"
)

func FuzzExportPersonBody(f *testing.F) {
	fuzzAny(f, "exportPerson", []int{http.StatusOK, http.StatusNotFound}, `{"rule":{"text":"jane@example.com","prospectEmail":"jane@example.com"}}`, `{"rule":{}}`, `{"rule":{"text":""}}`,
		`{"rule":{"claimedName":"a","claimedDomain":" "}}`, `{"rule":{"text":"a"},"check":true}`, `{"rule":null}`, `{"accountId":"x"}`,
		`{"rule":{"payload":{"pointer":"/a~1b/0","equals":null}},"accountId":"account_01kghg01ftes8r65rzyjka792g"}`,
		`{"rule":{"payload":{"pointer":"a","equals":[]}},"accountId":"x"}`)
}
