// Package docs_test holds the documents to what they name.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// bearing are the documents whose claims stand on tests.
var bearing = []string{"guarantees.md", "security.md"}

var (
	namedTest   = regexp.MustCompile("`([a-z/]+)/((?:Test|Fuzz)\\w+)`")
	anyTest     = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	namedTarget = regexp.MustCompile("`make ([a-z-]+)[^`]*`")
	target      = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// testsIn returns the test functions of a folder, under whatever build tags.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheTestsThatDocumentsNameExist(t *testing.T) {
	for _, name := range bearing {
		text := read(t, name)
		folders := map[string]map[string]bool{}
		named := 0
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			folder, test := m[1], m[2]
			if test == "TestX" { // of the sentence that says how to run one
				continue
			}
			named++
			if folders[folder] == nil {
				folders[folder] = testsIn(t, folder)
			}
			if !folders[folder][test] {
				t.Errorf("%s: there is no %s in %s", name, test, folder)
			}
		}
		if named == 0 {
			t.Errorf("%s names no test", name)
		}
		for _, test := range anyTest.FindAllString(namedTest.ReplaceAllString(text, ""), -1) {
			if test != "TestX" {
				t.Errorf("%s: %s is named without its folder, or outside of code", name, test)
			}
		}
	}
}

func TestEachClaimOfTheDocumentsNamesWhatShowsIt(t *testing.T) {
	for _, name := range bearing {
		shown, claims := false, 0
		for line := range strings.Lines(read(t, name)) {
			line = strings.TrimSpace(line)
			switch {
			case !strings.HasPrefix(line, "|"):
				shown = false
			case strings.HasSuffix(line, "| shown by |"):
				shown = true
			case shown && !strings.HasPrefix(line, "|---"):
				claims++
				if cells := strings.Split(strings.Trim(line, "|"), "|"); !namedTest.MatchString(cells[len(cells)-1]) && !namedTarget.MatchString(cells[len(cells)-1]) {
					t.Errorf("%s: nothing is named that shows this: %s", name, line)
				}
			}
		}
		if claims == 0 {
			t.Errorf("%s claims nothing", name)
		}
	}
}

func TestTheTargetsThatDocumentsNameExist(t *testing.T) {
	there := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(read(t, filepath.Join("..", "Makefile")), -1) {
		there[m[1]] = true
	}
	for _, name := range bearing {
		for _, m := range namedTarget.FindAllStringSubmatch(read(t, name), -1) {
			if !there[m[1]] {
				t.Errorf("%s: there is no make %s", name, m[1])
			}
		}
	}
}
