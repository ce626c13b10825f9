package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const productPackage = "github.com/fence-proxy/fence-proxy/cmd/fence-proxy"

// productEnv is the path of a fence-proxy that was built already.
const productEnv = "PRODUCT_UNDER_TEST"

// product is the binary under test: built at first use, shared by all tests of
// this test binary.
var product binary

// binary is a program that is built once.
type binary struct {
	once   sync.Once
	path   string
	output []byte // of a build that failed
	err    error
}

// Build returns the path of the built fence-proxy. It has the race detector
// when the test binary has it. Needs a TestMain that calls [Main]. With
// PRODUCT_UNDER_TEST in the environment, that is its path, and nothing is built.
func Build(tb testing.TB) string {
	tb.Helper()
	product.once.Do(product.build)
	if product.err != nil {
		tb.Fatalf("build fence-proxy: %v\n%s", product.err, product.output)
	}
	return product.path
}

func (b *binary) build() {
	if b.path = os.Getenv(productEnv); b.path != "" {
		return
	}
	var dir string
	if dir, b.err = os.MkdirTemp("", "fence-proxy-build-"); b.err != nil { // Main removes it
		return
	}
	b.path = filepath.Join(dir, "fence-proxy")
	args := []string{"build", "-o", b.path}
	if raceDetector {
		args = append(args, "-race")
	}
	b.output, b.err = exec.Command("go", append(args, productPackage)...).CombinedOutput()
}
