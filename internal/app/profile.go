package app

import (
	"net/http"
	"net/http/pprof" // its handlers; nothing serves the mux that it puts them on by itself
	"strconv"
	"time"
)

// maxProfile is how long one profile is taken at most.
const maxProfile = 5 * time.Minute

// profile serves profiles of the process.
func profile(mux *http.ServeMux) {
	for path, handler := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("GET /debug/pprof/"+path, bounded(handler))
	}
}

// bounded bounds how long a profile is taken. The handlers themselves lengthen the time
// for the answer by as much.
func bounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && seconds > maxProfile.Seconds() {
			http.Error(w, "a profile is taken for "+maxProfile.String()+" at most", http.StatusBadRequest)
			return
		}
		next(w, r)
	}
}
