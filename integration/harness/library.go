package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// buildLibrary builds a shared library with $CC, or gcc, and returns its path. It ends with the test.
func buildLibrary(tb testing.TB, name string, source []byte) string {
	tb.Helper()
	dir := shortTempDir(tb)
	path, library := filepath.Join(dir, name+".c"), filepath.Join(dir, name+".so")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		tb.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	if output, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", library, path).CombinedOutput(); err != nil {
		tb.Fatalf("compile %s.c: %v\n%s", name, err, output)
	}
	return library
}
