package harness

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/observe"
)

// Observer is a running "fence-proxy observe". Commands on one key take turns however long that takes, so
// that a busy machine makes no difference.
type Observer struct {
	*Process

	Addr string

	tb  testing.TB
	out *bytes.Buffer // its report
	log *Transcript
}

// StartObserver starts an observer before a Redis, and waits until it accepts connections.
func StartObserver(tb testing.TB, r *Redis) *Observer {
	tb.Helper()
	o := &Observer{tb: tb, Addr: loopback(FreePort(tb)), out: &bytes.Buffer{}, log: &Transcript{}}
	cmd := exec.Command(Build(tb), "observe", "--json", "--turn", "1m", "--listen", o.Addr, "--upstream", r.URL())
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(nil), o.out, o.log
	o.Process = launch(tb, "fence-proxy observe", cmd)
	if !poll(patience, func() bool { return o.exited() || accepts(o.Addr) }) || o.exited() {
		tb.Fatalf("the observer does not accept connections at %s and %s:\n%s", o.Addr, o.fate(), o.log)
	}
	return o
}

// Client returns a go-redis client of the observer, closed when the test ends.
func (o *Observer) Client(edits ...func(*redis.Options)) *redis.Client {
	o.tb.Helper()
	return newClient(o.tb, o.Addr, edits)
}

// Report ends the observer and returns what it has found.
func (o *Observer) Report() *observe.Report {
	o.tb.Helper()
	o.Terminate()
	if code := o.Wait(); code != 0 {
		o.tb.Fatalf("the observer has ended with %d:\n%s", code, o.log)
	}
	report := &observe.Report{}
	if err := json.Unmarshal(o.out.Bytes(), report); err != nil {
		o.tb.Fatalf("%v in the report %q", err, o.out)
	}
	return report
}
