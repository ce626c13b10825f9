package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Section is what one benchmark has measured.
type Section struct {
	Name    string // names its file: "pass"
	Heading string
	Says    string // one sentence, or a few, on what it shows and how it was measured
	Tables  []*Table
	Plots   []Plot
	Short   []Short // what the README shows of it
}

// Plot is a picture beside the document.
type Plot struct {
	File string // its name: "bench.svg"
	Alt  string // what it shows, for who can't see it
	SVG  string
}

// Short is a table that the README shows, too.
type Short struct {
	Name  string // names its place: see [Excerpt]
	Table *Table
}

var dir = flag.String("report", "", "`directory` for what benchmarks have measured, from which package all makes a document")

// Publish prints a section and, with -report, saves it. What a benchmark that has failed measured is printed only, and of one
// that the pattern has left nothing of there is nothing to print.
func Publish(b *testing.B, s Section) {
	b.Helper()
	measured := false
	for _, t := range s.Tables {
		if len(t.Rows) > 1 {
			t.Print(os.Stdout)
			measured = true
		}
	}
	if *dir == "" || !measured || b.Failed() {
		return
	}
	if err := s.save(*dir); err != nil {
		b.Errorf("save what was measured: %v", err)
	}
}

func (s *Section) save(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(path(dir, s.Name), text, 0o644)
}

// Load reads the section of a name that was saved in a directory.
func Load(dir, name string) (*Section, error) {
	text, err := os.ReadFile(path(dir, name))
	if err != nil {
		return nil, err
	}
	s := &Section{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("section %s: %w", name, err)
	}
	return s, nil
}

func path(dir, name string) string { return filepath.Join(dir, name+".json") }
