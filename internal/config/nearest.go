package config

import "strings"

// nearest returns the known word that name was most likely meant for, or "".
// Case, "-" for "_" and a missing "_" count for nothing; else one slip in every
// three letters is forgiven, up to two.
func nearest(name string, known []string) string {
	best, least := "", 3
	for _, word := range known {
		a, b := plain(name), plain(word)
		if d := distance(a, b); d < least && d <= len(b)/3 {
			best, least = word, d
		}
	}
	return best
}

func plain(word string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(word))
}

// distance counts the slips that make b of a: a byte too many, too few or
// wrong, or two neighbours the wrong way round.
func distance(a, b string) int {
	slips := make([][]int, len(a)+1) // slips[i][j] is the distance of a[:i] and b[:j]
	for i := range slips {
		slips[i] = make([]int, len(b)+1)
		for j := range slips[i] {
			switch {
			case i == 0 || j == 0:
				slips[i][j] = i + j
			case a[i-1] == b[j-1]:
				slips[i][j] = slips[i-1][j-1]
			default:
				slips[i][j] = 1 + min(slips[i-1][j-1], slips[i-1][j], slips[i][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					slips[i][j] = min(slips[i][j], 1+slips[i-2][j-2])
				}
			}
		}
	}
	return slips[len(a)][len(b)]
}
