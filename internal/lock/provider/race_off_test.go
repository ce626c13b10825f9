//go:build !race

package provider

// storiesOfEachKind is how many redlock's explorer plays.
const storiesOfEachKind = 25
