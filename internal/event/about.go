package event

import "context"

type aboutKey struct{}

// About returns a context for lines of the log that are about a sequence, by its number: telemetry finds its span by it.
func About(ctx context.Context, sequence uint64) context.Context {
	return context.WithValue(ctx, aboutKey{}, sequence)
}

// AboutOf returns the number of the sequence that a line is about, 0 if it is about none.
func AboutOf(ctx context.Context) uint64 {
	sequence, _ := ctx.Value(aboutKey{}).(uint64)
	return sequence
}
