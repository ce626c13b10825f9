package report

import (
	"maps"
	"strings"
	"testing"
)

func TestADocumentShowsWhatStandsBetweenTheMarkers(t *testing.T) {
	before := "# A\n\n" + Excerpt("pass", "| old |") + "\n\ntext\n\n" + Excerpt("growth", "| old |\n| 2 |") + "\n"
	after, err := Replace(before, map[string]string{"pass": "| new |\n", "growth": "| $1 |\n| 3 |\n"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "# A\n\n" + Excerpt("pass", "| new |") + "\n\ntext\n\n" + Excerpt("growth", "| $1 |\n| 3 |") + "\n"; after != want {
		t.Errorf("got\n%s\nwant\n%s", after, want)
	}
	if got, want := Excerpts(after), map[string]string{"pass": "| new |", "growth": "| $1 |\n| 3 |"}; !maps.Equal(got, want) {
		t.Errorf("its excerpts are %q, want %q", got, want)
	}
}

func TestFiguresWithoutAPlaceAndPlacesWithoutFiguresAreErrors(t *testing.T) {
	document := Excerpt("pass", "old")
	if _, err := Replace(document, map[string]string{}); err == nil || !strings.Contains(err.Error(), "pass") {
		t.Errorf("nothing for a place: %v", err)
	}
	if _, err := Replace(document, map[string]string{"pass": "new", "cycle": "new"}); err == nil || !strings.Contains(err.Error(), "cycle") {
		t.Errorf("no place for a text: %v", err)
	}
}
