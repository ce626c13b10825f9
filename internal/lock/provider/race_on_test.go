//go:build race

package provider

// storiesOfEachKind is how many redlock's explorer plays. The race detector makes them some five times as slow.
const storiesOfEachKind = 5
