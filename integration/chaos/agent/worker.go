package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

const (
	dialTimeout   = 2 * time.Second
	answerTimeout = 5 * time.Second // longer than a rule's wait
	defaultThink  = 8 * time.Millisecond
	breather      = 10 * time.Millisecond // after a turn that came to nothing
)

// worker does one thing after the other.
type worker struct {
	name     string
	random   *rand.Rand
	client   *redis.Client
	grants   *redis.Client // what a connection has acquired covers all that is done over it, so grants have their own
	sessions int
	think    time.Duration
	work     []func(*worker) error // each as often as its weight
	ops      int
}

// newWorker reads a mix.
func newWorker(name, mix string) (*worker, error) {
	w := &worker{name: name}
	for part := range strings.SplitSeq(mix, ",") {
		what, weight, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(weight)
		do := works[what]
		if err != nil || do == nil {
			return nil, fmt.Errorf("no work: %q", part)
		}
		for range n {
			w.work = append(w.work, do)
		}
	}
	return w, nil
}

func (w *worker) turn() {
	if err := w.work[w.random.IntN(len(w.work))](w); err != nil {
		time.Sleep(breather)
	}
}

func (w *worker) session() string { return "s" + strconv.Itoa(w.random.IntN(w.sessions)) }

func (w *worker) ponder() {
	if w.think > 0 {
		time.Sleep(time.Duration(w.random.Int64N(int64(w.think))))
	}
}

// padded is a value as it is written: of up to some kilobytes, so that a connection that ends after some bytes ends in the middle.
func (w *worker) padded(value string) string {
	return value + "|" + strings.Repeat("x", w.random.IntN(16)*w.random.IntN(64))
}

// bare is the value without its padding.
func bare(text string) string {
	value, _, _ := strings.Cut(text, "|")
	return value
}

// ask writes an op down, carries it out, and writes down what became of it. do notes in the op what it hears.
func (w *worker) ask(op *history.Op, do func(ctx context.Context) error) error {
	w.ops++
	op.Agent, op.ID = w.name, w.ops
	if op.Writes() || op.Kind == history.Push {
		op.Value = op.Name()
	}
	op.Call = history.Now()
	tell(op)
	err := do(context.Background())
	op.Return = history.Now()
	if op.Fate == history.Pending {
		op.Fate = fateOf(err)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		op.Error = err.Error()
	}
	tell(op)
	if op.Fate != history.Done {
		return errVain
	}
	return nil
}

var errVain = errors.New("it was in vain")

// tell writes a line at once: what an agent has sent when it is killed counts.
func tell(op *history.Op) {
	line, err := json.Marshal(op)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		os.Exit(1)
	}
}

// fateOf says what an answer means. Only what the proxy promises counts as refused.
func fateOf(err error) history.Fate {
	var reply redis.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return history.Done
	case errors.Is(err, redis.TxFailedErr):
		return history.Refused
	case !errors.As(err, &reply):
		return history.Unknown
	}
	switch word, rest, _ := strings.Cut(reply.Error(), " "); {
	case word == "FENCED", word == "LOCKED", word == "FENCEDOWN", word == "FENCEDENIED", word == "EXECABORT":
		return history.Refused
	case word == "FENCEUNKNOWN" && strings.Contains(rest, "was carried out, once") && !strings.Contains(rest, "durability.replicas"):
		return history.Done // and not lost with its primary
	}
	return history.Unknown
}
