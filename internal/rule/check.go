package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MinLease is the shortest lease: less could not be renewed in time.
const MinLease = 100 * time.Millisecond

// Limits of the other options, in the units that they are written in.
const (
	maxWait     = 60 * time.Second
	maxDuration = 365 * 24 * time.Hour
	maxName     = 64
	maxReplicas = 100
)

// FieldError says what is wrong with one option of a rule, and what to write
// instead.
type FieldError struct {
	Field   string // the option's name in the configuration file, as "max_hold"
	Problem string // "1s is shorter than lease (30s)"
	Remedy  string // "write 30s or more"
}

func (e *FieldError) Error() string {
	return e.Field + ": " + e.Problem + ": " + e.Remedy
}

// check reports everything that is wrong with r's options.
func (r *Rule) check() error {
	var errs []error
	refuse := func(field, remedy, problem string, args ...any) {
		errs = append(errs, &FieldError{Field: field, Problem: fmt.Sprintf(problem, args...), Remedy: remedy})
	}

	switch {
	case r.Name == "":
		refuse("name", "name the rule, as in name: chat", "is missing")
	case len(r.Name) > maxName || !consistsOf(r.Name, isNameByte):
		refuse("name", "use 1 to 64 letters, digits, _ . or -", "%q cannot be a name", r.Name)
	}
	if strings.HasPrefix(r.Prefix, ReservedPrefix) {
		refuse("prefix", "guard another prefix", "%q is inside %q, which the proxy keeps for itself", r.Prefix, ReservedPrefix)
	}
	if r.Session != "" {
		if p, problem := parsePattern(r.Session); problem != nil {
			errs = append(errs, problem)
		} else if !p.canMatch(r.Prefix) {
			refuse("session", fmt.Sprintf("begin it with %s", quoteLiteral(r.Prefix)),
				"%q matches no key that begins with the prefix %q", r.Session, r.Prefix)
		}
	}

	word := func(field, value, what string, now, later []string) {
		remedy := "write " + oneOf(now)
		switch {
		case slices.Contains(now, value):
		case slices.Contains(later, value):
			refuse(field, remedy, "%q is not supported yet", value)
		default:
			refuse(field, remedy, "%q is not %s", value, what)
		}
	}
	word("mode", string(r.Mode), "a mode",
		[]string{string(ModeLock), string(ModeFence), string(ModeAuto), string(ModeObserve), string(ModePass)}, nil)
	word("owner", string(r.Owner), "an owner",
		[]string{string(OwnerAuto), string(OwnerConnection), string(OwnerClient), string(OwnerProxy)}, nil)
	word("client_by", string(r.ClientBy), "known",
		[]string{string(ByAddress), string(ByName)}, nil)
	r.checkReaders(refuse)
	word("scripts", string(r.Scripts), "known", []string{string(ScriptsRefuse), string(ScriptsAllow)}, nil)
	word("writes_per_read", string(r.WritesPerRead), "known",
		[]string{string(One), string(Many)}, nil)

	r.checkTimes(refuse)
	r.checkDurability(refuse)

	switch {
	case r.LockedError == "":
		refuse("locked_error", "write LOCKED, or TRYAGAIN for clients that retry it", "is empty")
	case !consistsOf(r.LockedError, isErrorByte) || len(r.LockedError) > maxName:
		refuse("locked_error", "write one word of capital letters, digits and _, as in LOCKED", "%q is not the first word of a Redis error", r.LockedError)
	case strings.HasPrefix(r.LockedError, "FENCE") || slices.Contains([]string{"MOVED", "ASK", "NOSCRIPT"}, r.LockedError):
		refuse("locked_error", "write LOCKED or TRYAGAIN", "%q tells clients something else", r.LockedError)
	}
	return errors.Join(errs...)
}

