package bench

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   series
		want float64
	}{
		{series{7}, 7},
		{series{9, 1, 4}, 4},
		{series{9, 1, 4, 2}, 3},
		{series{1, 1, 1, 100}, 1},
	} {
		given := slices.Clone(c.of)
		if got := c.of.median(); got != c.want {
			t.Errorf("median of %v = %v, want %v", c.of, got, c.want)
		}
		if !slices.Equal(c.of, given) {
			t.Errorf("the rounds were put out of order: %v, were %v", c.of, given)
		}
	}
	if got := (series{}).median(); !math.IsNaN(got) {
		t.Errorf("median of no rounds = %v, want NaN", got)
	}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	// The machine was twice as slow in the second round, for both.
	proxy, base := series{300, 150, 310}, series{100, 50, 100}
	if got, want := proxy.over(base), (series{3, 3, 3.1}); !slices.Equal(got, want) {
		t.Errorf("%v over %v = %v, want %v", proxy, base, got, want)
	}
	if got := proxy.over(base).median(); got != 3 {
		t.Errorf("median of the ratios = %v, want 3", got)
	}
	if got, want := proxy.over(series{100, 0, 100}), (series{3, 3.1}); !slices.Equal(got, want) {
		t.Errorf("over a round of nothing: %v, want %v", got, want)
	}
}

func TestSumsAndDifferencesAreTakenWithinARound(t *testing.T) {
	a, b := series{1, 20, 300}, series{4, 5, 6}
	if got, want := a.plus(b), (series{5, 25, 306}); !slices.Equal(got, want) {
		t.Errorf("%v plus %v = %v, want %v", a, b, got, want)
	}
	if got, want := a.minus(b), (series{-3, 15, 294}); !slices.Equal(got, want) {
		t.Errorf("%v minus %v = %v, want %v", a, b, got, want)
	}
	if got, want := a.plus(series{1}), (series{2}); !slices.Equal(got, want) {
		t.Errorf("the common rounds are %v, want %v", got, want)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct {
		of   []int
		p    float64
		want int
	}{
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
		{[]int{3, 1, 2}, 50, 2},
		{[]int{5}, 99, 5},
		{nil, 99, 0},
	} {
		if got := percentile(slices.Clone(c.of), c.p); got != c.want {
			t.Errorf("percentile %v of %v = %v, want %v", c.p, c.of, got, c.want)
		}
	}
}
