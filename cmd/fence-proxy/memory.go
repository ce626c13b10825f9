package main

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// heapShare is the part of the container's memory that Go's heap is kept within, as far as it can be: what Go does not count and
// what comes in one piece needs the rest.
const heapShare = 0.85

// mindLimit has garbage collected sooner when the container's limit is near, unless GOMEMLIMIT says otherwise. By itself Go lets the
// heap grow to twice what is in use, and knows of no limit. Without a limit nothing changes.
func mindLimit(of memlimit.Provider, log *slog.Logger) {
	if _, err := memlimit.Set(memlimit.WithRatio(heapShare), memlimit.WithProvider(of)); err != nil {
		log.Debug("the container's memory limit can't be read", "error", err)
	}
}
