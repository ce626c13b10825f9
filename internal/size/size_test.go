package size

import (
	"errors"
	"math"
	"testing"
)

func TestSizesAreReadAndWrittenAsInRedisConf(t *testing.T) {
	for text, want := range map[string]struct {
		size  Size
		again string
	}{
		"0": {0, "0"}, "1": {1, "1"}, "7b": {7, "7"}, "1k": {1000, "1000"}, "1kb": {1024, "1kb"}, "1M": {1e6, "1000000"},
		"64MB": {64 << 20, "64mb"}, "1024mb": {1 << 30, "1gb"}, "1g": {1e9, "1000000000"}, "2Gb": {2 << 30, "2gb"},
		"9223372036854775807": {math.MaxInt64, "9223372036854775807"},
	} {
		got, err := Parse(text)
		if err != nil || got != want.size {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
		if got.String() != want.again {
			t.Errorf("%s is written %s", text, got)
		}
		if back, err := Parse(got.String()); err != nil || back != got {
			t.Errorf("%s is read as %d, %v", got, back, err)
		}
	}
	for _, text := range []string{"", "b", "mb", "1.5mb", "-1", "+1", "1 mb", "1tb", "1mib", "1bb", "0x10", "9223372036854775808", "9007199254740992kb"} {
		if got, err := Parse(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
}
