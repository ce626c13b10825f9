package status

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when the stories begin.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

var usual = Terms{Lease: 30 * time.Second, MaxHold: 2 * time.Minute, Wait: 1500 * time.Millisecond}

// stage is a collector whose clock the test turns.
type stage struct {
	*Collector
	clock time.Time
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{clock: noon}
	s.Collector = New(func(string) Terms { return usual })
	s.now = func() time.Time { return s.clock }
	return s
}

// at puts the clock to so long after noon.
func (s *stage) at(since time.Duration) *stage {
	s.clock = noon.Add(since)
	return s
}

// tells tells of an event, now.
func (s *stage) tells(e event.Event) { e.At = s.clock; s.Event(&e) }

// agent is an owner's sequence on a session, as its events say it.
func agent(name string, sequence uint64, session string) event.Event {
	return event.Event{
		Sequence: sequence, Rule: "chat", Mode: "lock", Session: session, Command: "GET",
		Owner: event.Party{Proxy: "here", Client: fmt.Sprintf("10.0.0.1:%d", 1000+sequence), Name: name, Owner: fmt.Sprint("o", sequence)},
	}
}

func (s *stage) asks(e event.Event, behind event.Party) {
	e.Kind, e.Other = event.Wait, behind
	s.tells(e)
}

// quits leaves the line, as before each refusal of who has waited.
func (s *stage) quits(e event.Event, reason string) {
	e.Kind, e.Reason = event.Quit, reason
	s.tells(e)
}

func (s *stage) granted(e event.Event, grant uint64, waited time.Duration) {
	e.Kind, e.Grant, e.Took, e.Lease = event.Grant, grant, waited, usual.Lease
	s.tells(e)
}

func (s *stage) reads(e event.Event, grant uint64) {
	e.Kind, e.Grant = event.Read, grant
	s.tells(e)
}

func (s *stage) writes(e event.Event, grant uint64) {
	e.Kind, e.Grant, e.Seq, e.Command = event.Commit, grant, 1, "SET"
	s.tells(e)
}

func (s *stage) releases(e event.Event, grant uint64) {
	e.Kind, e.Grant, e.Reason = event.Release, grant, "commit"
	s.tells(e)
}

func (s *stage) refused(e event.Event, word, reason string, grant uint64, other event.Party) {
	e.Kind, e.Error, e.Reason, e.Grant, e.Other = event.Refuse, word, reason, grant, other
	s.tells(e)
}
