package lock

import (
	"errors"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Each of the tasks that share an owner hears once that somebody else has written; then they get on.
func TestTasksThatWereRefusedGetOnWhereLocksAreElsewhere(t *testing.T) {
	elsewhere(t, rule.Rule{Mode: rule.ModeFence, Owner: rule.OwnerProxy}, func(w *world, _ *locker) {
		a, b := w.client("a"), w.client("b")
		a.owner.Share()
		tasks := []*client{a, a.sharing(), a.sharing()}
		for range 3 {
			for _, task := range tasks {
				w.did(task.read("s", k1))
			}
			w.did(b.read("s", k1))
			w.did(b.write("s", k1))
			for i, task := range tasks {
				var fenced *FencedError
				if err := task.write("s", k1); !errors.As(err, &fenced) {
					t.Errorf("task %d: %v", i, err)
				}
			}
			w.did(a.read("s", k1))
			w.did(a.write("s", k1))
		}
	})
}
