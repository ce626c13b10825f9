package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	chartDir = "../../charts/fence-proxy"
	// release and namespace are those of the golden files.
	release   = "fp"
	namespace = "platform"
)

// kase is one set of values.
type kase struct {
	name        string
	values      string // path
	kubeVersion string
}

func (c kase) golden() string { return filepath.Join("testdata", "golden", c.name+".yaml") }

// cases are those of testdata/cases.
func cases(t *testing.T) []kase {
	t.Helper()
	paths, err := filepath.Glob("testdata/cases/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d cases, %v", len(paths), err)
	}
	all := make([]kase, len(paths))
	for i, path := range paths {
		all[i] = kase{strings.TrimSuffix(filepath.Base(path), ".yaml"), path, "1.36.0"}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "\n")
		if version, ok := strings.CutPrefix(head, "# kube-version: "); ok {
			all[i].kubeVersion = version
		}
	}
	return all
}

// goldens are the golden files' paths, those of cases and of other charts.
func goldens(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d golden files, %v", len(paths), err)
	}
	return paths
}

// object is one that Helm has rendered.
type object struct {
	unstructured.Unstructured
	text string
}

func (o *object) String() string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

// objects takes a rendered text apart.
func objects(t *testing.T, path string) []*object {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []*object
	for _, part := range strings.Split("\n"+string(text), "\n---\n") {
		o := &object{text: part}
		if err := yaml.UnmarshalStrict([]byte(part), &o.Object); err != nil {
			t.Fatalf("%s: %v\n%s", path, err, part)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// alertGroups are the groups of the chart's own alert rules.
func alertGroups(t *testing.T) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules map[string]any
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		t.Fatal(err)
	}
	return rules["groups"]
}

const sumFile = "testdata/golden.sum"

// sum changes with everything that the golden files are made from.
func sum(t *testing.T) string {
	t.Helper()
	hash := sha256.New()
	for _, dir := range []string{chartDir, "testdata/cases", "testdata/parent", "testdata/files"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && path == "files" {
				return fs.SkipDir // testdata/files stands for it
			}
			if err != nil || d.IsDir() || path == "values.schema.json" { // it renders nothing
				return err
			}
			text, err := os.ReadFile(filepath.Join(dir, path))
			_, _ = fmt.Fprintf(hash, "%s %d\n%s", path, len(text), text) // a hash takes everything
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)) + "\n"
}

// The tests that don't run Helm rely on this.
func TestTheGoldenFilesAreOfThisChart(t *testing.T) {
	if *update { // and so is this, by the test that runs Helm
		return
	}
	got, err := os.ReadFile(sumFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != sum(t) {
		t.Error("the chart or its cases have changed: run make chart UPDATE=1, and look at what has become of the golden files")
	}
}
