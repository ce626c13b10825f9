package status

import (
	"encoding/json"
	"math"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// Millis is a time in JSON: a number of milliseconds, with up to three decimals.
type Millis time.Duration

// MarshalJSON writes the number.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(m)/1000) / 1000)
}

// UnmarshalJSON reads the number.
func (m *Millis) UnmarshalJSON(text []byte) error {
	var ms float64
	err := json.Unmarshal(text, &ms)
	*m = Millis(ms * float64(time.Millisecond))
	return err
}

// Session is a session as it is shown.
type Session struct {
	ID      ID     `json:"id"`
	DB      int    `json:"db"`
	Rule    string `json:"rule"`
	Session string `json:"session"`           // what is no text in it is written as \x1b
	Clipped bool   `json:"clipped,omitempty"` // the session's name is longer
}

func shown(id uint64, n Name) Session {
	return Session{ID: ID(id), DB: n.DB, Rule: Printable(n.Rule), Session: Printable(n.Session), Clipped: n.Clipped}
}

// Party is somebody who holds, waits or is refused.
type Party struct {
	Proxy  string     `json:"proxy"`
	Client string     `json:"client"` // address
	Name   string     `json:"name,omitempty"`
	Owner  string     `json:"owner,omitempty"`
	Grant  uint64     `json:"grant,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
}

func party(p event.Party) Party {
	shown := Party{Proxy: Printable(p.Proxy), Client: Printable(p.Client), Name: Printable(p.Name), Owner: Printable(p.Owner), Grant: p.Grant}
	if !p.Since.IsZero() {
		shown.Since = &p.Since
	}
	return shown
}

// unknown reports whether nobody is meant.
func unknown(p event.Party) bool { return p.Proxy == "" && p.Client == "" && p.Owner == "" }

// Hold is an open hold of this proxy's clients.
type Hold struct {
	Session
	Holder     Party     `json:"holder"`
	Mode       string    `json:"mode"`
	Command    string    `json:"command"` // that took it
	Grant      uint64    `json:"grant"`
	Since      time.Time `json:"since"`
	Age        Millis    `json:"age_ms"`
	LeaseLeft  *Millis   `json:"lease_left_ms"` // null if it is not known
	Waited     Millis    `json:"waited_ms"`     // before it was granted
	Reads      int       `json:"reads"`
	Writes     int       `json:"writes"`
	Waiting    int       `json:"waiting"`    // behind it, of this proxy's clients
	Apart      bool      `json:"apart"`      // it was acquired by itself, and belongs to no connection
	Superseded bool      `json:"superseded"` // somebody was granted the session since: its write will be refused
}

// Waiter is somebody in line.
type Waiter struct {
	Party
	Command string `json:"command"`
	Waited  Millis `json:"waited_ms"`
}

// Queue is a session for which clients of this proxy wait.
type Queue struct {
	Session
	Holder  *Party   `json:"holder"` // null if it is not known
	Waiting int      `json:"waiting"`
	Longest Millis   `json:"longest_ms"`
	First   []Waiter `json:"first"` // the first few in line
}

// Turn is one sequence's time on a session. Times are null for what has not happened.
type Turn struct {
	Who     Party      `json:"who"`
	Mode    string     `json:"mode"`
	Command string     `json:"command"` // that began it
	Grant   uint64     `json:"grant"`
	State   string     `json:"state"` // waiting, holding, read, ended, broken
	Reason  string     `json:"reason,omitempty"`
	Asked   *time.Time `json:"asked"`
	Granted *time.Time `json:"granted"`
	Read    *time.Time `json:"read"`
	Reads   int        `json:"reads"`
	Wrote   *time.Time `json:"wrote"`
	Writes  int        `json:"writes"`
	Ended   *time.Time `json:"ended"`
}

// Known is what the collector knows of one session.
type Known struct {
	Session
	Turns []Turn `json:"turns"` // newest first
}

// Refusal is a command that was refused.
type Refusal struct {
	Number uint64    `json:"number"` // counts up
	At     time.Time `json:"at"`
	Session
	Error   string `json:"error"` // first word of the reply; OBSERVED: there was none, since the rule only observes; NIL: EXEC answered nil
	Reason  string `json:"reason"`
	Command string `json:"command"`
	Mode    string `json:"mode"`
	Who     Party  `json:"who"`
	Grant   uint64 `json:"grant"`  // presented; 0: none
	Newest  uint64 `json:"newest"` // of the session; 0: not known
	Other   *Party `json:"other"`  // who stood against it; null if that is not known
	Waited  Millis `json:"waited_ms"`
	Summary string `json:"summary"` // one sentence
}

// Story is a refusal with all that is known of how it came to be.
type Story struct {
	Refusal
	Story    []string `json:"story"`    // sentences
	Timeline []Step   `json:"timeline"` // oldest first
}

// Step is one step of a story.
type Step struct {
	At     time.Time `json:"at"`
	Before Millis    `json:"before_ms"` // the refusal
	Who    Party     `json:"who"`
	Role   string    `json:"role"` // refused, other
	Kind   string    `json:"kind"` // wait, grant, read, commit, release, break, refuse
	Text   string    `json:"text"`
	Grant  uint64    `json:"grant,omitempty"`
}

// Times are how long something took.
type Times struct {
	Count   int    `json:"count"`
	Median  Millis `json:"p50_ms"`
	P99     Millis `json:"p99_ms"`
	Longest Millis `json:"max_ms"`
}

func (t *times) view() Times {
	return Times{t.count(), Millis(t.quantile(.5)), Millis(t.quantile(.99)), Millis(t.longest)}
}

// Figures are what was counted in a span of time.
type Figures struct {
	Grants   int   `json:"grants"`
	Commits  int   `json:"commits"`
	Locked   int   `json:"locked"`   // refused after waiting in vain
	Fenced   int   `json:"fenced"`   // refused for any other reason
	Observed int   `json:"observed"` // would have been refused, where the rule only observes
	Breaks   int   `json:"breaks"`   // holds lost
	Waits    Times `json:"waits"`    // of those that waited
	Holds    Times `json:"holds"`    // that ended
}

func (f *figures) view() Figures {
	return Figures{
		Grants: int(f.grants), Commits: int(f.commits), Locked: int(f.locked), Fenced: int(f.fenced), Observed: int(f.observed), Breaks: int(f.breaks),
		Waits: f.waits.view(), Holds: f.holds.view(),
	}
}

// Point is a span of time in a chart.
type Point struct {
	Start time.Time `json:"start"`
	Figures
}

// Hot is a session that is waited for or refused often.
type Hot struct {
	Session
	Count    int    `json:"count"` // of waits and refusals
	Over     int    `json:"over"`  // by how much count may be too high
	Waits    int    `json:"waits"`
	Refusals int    `json:"refusals"`
	Waited   Millis `json:"waited_ms"` // in all
}

// Now is how things are in sum.
type Now struct {
	Holding     int     `json:"holding"`      // open holds that are known
	Waiting     int     `json:"waiting"`      // commands in line
	LastRefusal uint64  `json:"last_refusal"` // its number
	Minute      Figures `json:"minute"`       // the last one
	Hour        Figures `json:"hour"`
}
