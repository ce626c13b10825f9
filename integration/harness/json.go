package harness

import (
	_ "embed" // the module's source
	"testing"
)

//go:embed testdata/json.c
var jsonSource []byte

// WithJSON makes the server have JSON.GET, JSON.SET and JSON.MERGE of whole documents, which are texts. It needs a C
// compiler.
func WithJSON(tb testing.TB) RedisOption {
	tb.Helper()
	return WithArgs("--loadmodule", JSONModule(tb))
}

// JSONModule returns the path of the module that [WithJSON] loads.
func JSONModule(tb testing.TB) string {
	tb.Helper()
	return buildLibrary(tb, "json", jsonSource)
}
