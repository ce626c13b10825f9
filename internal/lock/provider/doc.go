// Package provider has the locks that can live elsewhere than beside the fence records: one file each, and
// one line in Kinds. A provider only grants. Whether a write is applied is decided at the store all the same,
// by the grant, so a provider that grants a session to two owners at once costs one of them a refusal, never an update.
//
// # What a provider promises
//
//   - Each grant of a session is larger than every one before it, across owners, proxies, restarts and lost
//     holds. Grants are below 2^53. Those of different providers don't compare: the fence record names its provider.
//   - One owner holds a session at a time, as long as leases are kept.
//   - Waiters are served in the order that the provider states; one that leaves is passed over.
//   - A hold ends by itself, within its lease, when its proxy is gone.
//   - Only its own hold ends by a release, however late that comes.
//
// Package locktest proves these on the real servers, by one suite for all.
package provider
