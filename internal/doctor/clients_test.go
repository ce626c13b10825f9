package doctor

import (
	"testing"
	"time"
)

func TestHowLongALibraryWaits(t *testing.T) {
	for _, c := range []struct {
		name, version string
		waits         time.Duration
		known         bool
	}{
		{"jedis", "5.1.0", 2 * time.Second, true},
		{"go-redis(,go1.26.8)", "9.23.0", 3 * time.Second, true},
		{"redis-py", "5.0.1", 0, true},
		{"redis-py", "8.0.0", 5 * time.Second, true},
		{"redis-py", "10.0.0", 5 * time.Second, true},
		{"Lettuce", "6.3", time.Minute, true},
		{"unheard-of", "1", 0, false},
		{"", "", 0, false},
	} {
		if waits, known := libraryOf(c.name, c.version); waits != c.waits || known != c.known {
			t.Errorf("%s %s: %v, %v", c.name, c.version, waits, known)
		}
	}
}
