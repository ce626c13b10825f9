package cluster

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// job makes one reply of several. It belongs to who holds front.mu.
type job struct {
	replies [][]byte
	left    int
	merge   func(replies [][]byte) []byte
	keeps   bool // the router looks at the replies itself
}

func newJob(parts int, merge func(replies [][]byte) []byte) *job {
	return &job{replies: make([][]byte, parts), left: parts, merge: merge}
}

// take takes a piece of a part's reply.
func (j *job) take(at int, data []byte, done bool) {
	j.replies[at] = append(j.replies[at], data...)
	if done {
		j.left--
	}
}

func (j *job) complete() bool { return j.left == 0 }

// result is the reply that the client gets.
func (j *job) result() []byte {
	if j.keeps {
		return nil
	}
	return j.merge(j.replies)
}

// orError returns the first of the replies that is an error.
func orError(replies [][]byte, otherwise func() []byte) []byte {
	for _, r := range replies {
		if r[0] == '-' || r[0] == '!' {
			return r
		}
	}
	return otherwise()
}

// firstGood is the reply of all if none has failed.
func firstGood(replies [][]byte) []byte {
	return orError(replies, func() []byte { return replies[0] })
}

// anyGood is a reply that is no error, if there is one.
func anyGood(replies [][]byte) []byte {
	for _, r := range replies {
		if r[0] != '-' && r[0] != '!' {
			return r
		}
	}
	return replies[0]
}

// fold makes one number of many, or one array of numbers of many such.
func fold(with func(a, b int64) int64) func(replies [][]byte) []byte {
	return func(replies [][]byte) []byte {
		return orError(replies, func() []byte {
			var sum []int64
			array := false
			for i, r := range replies {
				v, _, err := resp.ParseValue(r)
				if err != nil {
					return r
				}
				elems := []resp.Value{v}
				if v.Type == '*' {
					array, elems = true, v.Elems
				}
				for k, e := range elems {
					if i == 0 {
						sum = append(sum, e.Int)
					} else if k < len(sum) {
						sum[k] = with(sum[k], e.Int)
					}
				}
			}
			if !array {
				return resp.AppendInt(nil, sum[0])
			}
			out := resp.AppendArray(nil, len(sum))
			for _, n := range sum {
				out = resp.AppendInt(out, n)
			}
			return out
		})
	}
}

func add(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// concat makes one array of many.
func concat(replies [][]byte) []byte {
	return orError(replies, func() []byte {
		count := int64(0)
		var elems []byte
		var typ byte
		for _, r := range replies {
			n, head, ok := header(r)
			if !ok {
				return r
			}
			typ = r[0]
			count += n
			elems = append(elems, r[head:]...)
		}
		return append(append(strconv.AppendInt([]byte{typ}, count, 10), "\r\n"...), elems...)
	})
}

// header reads the header of an array or a set.
func header(frame []byte) (count int64, length int, ok bool) {
	end := bytes.IndexByte(frame, '\n')
	if end < 2 || frame[0] != '*' && frame[0] != '~' {
		return 0, 0, false
	}
	count, err := strconv.ParseInt(string(frame[1:end-1]), 10, 64)
	return count, end + 1, err == nil && count >= 0
}

// anyValue is one of the replies that is not nil, any of them.
func anyValue(replies [][]byte) []byte {
	return orError(replies, func() []byte {
		var values [][]byte
		for _, r := range replies {
			if v, _, err := resp.ParseValue(r); err == nil && !v.Null {
				values = append(values, r)
			}
		}
		if len(values) == 0 {
			return replies[0]
		}
		return values[rand.IntN(len(values))]
	})
}
