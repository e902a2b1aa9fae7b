package app

import (
	"net/http"
	"net/http/pprof" // the default mux, on which it registers its handlers, is not served
	"strconv"
	"time"
)

// maxProfile is the maximum duration of a profile.
const maxProfile = 5 * time.Minute

// profile serves profiles of the process.
func profile(mux *http.ServeMux) {
	for path, handler := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("GET /debug/pprof/"+path, bounded(handler))
	}
}

// bounded limits the duration of a profile. The handlers extend the write deadline by that
// duration.
func bounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && seconds > maxProfile.Seconds() {
			http.Error(w, "a profile is limited to "+maxProfile.String(), http.StatusBadRequest)
			return
		}
		next(w, r)
	}
}
