// Package providers measures what it costs to have the lock elsewhere.
//
//	make bench-providers
//
// Each lock provider has servers of its own, all on loopback, and serves two pairs of proxies. Between the proxies of a pair and all
// servers are relays, which make a round trip longer by far for one pair, and only pass on for the other:
//
//	client ──▶ proxy one ──▶ relays ──▶ store (a Redis of each pair's own)
//	client ──▶ proxy two ──▶ relays ──▶ the provider's servers
//
// An operation of the benchmark is a round: each pair has a turn in it, and the order changes from round to round, so that
// what else the machine does falls on all alike. All figures are as a client of the proxy sees them; its sessions were used
// before, and are free:
//
//   - acquire: GET of a guarded key, which takes the session.
//   - cycle: GET and SET: take, read, write, give back.
//   - hand over: from SET at one proxy to the answer of the GET that waits at the other.
//
// "Round trips" are those that a client waits for, one after the other, to the provider and to the store: by how many times far the far
// pair takes longer than the near one, when nothing else is in the way. What goes on behind the client's back is not in them.
//
// A server that writes to disk before it answers (etcd, ZooKeeper, Consul, Kubernetes' etcd) is as fast as that disk.
package providers
