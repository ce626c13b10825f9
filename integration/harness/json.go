package harness

import (
	_ "embed" // the module's source
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/json.c
var jsonSource []byte

// WithJSON makes the server have JSON.GET, JSON.SET and JSON.MERGE of whole documents, which are texts. It needs a C
// compiler.
func WithJSON(tb testing.TB) RedisOption {
	tb.Helper()
	dir := tb.TempDir()
	source, module := filepath.Join(dir, "json.c"), filepath.Join(dir, "json.so")
	if err := os.WriteFile(source, jsonSource, 0o600); err != nil {
		tb.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	if output, err := exec.Command(compiler, "-shared", "-fPIC", "-o", module, source).CombinedOutput(); err != nil {
		tb.Fatalf("compile the JSON module: %v\n%s", err, output)
	}
	return WithArgs("--loadmodule", module)
}
