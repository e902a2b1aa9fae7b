package manage_test

import (
	"net/http"
	"testing"
)

func FuzzCreateProspectBody(f *testing.F) {
	fuzz(f, "createProspect", http.StatusCreated, `{"name":"a"}`, `{"email":null,"slug":""}`, `{"phoneNumber":"\u0000","domain":1}`)
}

func FuzzUpdateProspectBody(f *testing.F) {
	fuzz(f, "updateProspect", http.StatusNotFound, `{"linkedinProfileUrl":null}`, `{"name":"a","domain":"b"}`)
}
