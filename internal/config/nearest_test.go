package config

import "testing"

func TestNearestForgivesAFewSlips(t *testing.T) {
	t.Parallel()
	known := []string{"listen", "name", "upstream", "max_hold", "url"}
	for name, want := range map[string]string{
		"listn": "listen", "lisetn": "listen", "Listen": "listen", "maxhold": "max_hold", "max-hold": "max_hold", "maxHodl": "max_hold",
		"upstraem": "upstream", "nam": "name", "uri": "url", "host": "", "n": "", "": "", "address": "", "base": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
