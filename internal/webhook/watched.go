package webhook

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is how often watched files are looked at, and at most: only when somebody needs them.
const lookEvery = time.Second

// watched is what some files say, and follows them when they change, also when a kubelet puts other ones in their place.
// What can't be read or made sense of is logged, and what was known before stays.
type watched[T any] struct {
	what  string // for the log
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger

	mu     sync.Mutex // guards what follows
	looked time.Time
	failed string // the last error that was logged
	texts  [][]byte
	value  T
}

// watch reads the files for the first time.
func watch[T any](log *slog.Logger, what string, parse func([][]byte) (T, error), paths ...string) (*watched[T], error) {
	w := &watched[T]{what: what, paths: paths, parse: parse, log: log, looked: time.Now()}
	texts, err := w.read()
	if err == nil {
		w.value, err = parse(texts)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	w.texts = texts
	return w, nil
}

// get returns what the files say now, or said lately.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) >= lookEvery {
		w.looked = time.Now()
		w.look()
	}
	return w.value
}

func (w *watched[T]) look() {
	texts, err := w.read()
	if err == nil {
		same := true
		for i := range texts {
			same = same && bytes.Equal(texts[i], w.texts[i])
		}
		if same {
			w.failed = ""
			return
		}
		var value T
		if value, err = w.parse(texts); err == nil {
			w.value, w.texts, w.failed = value, texts, ""
			w.log.Info("read again", "what", w.what, "files", w.paths)
			return
		}
	}
	if w.failed != err.Error() {
		w.failed = err.Error()
		w.log.Error("can't be used, the one before stays", "what", w.what, "files", w.paths, "error", err)
	}
}

func (w *watched[T]) read() ([][]byte, error) {
	texts := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		var err error
		if texts[i], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return texts, nil
}
