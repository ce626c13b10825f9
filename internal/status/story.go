package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// because says why a command was refused, for reasons that need no story.
var because = map[string]string{
	"changed":    "another owner had written the session since it was read",
	"missing":    "the session's fence record was gone: deleted, evicted, flushed or expired",
	"stored":     "a write with this token had been stored already",
	"max_hold":   "the hold had reached max_hold, and was ended",
	"used_up":    "an earlier write of the same owner had used up the read",
	"unsure":     "another task of the same owner had read the key before its last write, and the two could not be told apart",
	"unnamed":    "the same owner had read the key by a command that did not name it, where no fence covers it",
	"unheard":    "it was sent before its client could hear of an earlier refusal",
	"upstream":   "the connection to Redis over which the session was read had broken",
	"revised":    "the rules were changed since the session was read, and the key is in another session now",
	broken:       "somebody broke it",
	"lost":       "the lock provider had ended the hold",
	"not_newest": "the grant that it presented was not the newest one",
	"unfit":      "the agent beside the proxy was not healthy, and its holds were released",
	"held":       "somebody held the session, and the rule has nobody wait",
	"full":       "as many waited for the session already as limits.waiters allows",
	"deadlock":   "the holder waited for a session that the same client held",
	"overtaken":  "a write came behind it on its connection, and must not wait for it",
}

func (r *refusal) view() Refusal {
	v := Refusal{
		Number: r.number, At: r.at, Session: shown(uint64(r.id), r.name), Error: r.word, Reason: r.reason, Command: r.command, Mode: r.own.mode,
		Who: party(r.own.owner), Grant: r.own.grant, Newest: r.newest, Summary: r.summary(),
	}
	v.Waited = Millis(r.waited())
	if by := r.against(); !unknown(by) {
		other := party(by)
		v.Other = &other
	}
	return v
}

// against is who stood against the refused command: as the event says, or else who was granted the session last.
func (r *refusal) against() event.Party {
	if !unknown(r.other) {
		return r.other
	}
	for i := range slices.Backward(r.others) {
		t := &r.others[i]
		if !t.granted.IsZero() && (t.grant > r.own.grant || t.holds()) {
			by := t.owner
			by.Grant, by.Since = t.grant, t.granted
			return by
		}
	}
	return event.Party{}
}

// turnOf returns the other turn that a party's grant was for, nil if none is known.
func (r *refusal) turnOf(p event.Party) *turn {
	for i := range slices.Backward(r.others) {
		if t := &r.others[i]; p.Grant > 0 && t.grant == p.Grant || p.Grant == 0 && t.owner.Owner == p.Owner {
			return t
		}
	}
	return nil
}

// summary is the story in one sentence.
func (r *refusal) summary() string {
	by := r.against()
	switch {
	case r.waited() > 0 && !unknown(by):
		return fmt.Sprintf("waited %s for %s", span(r.waited()), r.call(by))
	case r.waited() > 0:
		return fmt.Sprintf("waited %s in vain", span(r.waited()))
	case r.reason == "superseded" && !unknown(by):
		return "superseded by " + r.call(by)
	case r.reason == "superseded":
		return "superseded by another owner"
	case because[r.reason] != "":
		return because[r.reason]
	}
	return strings.ReplaceAll(r.reason, "_", " ")
}

// waited is how long it waited in vain.
func (r *refusal) waited() time.Duration {
	if r.word != event.Locked {
		return 0
	}
	return r.own.inVain(r.at)
}

// story is the refusal in full.
func (r *refusal) story() Story {
	s := Story{Refusal: r.view(), Story: []string{}, Timeline: r.timeline()}
	say := func(format string, args ...any) { s.Story = append(s.Story, fmt.Sprintf(format, args...)) }
	who, by, command := r.call(r.own.owner), r.against(), r.command
	if command == "" {
		command = "command"
	}
	if !r.own.read.IsZero() {
		if r.own.grant > 0 && !r.own.granted.IsZero() {
			say("%s read the session at %s, under grant %d.", who, clock(r.own.read), r.own.grant)
		} else {
			say("%s read the session at %s.", who, clock(r.own.read))
		}
	}
	if r.own.broken && !r.own.ended.IsZero() && because[r.own.why] != "" {
		say("At %s it lost its hold: %s.", clock(r.own.ended), because[r.own.why])
	}
	if !unknown(by) {
		say("%s", r.successor(by))
	}
	late := ""
	if !r.own.read.IsZero() && r.waited() == 0 {
		late = fmt.Sprintf(", %s after the read", span(r.at.Sub(r.own.read)))
	}
	switch {
	case r.waited() > 0 && r.reason == event.Timeout:
		say("The %s of %s got in line at %s, waited %s, and gave up.", command, who, clock(r.own.asked), span(r.waited()))
	case r.waited() > 0:
		say("The %s of %s got in line at %s, and left it after %s: %s.", command, who, clock(r.own.asked), span(r.waited()), cmp.Or(because[r.reason], r.reason))
	case r.reason == "superseded":
		say("The %s of %s came at %s%s, under a grant that was no longer the newest.", command, who, clock(r.at), late)
	case because[r.reason] != "":
		say("The %s of %s came at %s%s: %s.", command, who, clock(r.at), late, because[r.reason])
	default:
		say("The %s of %s came at %s%s.", command, who, clock(r.at), late)
	}
	say("%s", outcome(r.word))
	return s
}

