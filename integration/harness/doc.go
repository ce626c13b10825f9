// Package harness runs the real parts of an integration test: a redis-server,
// the built fence-proxy, client processes, and a network between them that can
// be slow or broken.
//
//	Agent, RawConn, go-redis ──▶ Proxy ──▶ Relay ──▶ Redis
//	(processes or sockets)     (process) (in-process) (process)
//
// Any part may be left out: an Agent talks to a Redis just as well, which is how
// a test compares the bytes of "direct" and "through the proxy".
//
// A package that uses the harness hands its tests over to [Main]:
//
//	func TestMain(m *testing.M) { harness.Main(m) }
//
// Main builds nothing by itself; [StartProxy] builds the proxy at first use, once
// a test binary. When the tests have passed, Main looks for goroutines left behind.
//
// # Ownership
//
// Every part belongs to the test that started it and ends with that test, in
// the reverse order of starting. A child process has one goroutine that
// starts it, waits for it, and ends with it; on Linux the kernel kills the child
// when the test binary dies, however it dies. Ports come from [FreePort], which
// gives no port to two tests at the same time, not even to two test binaries.
//
// # Failing
//
// A helper that is given a testing.TB, or was made by one, fails the test when
// it cannot do its work; call it from the test's goroutine. Methods that return an
// error ([RawConn.Read], [Agent.Do]) may be called from any goroutine. Waits poll
// and have generous deadlines: a deadline that passes means a bug, not a slow machine.
// When a test fails, the logs of its proxies and servers are printed. A data race
// or a panic in a proxy's log fails its test.
//
// # Freezing and killing
//
// Pause (SIGSTOP) returns once the process has really stopped, so what happens
// next happens while it is frozen. Kill (SIGKILL) returns once the process is gone.
package harness
