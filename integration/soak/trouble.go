//go:build integration

package soak

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
)

// trouble is what guests of a house may be told, since things go wrong. It begins before a fault and is over when
// a new guest is served again: a guest that was there meanwhile may have been told of it.
type trouble struct {
	mu    sync.Mutex
	begun int
	open  bool
	fault string                    // the last one
	told  map[string]map[string]int // what guests were told, by fault
}

func newTrouble() *trouble { return &trouble{told: map[string]map[string]int{}} }

// moment is one from which on trouble counts for a guest.
type moment struct {
	begun int
	open  bool
}

func (t *trouble) begin(fault string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun++
	t.open, t.fault = true, fault
}

func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = false
}

func (t *trouble) now() moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return moment{t.begun, t.open}
}

// explains reports whether an error that a guest met who came at a moment is a fault's, and counts it then.
func (t *trouble) explains(err error, came moment) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := newsOf(err)
	if news == "" || !came.open && t.begun == came.begun {
		return false
	}
	if t.told[t.fault] == nil {
		t.told[t.fault] = map[string]int{}
	}
	t.told[t.fault][news]++
	return true
}

// refusal is an error reply that nobody expects while all is well.
type refusal string

func (r refusal) Error() string { return "unexpected " + string(r) }

const lost = "connection lost"

// newsOf is an error that a fault may explain, in a word or two; else "". A reply that never comes is none.
func newsOf(err error) string {
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED, net.ErrClosed} {
		if errors.Is(err, broken) {
			return lost
		}
	}
	var said refusal
	if errors.As(err, &said) {
		for _, word := range []string{"FENCEDOWN", "FENCEUNKNOWN", "LOADING", "ERR fence-proxy:"} {
			if strings.HasPrefix(string(said), "-"+word+" ") {
				return word
			}
		}
	}
	return ""
}
