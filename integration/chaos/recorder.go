//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// recorder is the history that all agents write.
type recorder struct {
	readers sync.WaitGroup

	mu    sync.Mutex
	ops   []*history.Op
	open  map[string]*history.Op
	since int64            // the last mark
	first map[string]int64 // by session, when the first write that was sent since was acknowledged
	done  int              // writes that were acknowledged
}

func newRecorder() *recorder {
	return &recorder{open: map[string]*history.Op{}, first: map[string]int64{}}
}

// listen reads what an agent writes, until it ends.
func (r *recorder) listen(out io.ReadCloser) {
	r.readers.Go(func() {
		defer out.Close()
		lines := json.NewDecoder(out)
		for {
			var op history.Op
			if lines.Decode(&op) != nil { // a killed agent's last line may be half written
				return
			}
			r.note(op)
		}
	})
}

func (r *recorder) note(op history.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.open[op.Name()]; known != nil {
		*known = op
		if op.Fate != history.Pending {
			delete(r.open, op.Name())
		}
	} else {
		r.ops = append(r.ops, &op)
		if op.Fate == history.Pending {
			r.open[op.Name()] = &op
		}
	}
	if op.Fate != history.Done || !op.Writes() && op.Kind != history.Push {
		return
	}
	r.done++
	if first, ok := r.first[op.Session]; op.Call >= r.since && (!ok || op.Return < first) {
		r.first[op.Session] = op.Return
	}
}

// mark begins to look for the next successes.
func (r *recorder) mark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = history.Now()
	clear(r.first)
	return r.since
}

// next is when, after the mark, the first of the sessions was written, and the last; ok says that all of them were.
func (r *recorder) next(sessions []string) (some, all int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok = true
	for _, session := range sessions {
		first, written := r.first[session]
		if !written {
			ok = false
			continue
		}
		if some == 0 || first < some {
			some = first
		}
		all = max(all, first)
	}
	return some, all, ok
}

// soFar is a copy of the history.
func (r *recorder) soFar() []*history.Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := make([]*history.Op, len(r.ops))
	for i, op := range r.ops {
		copied := *op
		ops[i] = &copied
	}
	return ops
}

// keep writes the history to a file.
func (r *recorder) keep(dir string) string {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	path := filepath.Join(dir, "history.jsonl")
	file, err := os.Create(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for _, op := range r.soFar() {
		if err := lines.Encode(op); err != nil {
			return fmt.Sprint(path, ": ", err)
		}
	}
	return path
}
