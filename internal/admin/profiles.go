package admin

import (
	"net/http"
	"net/http/pprof"
)

// routeProfiles serves Go's profiles. The command line is left out, since a password may be on it.
func routeProfiles(mux *http.ServeMux, g *gate) {
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		mux.Handle("GET /debug/pprof/"+path, g.reads(h))
	}
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
}