// outcome is what a refusal came to.
func outcome(word string) string {
	switch word {
	case observed:
		return "The rule only observes: the command went on, and undid what was written in between."
	case dropped:
		return "EXEC answered nil, as the client's own WATCH would have it; nothing was written."
	case event.Unknown:
		return "It was answered with FENCEUNKNOWN: nobody knows whether it was written."
	}
	return "It was refused with " + word + "; nothing was written."
}

// successor says what is known of who stood against the refused command.
func (r *refusal) successor(by event.Party) string {
	text := r.call(by)
	if by.Proxy != r.own.owner.Proxy && by.Proxy != "" {
		text += " of proxy " + Printable(by.Proxy)
	}
	switch {
	case by.Grant > 0 && !by.Since.IsZero():
		text += fmt.Sprintf(" was granted the session at %s, under grant %d", clock(by.Since), by.Grant)
	case by.Grant > 0:
		text += fmt.Sprintf(" was granted the session under grant %d", by.Grant)
	default:
		text += " had the session"
	}
	switch t := r.turnOf(by); {
	case t != nil && t.writes > 0:
		text += fmt.Sprintf(", and wrote it at %s", clock(t.wrote))
	case t != nil && t.holds():
		text += ", and held it still"
	}
	return text + "."
}

// call names a party in a sentence.
func (r *refusal) call(p event.Party) string {
	switch {
	case p.Name != "":
		return Printable(p.Name)
	case p.Client != "":
		return "client " + Printable(p.Client)
	case p.Proxy != "":
		return "a client of proxy " + Printable(p.Proxy)
	}
	return "a client"
}

// timeline are the steps of all turns, oldest first.
func (r *refusal) timeline() []Step {
	steps := r.steps(nil, &r.own, "refused")
	known := false
	for i := range r.others {
		known = known || r.others[i].grant == r.other.Grant
		steps = r.steps(steps, &r.others[i], "other")
	}
	if by := r.other; !known && by.Grant > 0 && !by.Since.IsZero() {
		steps = append(steps, Step{
			At: by.Since, Who: party(by), Role: "other", Kind: string(event.Grant), Grant: by.Grant,
			Text: "was granted the session",
		})
	}
	word := "was refused with " + r.word
	if r.word == observed {
		word = "would have been refused"
	}
	if r.reason != "" {
		word += " (" + strings.ReplaceAll(r.reason, "_", " ") + ")"
	}
	steps = append(steps, Step{
		At: r.at, Who: party(r.own.owner), Role: "refused", Kind: string(event.Refuse), Grant: r.own.grant,
		Text: strings.TrimSpace(r.command + " " + word),
	})
	slices.SortStableFunc(steps, func(a, b Step) int { return a.At.Compare(b.At) })
	for i := range steps {
		steps[i].Before = Millis(r.at.Sub(steps[i].At))
	}
	return steps
}

func (r *refusal) steps(steps []Step, t *turn, role string) []Step {
	step := func(at time.Time, kind event.Kind, format string, args ...any) {
		if !at.IsZero() && !at.After(r.at) {
			steps = append(steps, Step{At: at, Who: party(t.owner), Role: role, Kind: string(kind), Text: fmt.Sprintf(format, args...), Grant: t.grant})
		}
	}
	behind := ""
	if !unknown(t.behind) {
		behind = " behind " + r.call(t.behind)
	}
	step(t.asked, event.Wait, "got in line%s", behind)
	if waited := t.waited(r.at); waited > 0 {
		step(t.granted, event.Grant, "was granted the session, after %s in line", span(waited))
	} else {
		step(t.granted, event.Grant, "was granted the session")
	}
	times := ""
	if t.reads > 1 {
		times = fmt.Sprintf(", %d times in all", t.reads)
	}
	if t.granted.IsZero() {
		times += ", without taking the session"
	}
	step(t.read, event.Read, "read%s", times)
	step(t.wrote, event.Commit, "%s was applied", t.write)
	switch {
	case t.broken:
		step(t.ended, event.Break, "lost the session (%s)", strings.ReplaceAll(t.why, "_", " "))
	case !t.granted.IsZero():
		step(t.ended, event.Release, "gave the session back")
	}
	return steps
}

// clock is a time of day in UTC, to the millisecond.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// span is a time as people say it.
func span(d time.Duration) string {
	trim := func(n float64, digits int) string {
		text := strconv.FormatFloat(n, 'f', digits, 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	switch {
	case d < time.Millisecond:
		return trim(float64(d)/float64(time.Microsecond), 0) + " µs"
	case d < 10*time.Millisecond:
		return trim(float64(d)/float64(time.Millisecond), 1) + " ms"
	case d < time.Second:
		return trim(float64(d)/float64(time.Millisecond), 0) + " ms"
	case d < time.Minute:
		return trim(d.Seconds(), 2) + " s"
	}
	return d.Round(time.Second).String()
}

// Span is a time as people say it: 340 ms, 1.5 s, 2m3s.
func Span(m Millis) string { return span(time.Duration(m)) }
