package harness

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const productPackage = "github.com/fence-proxy/fence-proxy/cmd/fence-proxy"

// productEnv is the path of a fence-proxy that was built already.
const productEnv = "PRODUCT_UNDER_TEST"

// product is the binary under test: built at first use, shared by all tests of
// this test binary.
var product = binary{source: productPackage}

// programs are the others, likewise, by what [BuildProgram] was asked for.
var programs sync.Map

// binary is a program that is built once.
type binary struct {
	source string
	flags  []string
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
	return product.built(tb, func() {
		if product.path = os.Getenv(productEnv); product.path == "" {
			product.build()
		}
	})
}

// BuildProgram returns the path of a program of this module, built with these flags, as [Build] does for the fence-proxy.
func BuildProgram(tb testing.TB, source string, flags ...string) string {
	tb.Helper()
	b, _ := programs.LoadOrStore(strings.Join(append(flags, source), " "), &binary{source: source, flags: flags})
	program, _ := b.(*binary)
	return program.built(tb, program.build)
}

func (b *binary) built(tb testing.TB, build func()) string {
	tb.Helper()
	b.once.Do(build)
	if b.err != nil {
		tb.Fatalf("build %s: %v\n%s", b.source, b.err, b.output)
	}
	return b.path
}

func (b *binary) build() {
	var dir string
	if dir, b.err = os.MkdirTemp("", "fence-proxy-build-"); b.err != nil { // Main removes it
		return
	}
	b.path = filepath.Join(dir, path.Base(b.source))
	args := append([]string{"build", "-o", b.path}, b.flags...)
	if raceDetector {
		args = append(args, "-race")
	}
	b.output, b.err = exec.Command("go", append(args, b.source)...).CombinedOutput()
}
