// Package locktest has the suite that every lock provider passes on its real servers.
//
//	func TestEtcd(t *testing.T) {
//		locktest.Run(t, locktest.Harness{ … })
//	}
//
// Each sub-test proves one promise of package provider, under its name. They share the provider's servers, leave
// them running, and use sessions of their own.
//
// Nothing is judged by how long it took. What has to come is waited for with a generous deadline, and whether two
// owners held a session at once is read from a ledger of all holds (see ledger): it says of each from when
// to when its owner could believe in it, by the clock of this process. Where a test sleeps, a fault has time to show
// itself; a longer sleep never makes a good provider fail.
package locktest
