package app

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
)

func TestEachRequestLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ran := false
	handler := yielding(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		go func() { ran = true }()
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if !ran {
		t.Error("the goroutine of a connection went on while another one could run")
	}
}
