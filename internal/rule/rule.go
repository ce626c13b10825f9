package rule

import (
	"fmt"
	"time"
)

// ReservedPrefix begins the keys of the proxy's own records. No rule may guard
// a prefix inside it.
const ReservedPrefix = "fence-proxy:"

// Mode says what a rule does to the commands on its keys.
type Mode string

const (
	// ModeLock makes a guarded read take the session's lock and the write that
	// follows commit and release it.
	ModeLock Mode = "lock"
	// ModeFence makes a guarded read take no lock: it remembers the last token stored, and the write
	// that follows is applied if that is still the last one and nobody holds the session.
	ModeFence Mode = "fence"
	// ModeAuto makes a read lock where reads of its kind have been followed by a write of the same owner, and be as in
	// [ModeFence] elsewhere. The default.
	ModeAuto Mode = "auto"
	// ModeObserve does as [ModeFence] and enforces nothing: it counts what would be refused.
	ModeObserve Mode = "observe"
	// ModePass guards nothing: it exempts a prefix from a shorter one.
	ModePass Mode = "pass"
)

// Owner says whose reads and writes belong together.
type Owner string

const (
	// OwnerAuto makes each client connection an owner, until its client turns out
	// to pool its connections; then it is as OwnerClient. The default.
	OwnerAuto Owner = "auto"
	// OwnerConnection makes each client connection an owner.
	OwnerConnection Owner = "connection"
	// OwnerClient makes all connections of one client an owner; ClientBy says
	// which they are.
	OwnerClient Owner = "client"
	// OwnerProxy makes everything behind this proxy one owner.
	OwnerProxy Owner = "proxy"
)

// ClientBy says which connections are one client's.
type ClientBy string

const (
	// ByAddress takes connections with the same peer address, ACL user and
	// library for one client's. The default.
	ByAddress ClientBy = "address"
	// ByName takes connections with the same name (CLIENT SETNAME) for one
	// client's; those without a name are told apart as by address.
	ByName ClientBy = "name"
)

// WritesPerRead says whether a write uses up the reads before it.
type WritesPerRead string

const (
	// One ends the sequence at its first write. The default.
	One WritesPerRead = "one"
	// Many lets a sequence go on writing until it is released or ends.
	Many WritesPerRead = "many"
)

// Scripts says what becomes of scripts that name keys of the rule without declaring any.
type Scripts string

const (
	// ScriptsRefuse refuses them. The default.
	ScriptsRefuse Scripts = "refuse"
	// ScriptsAllow passes them on: what they write is not fenced.
	ScriptsAllow Scripts = "allow"
)

// RefusesScripts reports whether scripts that name keys of the rule have to declare them. Where the prefix is empty any text
// is such a name, so they don't; nor where nothing is enforced.
func (r *Rule) RefusesScripts() bool {
	return r.Enforces() && r.Prefix != "" && r.Scripts != ScriptsAllow
}

