package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// benchmarksIn are the benchmarks of a folder, behind "Benchmark".
func benchmarksIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
				if name, is := strings.CutPrefix(f.Name.Name, "Benchmark"); is {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func TestAllBenchmarksAreInTheDocument(t *testing.T) {
	for _, folder := range []string{own, providers} {
		var there []string
		for _, p := range parts {
			if p.folder == folder {
				there = append(there, p.benchmark)
			}
		}
		want := benchmarksIn(t, folder)
		slices.Sort(there)
		slices.Sort(want)
		if len(want) == 0 || !slices.Equal(there, want) {
			t.Errorf("of %s there are %q, want %q", folder, there, want)
		}
	}
}
