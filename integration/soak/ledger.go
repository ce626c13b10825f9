//go:build integration

package soak

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ledger counts what guests have heard of updates that each add one to a key.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
}

// account is a key's. Every update that was acknowledged is in the key's value once, and one of which nobody could tell once or not at all.
type account struct {
	acknowledged, unknown int64
}

// fate is what a guest knows of an update.
type fate int

const (
	refused fate = iota // it was not applied
	acknowledged
	unknown // the connection was lost before the answer, or nobody can tell
)

// fateOf reads it from the update's reply, if there was one.
func fateOf(reply []byte) fate {
	switch text := string(reply); {
	case text == "":
		return unknown
	case text[0] != '-', strings.HasPrefix(text, "-FENCEUNKNOWN ") && strings.Contains(text, "was carried out, once"):
		return acknowledged
	case strings.HasPrefix(text, "-FENCEUNKNOWN "):
		return unknown
	}
	return refused
}

func (l *ledger) enter(key string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	if a == nil {
		a = &account{}
		l.accounts[key] = a
	}
	switch f {
	case acknowledged:
		a.acknowledged++
	case unknown:
		a.unknown++
	}
}

// audit compares all keys with their values.
func (l *ledger) audit(value func(key string) (int64, error)) (sum account, faults []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, a := range l.accounts {
		sum.acknowledged += a.acknowledged
		sum.unknown += a.unknown
		v, err := value(key)
		switch {
		case err != nil && err != redis.Nil: //nolint:errorlint // it is never wrapped
			faults = append(faults, fmt.Sprintf("%s: %v", key, err))
		case v < a.acknowledged:
			faults = append(faults, fmt.Sprintf("%s: %d of %d acknowledged updates are missing", key, a.acknowledged-v, a.acknowledged))
		case v > a.acknowledged+a.unknown:
			faults = append(faults, fmt.Sprintf("%s: %d updates too many (%d acknowledged, %d unknown)", key, v-a.acknowledged-a.unknown, a.acknowledged, a.unknown))
		}
	}
	slices.Sort(faults)
	return sum, faults
}
