// Package oracle judges what agents have written down: whether any order of what they did, each thing between its call and its
// return, explains what all of them have heard. Porcupine looks for such an order (linear.go); the rest is counted, which is quick
// and says more plainly what went wrong.
//
//	refused.go    what was refused is nowhere
//	fork.go       no two updates go back to the same value
//	lists.go      each push that was acknowledged is in its list once, in its place
//	counters.go   counters have counted what was acknowledged
//	grants.go     grants grow, and a hold is one's alone
//	linear.go     value and grant of each session: porcupine
//
// What is unknown may have taken effect at any time after its call, or not at all; it counts as soon as anybody has seen it. What an
// operator or a loss of Redis's own has erased is no loss: an erasure is part of the history.
package oracle
