//go:build integration

package soak

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

func TestTroubleExplainsWhatAFaultMayCauseToThoseWhoWereThere(t *testing.T) {
	down := refusal("-FENCEDOWN k: nothing was written\r\n")
	trouble := newTrouble()
	early := trouble.now()
	if trouble.explains(down, early) {
		t.Error("an error is explained before anything went wrong")
	}
	trouble.begin("a fault")
	during := trouble.now()
	for _, err := range []error{down, fmt.Errorf("read a reply: %w", io.EOF), refusal("-FENCEUNKNOWN k\r\n"), refusal("-LOADING Redis\r\n"), refusal("-ERR fence-proxy: dial\r\n")} {
		if !trouble.explains(err, early) || !trouble.explains(err, during) {
			t.Errorf("%v is not explained by the fault", err)
		}
	}
	trouble.over()
	if !trouble.explains(down, early) || !trouble.explains(down, during) {
		t.Error("who was there may hear of it later")
	}
	if late := trouble.now(); trouble.explains(down, late) || trouble.explains(io.EOF, late) {
		t.Error("an error is explained by a fault from before")
	}
	for _, err := range []error{
		refusal("-ERR syntax error\r\n"), refusal("-WRONGTYPE\r\n"), refusal("-FENCEDENIED reserved\r\n"), refusal("-NOSCRIPT\r\n"),
		os.ErrDeadlineExceeded, errors.New("an update is answered otherwise when it is said again"),
	} {
		if trouble.explains(err, during) {
			t.Errorf("%v is explained by a fault", err)
		}
	}
}
