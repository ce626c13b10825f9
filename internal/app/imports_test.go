package app

import (
	"go/build"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/fence-proxy/fence-proxy/"

// needs are the packages of the module that one of them imports, by itself or through others.
func needs(t *testing.T, pkg string, found map[string]string) map[string]string {
	t.Helper()
	p, err := build.ImportDir(filepath.Join("..", "..", filepath.FromSlash(pkg)), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range p.Imports {
		name, ours := strings.CutPrefix(imported, module)
		if _, seen := found[name]; ours && !seen {
			found[name] = pkg
			needs(t, name, found)
		}
	}
	return found
}

func TestImportsPointOneWay(t *testing.T) {
	for pkg, forbidden := range map[string][]string{
		// what a lock provider promises is nobody's but its own, and the configuration's, which has its settings
		"internal/lock/provider": {"internal"},
		"internal/tokenstore":    {"internal/lock", "internal/proxy", "internal/upstream", "internal/config"},
		"internal/lock":          {"internal/proxy", "internal/upstream", "internal/config"},
		"internal/proxy":         {"internal/config", "internal/embedded"},
		"internal/upstream":      {"internal/tokenstore", "internal/lock", "internal/proxy", "internal/rule", "internal/command"},
		"internal/cluster":       {"internal/tokenstore", "internal/lock", "internal/proxy", "internal/upstream", "internal/config", "internal/rule"},
		"internal/config":        {"internal/tokenstore", "internal/lock", "internal/proxy"},
		"internal/embedded":      {"internal/tokenstore", "internal/lock", "internal/proxy"},
		"internal/rule":          {"internal"}, // nothing of ours
		"internal/resp":          {"internal"},
		"internal/command":       {"internal"},
		"internal/observe":       {"internal/tokenstore", "internal/lock", "internal/proxy", "internal/upstream", "internal/config"},
		"internal/metrics":       {"internal"},
		"internal/health":        {"internal"},
		"internal/admin":         {"internal/tokenstore", "internal/lock", "internal/proxy", "internal/upstream", "internal/config"},
		"internal/status":        {"internal/tokenstore", "internal/lock", "internal/proxy", "internal/upstream", "internal/config", "internal/admin"},
		"internal/size":          {"internal"},
		"internal/webhook":       {"internal"},
		"internal/event":         {"internal"},
	} {
		found := needs(t, pkg, map[string]string{})
		for name, by := range found {
			for _, no := range append(forbidden, "internal/app", "cmd", "integration") {
				if pkg == "internal/config" && name == "internal/lock/provider" || name == "internal/event" {
					continue // a leaf, and a type that all of them may speak of
				}
				if name == no || strings.HasPrefix(name, no+"/") {
					t.Errorf("%s needs %s, imported by %s", pkg, name, path.Base(by))
				}
			}
		}
	}
	if len(needs(t, "internal/app", map[string]string{})) < 6 {
		t.Error("the test does not see imports")
	}
}
