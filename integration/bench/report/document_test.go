package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample() *Document {
	long := &Table{Title: "Everything"}
	long.Add("by", "rate", "figure", "took")
	long.Add("a|b", 1234.5, math.NaN(), 1500*time.Microsecond)
	long.Add("a|b", 9.999, 0.5, nil)
	short := &Table{Title: "The most of it"}
	short.Add("by", "rate")
	short.Add("a", 1234.5)
	section := &Section{
		Name: "pass", Heading: "Passing", Says: "What passes.", Tables: []*Table{long},
		Plots: []Plot{{File: "bench.svg", Alt: "bars", SVG: "<svg/>"}}, Short: []Short{{"pass", short}},
	}
	return &Document{
		Command: "make bench-all", Rounds: 5, Machine: Machine{Cores: 2, CPU: "model", Load: "0.10 0.20 0.30", At: time.Unix(0, 0).UTC()},
		Versions: []Version{{"Go", "1.2"}}, Chapters: []Chapter{{section, "make bench BENCH=Pass"}},
	}
}

func TestADocumentAndItsReadmeSayTheSame(t *testing.T) {
	dir := t.TempDir()
	file, readme := filepath.Join(dir, "benchmarks.md"), filepath.Join(dir, "README.md")
	if err := os.WriteFile(readme, []byte("# Ours\n\n"+Excerpt("pass", "")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sample().Write(file, readme); err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, name := range []string{file, readme, filepath.Join(dir, "bench.svg")} {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[name] = string(got)
	}
	if shown, full := Excerpts(text[readme])["pass"], Excerpts(text[file])["pass"]; shown != full || !strings.Contains(shown, "| a | 1234 |") && !strings.Contains(shown, "| a | 1235 |") {
		t.Errorf("the README shows %q, the document %q", shown, full)
	}
	for _, want := range []string{
		"## Passing\n\nWhat passes.\n\nAlone: `make bench BENCH=Pass`", "### Everything", "| by | rate | figure | took |\n|---|---|---|---|\n",
		"| a\\|b | 1234 | - | 1.50 |\n|  | 10.0 | 0.50 | - |\n", "| load at start (1, 5, 15 minutes) | 0.10 0.20 0.30 |", "| Go | 1.2 |", "![bars](bench.svg)",
	} {
		if !strings.Contains(text[file], want) {
			t.Errorf("%q is not in\n%s", want, text[file])
		}
	}
	if strings.Contains(text[file], "trial") {
		t.Error("five rounds on an idle machine count as a trial")
	}
	if got := text[filepath.Join(dir, "bench.svg")]; got != "<svg/>" {
		t.Errorf("the plot is %q", got)
	}
}

func TestADocumentSaysWhenItsFiguresAreNotToBeBelieved(t *testing.T) {
	d := sample()
	d.Rounds, d.Machine.Load, d.Only = 1, "1.70 0 0", "growth"
	for _, want := range []string{"trial", "1 round", "load 1.7 on 2 cores", "of the last one are growth,"} {
		if !strings.Contains(d.Markdown(), want) {
			t.Errorf("%q is not in the document", want)
		}
	}
}

func TestNothingIsWrittenWhereTheReadmeHasNoPlace(t *testing.T) {
	dir := t.TempDir()
	file, readme := filepath.Join(dir, "benchmarks.md"), filepath.Join(dir, "README.md")
	if err := os.WriteFile(readme, []byte("# Ours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sample().Write(file, readme); err == nil {
		t.Error("no error")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.[ms]*")); len(left) != 1 {
		t.Errorf("there are %q", left)
	}
}

func TestASectionIsLoadedAsItWasSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	saved := sample().Chapters[0].Section
	if err := saved.save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir, "pass")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := (&Document{Chapters: []Chapter{{got, ""}}}).Markdown(), (&Document{Chapters: []Chapter{{saved, ""}}}).Markdown(); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
	if _, err := Load(dir, "cycle"); err == nil {
		t.Error("a section that was not saved is loaded")
	}
}
