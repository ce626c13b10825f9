package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func sample() *plot {
	return &plot{
		title: "a < b & c", note: "noted",
		series: []string{"other", "ours"},
		panels: []panel{{title: "rates", line: "direct", groups: []group{
			{name: "one", bars: []bar{{0.5}, {1.0}}},
			{name: "two", bars: []bar{nil, {math.NaN()}}},
			{name: "three", bars: []bar{{0.25}, {0.25, 0.5}}},
		}}},
	}
}

// rect is what a test looks at of a picture.
type rect struct {
	Class  string  `xml:"class,attr"`
	Y      float64 `xml:"y,attr"`
	Height float64 `xml:"height,attr"`
}

// read finds the bars of a picture, without the legend, and all its texts.
func read(t *testing.T, svg string) (bars []rect, texts string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return bars, texts
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			var r rect
			if token.Name.Local != "rect" {
				continue
			}
			if err := decoder.DecodeElement(&r, &token); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(r.Class, "part") {
				bars = append(bars, r)
			}
		case xml.CharData:
			texts += string(token) + "\n"
		}
	}
}

func TestBarsAreAsHighAsTheirFiguresSay(t *testing.T) {
	bars, texts := read(t, sample().svg())
	wants := []struct {
		class string
		of    float64 // of the bar of 1.0
	}{{"s0 part0", 0.5}, {"last part0", 1}, {"s0 part0", 0.25}, {"last part0", 0.25}, {"last part1", 0.5}}
	if len(bars) != len(wants) {
		t.Fatalf("%d parts of bars are drawn, want %d: %v", len(bars), len(wants), bars)
	}
	whole := bars[1]
	for i, want := range wants {
		if got := bars[i]; got.Class != want.class || math.Abs(got.Height-whole.Height*want.of) > 0.2 {
			t.Errorf("part %d is %v, want %s and %v of %v", i, got, want.class, want.of, whole.Height)
		}
	}
	if below, above := bars[3], bars[4]; math.Abs(above.Y+above.Height-below.Y) > 0.2 {
		t.Errorf("%v does not stand on %v", above, below)
	}
	for _, text := range []string{"a < b & c", "noted", "rates", "direct", "other", "ours", "three", "0.75"} {
		if !strings.Contains(texts, text+"\n") {
			t.Errorf("%q is not in the picture", text)
		}
	}
	if strings.Contains(texts, "NaN") {
		t.Error("what was not measured is in the picture")
	}
}

func TestScaleReachesTheHighestInRoundSteps(t *testing.T) {
	for _, c := range []struct{ highest, step, end float64 }{
		{1, 0.2, 1}, {1.01, 0.2, 1.2}, {0.6, 0.1, 0.6}, {17, 5, 20}, {9.9, 2, 10}, {240, 50, 250}, {0, 1, 1},
	} {
		step, end := scale(c.highest)
		if math.Abs(step-c.step) > 1e-9 || math.Abs(end-c.end) > 1e-9 {
			t.Errorf("scale(%v) = %v to %v, want %v to %v", c.highest, step, end, c.step, c.end)
		}
	}
}
