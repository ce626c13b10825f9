package main

import (
	"errors"
	"log/slog"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestTheHeapIsKeptWithinTheContainersLimit(t *testing.T) {
	none := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(none)
	for _, tc := range []struct {
		name  string
		limit uint64
		err   error
		set   string // GOMEMLIMIT
		want  int64
	}{
		{name: "256 MiB", limit: 256 << 20, want: 228170137},
		{name: "no limit", err: memlimit.ErrNoLimit, want: none},
		{name: "it can't be read", err: errors.New("no such file"), want: none},
		{name: "the user says it", limit: 256 << 20, set: "1GiB", want: none}, // the runtime has read it at the start
	} {
		debug.SetMemoryLimit(none)
		if tc.set != "" {
			t.Setenv("GOMEMLIMIT", tc.set)
		}
		mindLimit(func() (uint64, error) { return tc.limit, tc.err }, slog.New(slog.DiscardHandler))
		if got := debug.SetMemoryLimit(-1); got != tc.want {
			t.Errorf("%s: the limit is %d, want %d", tc.name, got, tc.want)
		}
	}
}
