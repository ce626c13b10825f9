// Package size writes numbers of bytes as people do: 512mb.
package size

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// The units.
const (
	KB Size = 1 << 10
	MB      = KB << 10
	GB      = MB << 10
)

// ErrSyntax says that a text is not a size.
var ErrSyntax = errors.New("not a size")

var units = []struct {
	name  string
	bytes Size
}{{"gb", GB}, {"mb", MB}, {"kb", KB}, {"g", 1e9}, {"m", 1e6}, {"k", 1e3}, {"b", 1}, {"", 1}}

// Parse reads a whole number and a unit in capitals or not, as redis.conf has them: kb, mb and gb
// are powers of 1024, k, m and g of 1000, b and none are bytes. The error is [ErrSyntax], also for what
// is negative or does not fit.
func Parse(text string) (Size, error) {
	digits := strings.TrimRight(strings.ToLower(text), "bgkm")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || digits[0] == '+' {
		return 0, ErrSyntax
	}
	for _, u := range units {
		if strings.EqualFold(text[len(digits):], u.name) && n <= math.MaxInt64/int64(u.bytes) {
			return Size(n) * u.bytes, nil
		}
	}
	return 0, ErrSyntax
}

// String writes the size in the largest unit of which it is a multiple, in a form that [Parse] reads.
func (s Size) String() string {
	for _, u := range units[:3] {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
