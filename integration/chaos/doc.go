// Package chaos shows that no acknowledged update is lost, by letting everything go wrong and judging what the agents have heard.
//
//	make chaos CHAOS_TIME=30m SEEDS=20      make chaos-short is part of make test
//
// A world (world.go) is real programs: agents (agent/), proxies and a redis-server that keeps what it acknowledges, each a process, with a
// relay between each two that speak with each other. Agents read, think and write, write blindly, in transactions and under grants
// that they acquire, hand on and give back, and write down what they send and hear (history/). Meanwhile rounds of faults (fault.go),
// each kind by itself and several at once (kind.go), follow from a seed; behind each round every session must be written again, and how
// long that took is the table in the end. Then the oracle (oracle/) looks for an order that explains all that was heard.
//
// There are several sites (site.go): one Redis, also with a clock that is stepped; locks at each lock provider, whose servers fail, too;
// Sentinels and a cluster, whose primaries are replaced and whose slots move. Nodes that replicate get durable writes, and
// reads are no evidence there: a primary that was replaced may answer them.
//
// A seed gives the same faults at the same times and the same work of each agent, not the same moments in which processes run: a failure
// comes back with its seed soon or after some runs. It is kept in dist/chaos: the whole history, and a picture of the shortest part
// that can't be explained.
//
// That the oracle would notice is shown by proxies that break one promise each (breakage/).
//
// Everything is behind the tag chaos but for the agent, the oracle and the breakages, which stand by themselves.
package chaos
