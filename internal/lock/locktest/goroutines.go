package locktest

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
)

// family is the goroutines that begin in some play, and in each other: they inherit a label. What else the process does makes no
// difference to it.
type family struct {
	name  string
	label context.Context
}

const familyLabel = "locktest"

func newFamily(name string) *family {
	return &family{name, pprof.WithLabels(context.Background(), pprof.Labels(familyLabel, name))}
}

// play runs the play, whose goroutines belong to the family.
func (f *family) play(play func()) {
	pprof.SetGoroutineLabels(f.label)
	defer pprof.SetGoroutineLabels(context.Background())
	play()
}

// outside runs a part of the play whose goroutines don't belong to the family. A nil family has none.
func (f *family) outside(part func()) {
	if f != nil {
		pprof.SetGoroutineLabels(context.Background())
		defer pprof.SetGoroutineLabels(f.label)
	}
	part()
}

// left are the stacks of the family's goroutines that there are, "" if there are none.
func (f *family) left() string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return err.Error()
	}
	_, stacks, _ := strings.Cut(profile.String(), "\n")
	var left strings.Builder
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(stack, `"`+familyLabel+`":"`+f.name+`"`) {
			left.WriteString(stack + "\n\n")
		}
	}
	return left.String()
}
