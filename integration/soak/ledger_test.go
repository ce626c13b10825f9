//go:build integration

package soak

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestTheLedgerKnowsWhatIsMissing(t *testing.T) {
	l := &ledger{accounts: map[string]*account{}}
	for _, reply := range []string{
		":1\r\n", "+OK\r\n", "*1\r\n+OK\r\n",
		"-FENCEUNKNOWN k: the write was carried out, once, but its reply is lost.\r\n",
		"-FENCEUNKNOWN k: the write may or may not have been applied: EOF.\r\n",
		"", // the connection was lost
		"-FENCED k: nothing was written\r\n", "-LOCKED k\r\n", "-FENCEDOWN k: nothing was written\r\n", "-LOADING\r\n",
	} {
		l.enter("k", fateOf([]byte(reply)))
	}
	for value, want := range map[int64]string{
		3: "k: 1 of 4 acknowledged updates are missing",
		4: "", 5: "", 6: "",
		7: "k: 1 updates too many (4 acknowledged, 2 unknown)",
	} {
		sum, wrong := l.audit(func(string) (int64, error) { return value, nil })
		if got := strings.Join(wrong, "; "); got != want {
			t.Errorf("%d: got %q, want %q", value, got, want)
		}
		if sum != (account{4, 2}) {
			t.Errorf("%d: the sum is %v", value, sum)
		}
	}
	if _, wrong := l.audit(func(string) (int64, error) { return 0, redis.Nil }); len(wrong) != 1 || !strings.Contains(wrong[0], "4 of 4") {
		t.Errorf("without the key: %q", wrong)
	}
	if _, wrong := l.audit(func(string) (int64, error) { return 4, redis.ErrClosed }); len(wrong) != 1 {
		t.Errorf("without an answer: %q", wrong)
	}
}
