package app

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
)

func TestEachRequestLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ran atomic.Bool
	go ran.Store(true)
	handler := yielding(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 10 { // the scheduler has some freedom
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}
	if !ran.Load() {
		t.Error("no other goroutine ran during ten requests")
	}
}
