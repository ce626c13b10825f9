// Package doctor looks at a deployment, and says line by line what is well, what is not, and what to do about it: at the Redis
// of a configuration, who else may write there, the lock provider, and at how the rules fit what is there.
//
//	Patient ──checks, in order──▶ []Finding
//
// A check is one function in a file of its own, and a line of the table in checks.go. It asks through its [exam], which
// remembers what was asked before, and tells of what it finds; it knows nothing of how that is shown.
//
// # Levels
//
//   - ok: as it should be.
//   - unsure: Redis does not let this user ask (a managed Redis, say). The finding says how to find out otherwise.
//   - warn: works, and costs something that the user may not want.
//   - fail: something will not work, or updates can be lost.
//
// # What a caller may rely on
//
// Nothing is changed at Redis but a scratch record under the reserved prefix, which is taken away again and has a TTL of some seconds, and
// connections of the doctor's own, which it kills. Values are never read, and no finding has a password in it. Scans of keys are
// bounded, and say so where they end before the keys do.
package doctor
