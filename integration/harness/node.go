package harness

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// installing is one test's at a time.
var installing sync.Mutex

// InstallNodePackages installs what the package-lock.json of a directory names, unless it is there.
func InstallNodePackages(tb testing.TB, dir string) {
	tb.Helper()
	installing.Lock()
	defer installing.Unlock()
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		tb.Fatal(err)
	}
	installed := filepath.Join(dir, "node_modules", ".installed") // the lock file of a finished installation
	if have, err := os.ReadFile(installed); err == nil && bytes.Equal(have, lock) {
		return
	}
	npm := exec.CommandContext(tb.Context(), "npm", "ci", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			tb.Fatal("no npm: apt-get install nodejs npm")
		}
		tb.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.WriteFile(installed, lock, 0o644); err != nil {
		tb.Fatal(err)
	}
}
