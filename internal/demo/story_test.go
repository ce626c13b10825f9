package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestTableLinesUp(t *testing.T) {
	t.Parallel()
	const want = `
                      updates        in the               stale writes   waited in vain   longest
                      acknowledged   final value   lost   refused        (LOCKED)         wait    time
straight at Redis     40             12            28     0              0                1ms     1.09s
through fence-proxy   40             40            0      1              0                651ms   1.51s

`
	var out bytes.Buffer
	s := &story{out: &out}
	s.conclude(Result{
		Straight: Figures{Acknowledged: 40, Kept: 12, Lost: 28, LongestWait: time.Millisecond, Elapsed: 1091 * time.Millisecond},
		Through:  Figures{Acknowledged: 40, Kept: 40, Refused: 1, LongestWait: 651234 * time.Microsecond, Elapsed: 1512 * time.Millisecond},
	})
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("got:\n%s", &out)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("there are colour codes")
	}
}

func TestConclusionFollowsTheFigures(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"Straight at Redis, all of 2 updates were kept this time.":                                            straightly(Figures{Acknowledged: 2}),
		"Straight at Redis, 1 of 2 updates was lost, though it was answered with OK.":                         straightly(Figures{Acknowledged: 2, Lost: 1}),
		"Straight at Redis, 2 of 9 updates were lost, though each was answered with OK.":                      straightly(Figures{Acknowledged: 9, Lost: 2}),
		"Through fence-proxy, none was lost, and no stale write was seen.":                                    fenced(Figures{Acknowledged: 9}),
		"Through fence-proxy, none was lost: the stale write was refused (FENCED), and its agent read again.": fenced(Figures{Acknowledged: 9, Refused: 1}),
		"Through fence-proxy, none was lost: 3 stale writes were refused (FENCED), and their agents read again.": fenced(Figures{
			Acknowledged: 9, Refused: 3,
		}),
		"Through fence-proxy, 2 of 9 updates were lost: the stale write was refused (FENCED), and its agent read again.": fenced(Figures{
			Acknowledged: 9, Lost: 2, Refused: 1,
		}),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
