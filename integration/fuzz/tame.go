package fuzz

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// times are moments that are over, and moments that no test sees.
var times = []string{"1", "1000000", "4102444800", "4102444800123", "0", "-1", "x"}

// soon is below what a test could see pass, as a duration in ms.
const soon = 20_000_000

// tame replaces the arguments that would make a call depend on the clock, wait long, or take much
// memory. serial is different in each call of a script.
func tame(rng *rand.Rand, c *Command, args []string, serial int) {
	switch c.Name {
	case "blpop", "brpop", "bzpopmin", "bzpopmax", "blmove", "brpoplpush":
		if len(args) > 1 {
			args[len(args)-1] = wait(rng, "0.001")
		}
	case "blmpop", "bzmpop":
		if len(args) > 1 {
			args[1] = wait(rng, "0.001")
		}
	case "wait":
		if len(args) > 2 {
			args[2] = wait(rng, "1")
		}
	case "xread", "xreadgroup":
		for i := range args[:len(args)-1] {
			if lower(args[i]) == "block" {
				args[i+1] = wait(rng, "1")
			}
		}
	case "set", "setex", "psetex", "getex", "expire", "pexpire", "expireat", "pexpireat", "restore", "restore-asking":
		// Never the same twice: with GT and LT it would depend on whether a millisecond has passed.
		clamp(args[1:], 1, soon, func() string { return strconv.Itoa(soon + serial*7919%1000*100_000) })
	case "xclaim", "xautoclaim", "xpending":
		clamp(args[1:], 1, soon, func() string { return strconv.Itoa(soon) })
	case "setrange", "setbit", "bitfield":
		for i, a := range args[1:] {
			if n, err := strconv.ParseInt(unhash(a), 10, 64); err == nil && n > 1000 && n < 1<<32 {
				args[i+1] = "1000"
			}
		}
	case "srandmember", "hrandfield", "zrandmember":
		clamp(args[1:], -1<<63+1, -100, func() string { return "-3" })
	}
}

// wait is a timeout that ends soon, or one that the server refuses.
func wait(rng *rand.Rand, short string) string {
	if rng.IntN(10) == 0 {
		return one(rng, []string{"-1", "x", ""})
	}
	return short
}

// clamp replaces the integers between least and most.
func clamp(args []string, least, most int64, by func() string) {
	for i, a := range args {
		if n, err := strconv.ParseInt(a, 10, 64); err == nil && n >= least && n <= most {
			args[i] = by()
		}
	}
}

// unhash takes the "#" of a BITFIELD offset away; what it counts in is at most 64 bits.
func unhash(a string) string {
	if len(a) > 0 && a[0] == '#' {
		return a[1:]
	}
	return a
}

// unsteady is the key in which a call leaves something random, the time, or an order that depends on a
// hash seed.
func unsteady(c *Command, args []string) (key string, ok bool) {
	has := func(word string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return lower(a) == word })
	}
	switch {
	case len(args) < 2:
	case c.Name == "spop", c.Name == "xadd" && has("*"):
		return args[1], true
	case c.Name == "sort" && (has("by") || has("alpha")):
		for i := range args[:len(args)-1] {
			if lower(args[i]) == "store" {
				key, ok = args[i+1], true // the last counts
			}
		}
	}
	return key, ok
}
