package harness

import "testing"

// Network is all that is between one client and its servers: a relay to each of them.
type Network []*Relay

// StartNetwork starts a relay to each target, see [StartRelay].
func StartNetwork(tb testing.TB, targets []string, options ...RelayOption) Network {
	tb.Helper()
	var n Network
	for _, target := range targets {
		n = append(n, StartRelay(tb, target, options...))
	}
	return n
}

// Addrs are the relays' addresses, in the order of the targets.
func (n Network) Addrs() []string {
	var addrs []string
	for _, r := range n {
		addrs = append(addrs, r.Addr)
	}
	return addrs
}

// Cut is [Relay.Cut] of all.
func (n Network) Cut() {
	for _, r := range n {
		r.Cut()
	}
}

// Restore is [Relay.Restore] of all.
func (n Network) Restore() {
	for _, r := range n {
		r.Restore()
	}
}

// Blackhole is [Relay.Blackhole] of all.
func (n Network) Blackhole(on bool) {
	for _, r := range n {
		r.Blackhole(on)
	}
}

// RoundTrips is the sum over all relays, see [Connection].
func (n Network) RoundTrips() int {
	sum := 0
	for _, r := range n {
		sum += r.RoundTrips()
	}
	return sum
}

// Open is the number of connections that are open.
func (n Network) Open() int {
	open := 0
	for _, r := range n {
		for _, c := range r.Connections() {
			if c.Open {
				open++
			}
		}
	}
	return open
}