func (r *Rule) checkReaders(refuse func(field, remedy, problem string, args ...any)) {
	for i, name := range r.Readers {
		switch {
		case name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f }):
			refuse("readers", "write an ACL user or a client's name", "%q can be neither a user nor a client's name", name)
		case slices.Contains(r.Readers[:i], name):
			refuse("readers", "remove one", "%q is given twice", name)
		}
	}
}

func (r *Rule) checkDurability(refuse func(field, remedy, problem string, args ...any)) {
	d := r.Durability
	switch {
	case d.Replicas < 0:
		refuse("durability.replicas", "write how many replicas must have a write, or 0 to wait for none", "%d is negative", d.Replicas)
	case d.Replicas > maxReplicas:
		refuse("durability.replicas", "write how many replicas must have a write, fewer than there are", "%d are more than Redis ever has", d.Replicas)
	case d.Replicas > 0:
	case d.Timeout != Default().Durability.Timeout && d.Timeout != 0:
		refuse("durability.replicas", "write how many replicas must have a write, as in replicas: 1", "is missing, and timeout means nothing without it")
		return
	default:
		return
	}
	switch {
	case d.Timeout < time.Millisecond:
		refuse("durability.timeout", "write 1ms or more; 1s is the default", "%s is too short for any replica", Text(d.Timeout))
	case d.Timeout > maxWait:
		refuse("durability.timeout", "write 60s or less, and with wait less than the clients' socket timeout", "%s is longer than any client waits for a reply", Text(d.Timeout))
	}
}

func (r *Rule) checkTimes(refuse func(field, remedy, problem string, args ...any)) {
	sane := true
	for _, t := range []struct {
		field string
		value time.Duration
	}{
		{"wait", r.Wait},
		{"lease", r.Lease},
		{"max_hold", r.MaxHold},
		{"idle", r.Idle},
		{"linger", r.Linger},
		{"record_ttl", r.RecordTTL},
	} {
		if t.value > maxDuration {
			refuse(t.field, "write 8760h or less", "%s is longer than a year", Text(t.value))
			sane = false
		}
	}
	if !sane {
		return // the comparisons below would add nothing
	}
	switch {
	case r.Wait < 0:
		refuse("wait", "write 0s to refuse at once, or a time such as 1500ms", "%s is negative", Text(r.Wait))
	case r.Wait > maxWait:
		refuse("wait", "write 60s or less, and less than the clients' socket timeout", "%s is longer than any client waits for a reply", Text(r.Wait))
	}
	if r.Lease < MinLease {
		refuse("lease", "write 100ms or more; 30s is the default", "%s is too short to renew", Text(r.Lease))
	}
	if r.MaxHold < r.Lease {
		refuse("max_hold", fmt.Sprintf("write %s or more, or shorten lease", Text(r.Lease)),
			"%s is shorter than lease (%s)", Text(r.MaxHold), Text(r.Lease))
	}
	if r.Idle <= 0 {
		refuse("idle", "write a time such as 30s", "%s would end every hold at once", Text(r.Idle))
	}
	switch {
	case r.Linger < 0:
		refuse("linger", "write 0s to release with the commit, or a time such as 50ms", "%s is negative", Text(r.Linger))
	case r.Linger > r.MaxHold:
		refuse("linger", fmt.Sprintf("write %s or less", Text(r.MaxHold)),
			"%s is longer than max_hold (%s)", Text(r.Linger), Text(r.MaxHold))
	}
	if r.RecordTTL < 2*r.MaxHold {
		refuse("record_ttl", fmt.Sprintf("write %s or more", Text(2*r.MaxHold)),
			"%s is shorter than twice max_hold (%s)", Text(r.RecordTTL), Text(r.MaxHold))
	}
}

// oneOf lists what may be written.
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Text writes a duration as a person would: 2m, not 2m0s.
func Text(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func consistsOf(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func isLetterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isNameByte(c byte) bool {
	return isLetterOrDigit(c) || c == '_' || c == '.' || c == '-'
}

func isErrorByte(c byte) bool {
	return 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