// Rule guards every key with a prefix. Its fields are the options of a rule in
// the configuration file, under the names in their tags, and do not change once
// the rule is compiled.
type Rule struct {
	// Name stands for the rule in messages and metrics: 1 to 64 letters,
	// digits, "_", "." or "-", unlike that of any other rule. Required.
	Name string `yaml:"name"`
	// Prefix begins every key of the rule. The empty prefix guards every key.
	Prefix string `yaml:"prefix"`
	// Session is the pattern that takes the session from the key; the package
	// comment has its language. Default "": each key is its own session.
	Session string `yaml:"session"`
	// Mode says what the rule does. Default [ModeAuto].
	Mode Mode `yaml:"mode"`
	// Owner says whose reads and writes belong together. Default
	// [OwnerAuto].
	Owner Owner `yaml:"owner"`
	// ClientBy says which connections are one client's, where Owner asks for
	// that. Default [ByAddress].
	ClientBy ClientBy `yaml:"client_by"`
	// Readers are the ACL users, or names (CLIENT SETNAME), of clients whose
	// reads take no session and begin no sequence; their writes are guarded as
	// those of others that read nothing. "default" is whoever has not logged in
	// otherwise. Default none.
	Readers []string `yaml:"readers"`
	// WritesPerRead says whether a write uses up the reads before it. Default
	// [One].
	WritesPerRead WritesPerRead `yaml:"writes_per_read"`
	// Scripts says what becomes of EVAL, EVALSHA and FCALL whose arguments or text name keys of the rule, though
	// they declare none. Default [ScriptsRefuse].
	Scripts Scripts `yaml:"scripts"`
	// Wait is how long a command waits for a session that another owner holds
	// before it is refused; 0 refuses at once. At most 60s, default 1500ms,
	// which is below the socket timeouts of common clients: one that gives up
	// first sends its command again.
	Wait time.Duration `yaml:"wait"`
	// Lease is how long a hold outlives a proxy that was killed; it is renewed
	// at a third of this while the owner lives. At least 100ms, default 30s.
	Lease time.Duration `yaml:"lease"`
	// MaxHold ends every hold, however alive its owner is. At least Lease,
	// default 2m.
	MaxHold time.Duration `yaml:"max_hold"`
	// Idle ends a hold whose owner sent no guarded command for so long.
	// Default 30s.
	Idle time.Duration `yaml:"idle"`
	// Linger is how long a hold is kept after a commit, so that the next
	// sequence of the same owner finds it. At most MaxHold; default 0, released
	// with the commit.
	Linger time.Duration `yaml:"linger"`
	// RecordTTL is how long the fence record stays after the session's last
	// use. At least twice MaxHold, default 1h.
	RecordTTL time.Duration `yaml:"record_ttl"`
	// Durability says how many replicas must have a write before its client hears of it.
	Durability Durability `yaml:"durability"`
	// LockedError is the first word of the refusal after waiting; some clients
	// retry certain words by themselves, as go-redis does TRYAGAIN. Default
	// "LOCKED".
	LockedError string `yaml:"locked_error"`
	// Preset names the one that the rule is from; "" for none. The
	// rule is the same without it.
	Preset string `yaml:"preset"`

	pattern *pattern // nil where each key is its own session
}

// Durability has the client of a guarded write wait until replicas have it.
type Durability struct {
	// Replicas is how many have to. Default 0: none, the client hears of it at once.
	Replicas int `yaml:"replicas"`
	// Timeout is how long they may take; then the client hears that the write was carried out, but is not there. It comes on top of
	// [Rule.Wait]. From 1ms to 60s, default 1s.
	Timeout time.Duration `yaml:"timeout"`
}

// String says it for people.
func (d Durability) String() string {
	if d.Replicas == 0 {
		return "no replica is waited for"
	}
	return fmt.Sprintf("%d replicas within %s, else -FENCEUNKNOWN", d.Replicas, Text(d.Timeout))
}

// Default returns the defaults of all options; name and prefix have none.
func Default() Rule {
	return Rule{
		Mode:          ModeAuto,
		Owner:         OwnerAuto,
		ClientBy:      ByAddress,
		WritesPerRead: One,
		Scripts:       ScriptsRefuse,
		Wait:          1500 * time.Millisecond,
		Lease:         30 * time.Second,
		MaxHold:       2 * time.Minute,
		Idle:          30 * time.Second,
		Linger:        0,
		RecordTTL:     time.Hour,
		Durability:    Durability{Timeout: time.Second},
		LockedError:   "LOCKED",
	}
}

// New compiles r after giving the options that are zero their default, save
// Wait and Linger, where zero means none. Start from [Default] to have theirs
// too.
func New(r Rule) (*Rule, error) {
	d := Default()
	orDefault(&r.Mode, d.Mode)
	orDefault(&r.Owner, d.Owner)
	orDefault(&r.ClientBy, d.ClientBy)
	orDefault(&r.WritesPerRead, d.WritesPerRead)
	orDefault(&r.Scripts, d.Scripts)
	orDefault(&r.Lease, d.Lease)
	orDefault(&r.MaxHold, d.MaxHold)
	orDefault(&r.Idle, d.Idle)
	orDefault(&r.RecordTTL, d.RecordTTL)
	orDefault(&r.Durability.Timeout, d.Durability.Timeout)
	orDefault(&r.LockedError, d.LockedError)
	return Compile(r)
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Compile checks r as it is and compiles its pattern. The error joins one
// [*FieldError] for each thing that is wrong.
func Compile(r Rule) (*Rule, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Session != "" {
		p, problem := parsePattern(r.Session)
		if problem != nil {
			return nil, problem
		}
		r.pattern = p
	}
	return &r, nil
}
