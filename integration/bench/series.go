package bench

import (
	"cmp"
	"math"
	"slices"
)

// series is one figure, measured once a round.
type series []float64

// median is the middle figure, the mean of the middle two, or NaN of none.
func (s series) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// over is the ratio to another series of the same rounds, round by round. Rounds in which the
// other has nothing are left out.
func (s series) over(base series) series {
	var ratios series
	for round := range min(len(s), len(base)) {
		if base[round] != 0 {
			ratios = append(ratios, s[round]/base[round])
		}
	}
	return ratios
}

// plus adds another series of the same rounds, round by round.
func (s series) plus(other series) series {
	return s.with(other, func(a, b float64) float64 { return a + b })
}

// minus is plus with the other series negative.
func (s series) minus(other series) series {
	return s.with(other, func(a, b float64) float64 { return a - b })
}

func (s series) with(other series, combine func(a, b float64) float64) series {
	combined := make(series, min(len(s), len(other)))
	for round := range combined {
		combined[round] = combine(s[round], other[round])
	}
	return combined
}

// percentile is the smallest of values that at least p percent of them do not exceed, or zero of
// none. It sorts values.
func percentile[T cmp.Ordered](values []T, p float64) (least T) {
	if len(values) == 0 {
		return least
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))
	return values[max(rank, 1)-1]
}
