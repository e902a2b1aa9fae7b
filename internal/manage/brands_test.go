package manage_test

import (
	"net/http"
	"testing"
)

func FuzzCreateBrandBody(f *testing.F) {
	fuzz(f, "createBrand", http.StatusCreated, `{"name":"a"}`, `{"name":""}`, `{"name":"\u0000"}`)
}

func FuzzUpdateBrandBody(f *testing.F) {
	fuzz(f, "updateBrand", http.StatusNotFound, `{"name":"a"}`, `{"name":null}`)
}
