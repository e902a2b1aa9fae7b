package manage_test

import (
	"net/http"
	"testing"
)

func FuzzCreateAccountBody(f *testing.F) {
	// A domain that exists already is a conflict.
	fuzzAny(f, "createAccount", []int{http.StatusCreated, http.StatusConflict},
		`{"domain":"a.example"}`, `{"domain":"a.example","name":null}`, `{"domain":"\u2003"}`, `{"domain":"a","name":""}`)
}

func FuzzUpdateAccountBody(f *testing.F) {
	fuzz(f, "updateAccount", http.StatusNotFound, `{"name":null}`, `{"domain":"a.example"}`, `{"domain":null}`, `{"name":"a","domain":" "}`)
}

func FuzzMergeAccountBody(f *testing.F) {
	fuzz(f, "mergeAccount", http.StatusNotFound, `{"into":"account_01kghg01ftes8r65rzyjka792g"}`, `{"into":null}`)
}

func FuzzSplitAccountBody(f *testing.F) {
	fuzz(f, "splitAccount", http.StatusNotFound, `{"accountId":"account_01kghg01ftes8r65rzyjka792g"}`, `{"accountId":"account_"}`)
}
