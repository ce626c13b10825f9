package admin

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/status"
)

// About is what a proxy says of itself.
type About struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Listen   string    `json:"listen"`
	Upstream string    `json:"upstream"` // without its password
	Provider string    `json:"provider"` // of locks
	Rules    []string  `json:"rules"`    // that guard
	Clients  int       `json:"clients"`  // connected
	Holds    int       `json:"holds"`    // open, listed or not
	Draining bool      `json:"draining"`
}

// Overview is how things are.
type Overview struct {
	At       time.Time  `json:"at"`
	About    About      `json:"about"`
	Ready    bool       `json:"ready"`
	WhyNot   string     `json:"why_not"`   // ready
	CanBreak bool       `json:"can_break"` // with the token
	Now      status.Now `json:"now"`
}

// Config is the configuration in force.
type Config struct {
	File     string    `json:"file"`   // "" if it is from none
	Loaded   time.Time `json:"loaded"` // when it was taken over
	Restart  []string  `json:"restart"`
	Failed   string    `json:"failed"` // why the file as it is now was not taken over; "" if it was
	Contents any       `json:"contents"`
	YAML     []byte    `json:"-"`
}

// Record is what the store says of a session.
type Record struct {
	Grant       uint64         `json:"grant"` // the newest; 0: there is no record
	StoredGrant uint64         `json:"stored_grant"`
	StoredSeq   uint64         `json:"stored_seq"`
	Provider    string         `json:"provider"`
	Holder      *status.Party  `json:"holder"` // null: nobody holds
	LeaseLeft   status.Millis  `json:"lease_left_ms"`
	Waiting     int            `json:"waiting"` // of all proxies
	Waiters     []status.Party `json:"waiters"` // the first of them
}

// Explanation is how a key is guarded.
type Explanation struct {
	Key     string            `json:"key"`
	DB      int               `json:"db"`
	Guarded bool              `json:"guarded"`
	Rule    string            `json:"rule"`
	Session string            `json:"session"`
	Mode    string            `json:"mode"`
	Why     string            `json:"why"` // that rule
	Terms   map[string]string `json:"terms"`
	Keys    []string          `json:"record_keys"`
	Record  *Record           `json:"record"`       // null if it could not be asked for
	Trouble string            `json:"record_error"` // why not
	Learned []Learned         `json:"learned"`
	Known   *status.Known     `json:"known"` // what this proxy has seen of the session lately; null if nothing
}

// Learned is what mode auto knows of one kind of read.
type Learned struct {
	Client  string        `json:"client"`
	Command string        `json:"command"`
	Locks   bool          `json:"locks"`
	Reads   int           `json:"reads"`
	Percent int           `json:"written_percent"`
	Delay   status.Millis `json:"written_after_ms"`
}

// Broken is what became of breaking a hold.
type Broken struct {
	Broken bool          `json:"broken"` // false: nobody held
	Holder *status.Party `json:"holder"` // who did
}

// breakOrder asks for a hold to be broken: by its session's id, or by a key.
type breakOrder struct {
	ID    *status.ID `json:"id"`
	Key   *string    `json:"key"`
	DB    int        `json:"db"`
	Grant uint64     `json:"grant"` // that is to be broken; 0: any
}

// failure is the answer to what could not be done.
type failure struct {
	Error string `json:"error"`
}
