package observe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Rule is a proposed rule, with those options that are not the default.
type Rule struct {
	Name          string             `json:"name"`
	Prefix        string             `json:"prefix"`
	Session       string             `json:"session,omitempty"`
	Mode          rule.Mode          `json:"mode"`
	Owner         rule.Owner         `json:"owner,omitempty"`
	WritesPerRead rule.WritesPerRead `json:"writes_per_read,omitempty"`
	MaxHold       Duration           `json:"max_hold,omitzero"`
	Idle          Duration           `json:"idle,omitzero"`

	Why string `json:"why"`
}

// Duration is a time as it is written in a configuration.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(rule.Text(time.Duration(d))), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	t, err := time.ParseDuration(string(text))
	*d = Duration(t)
	return err
}

// many is the share of sequences with further writes from which on a rule lets owners go on writing.
const many = 0.1

// propose returns rules for the patterns that are read and written, and exceptions from them for those that
// are not.
func propose(patterns []Pattern) []Rule {
	stems := map[string]*stem{}
	for i := range patterns {
		if p := &patterns[i]; p.Sequences > 0 && p.labels != nil {
			prefix := head(p.labels)
			if stems[prefix] == nil {
				stems[prefix] = &stem{prefix: prefix}
			}
			stems[prefix].patterns = append(stems[prefix].patterns, p)
		}
	}
	names := map[string]bool{}
	rules := []Rule{}
	for _, prefix := range sortedKeys(stems) {
		rules = append(rules, stems[prefix].rule(names))
	}
	rules = append(rules, exceptions(patterns, stems, names)...)
	for i := range rules {
		if also := besides(patterns, rules, i); also != "" {
			rules[i].Why += "; also guards " + also + ", which would not need it"
		}
	}
	return rules
}

// stem is the patterns that one rule guards: those with the same text before what is variable.
type stem struct {
	prefix   string
	patterns []*Pattern
}

// head is the text that all keys of a pattern begin with.
func head(labels []string) string {
	text, _, _ := strings.Cut(strings.Join(labels, ""), variable)
	return text
}

func (s *stem) rule(names map[string]bool) Rule {
	r := Rule{Prefix: s.prefix, Name: name(s.prefix, names), Session: s.session(), Mode: rule.ModeLock}
	var sequences, further, lost, stale, reads int64
	var held time.Duration
	pools := false
	for _, p := range s.patterns {
		sequences += p.Sequences
		further += p.Further
		lost += p.Lost
		stale += p.Stale
		reads += p.Reads
		held = max(held, p.held)
		pools = pools || p.Pools
	}
	if sequences < reads/2 {
		r.Mode = rule.ModeAuto // most reads are not worth a lock
	}
	if float64(further) >= many*float64(sequences) {
		r.WritesPerRead = rule.Many
	}
	if d := rule.Default(); pools && d.Owner == rule.OwnerConnection {
		r.Owner = rule.OwnerProxy
	}
	if d := rule.Default(); 2*held > d.Idle {
		r.Idle = Duration((2 * held).Round(time.Second))
		if time.Duration(r.Idle) > d.MaxHold {
			r.MaxHold = r.Idle
		}
	}
	r.Why = fmt.Sprintf("%s written after %s, %s lost by %s", count(sequences, "read"), count(reads, "read"), count(lost, "update"), count(stale, "stale write"))
	return r
}

// session is the pattern for a stem's sessions; "" makes each key its own.
func (s *stem) session() string {
	labels := s.patterns[0].labels
	if len(s.patterns) == 1 {
		return captures(labels, len(labels), "")
	}
	// What is before, and with, the first variable is common.
	first := slices.IndexFunc(labels, func(l string) bool { return !isLiteral(l) })
	if first < 0 {
		return ""
	}
	for _, p := range s.patterns[1:] {
		if len(p.labels) <= first || p.labels[first] != labels[first] {
			return "" // one ends where another goes on
		}
	}
	if separator(labels[first]) == 0 {
		return ""
	}
	return captures(labels, first+1, "*")
}

// captures writes the first n labels as a session pattern; "" if nothing in them is variable.
func captures(labels []string, n int, rest string) string {
	var out strings.Builder
	found := 0
	for _, c := range strings.Join(labels[:n], "") {
		switch {
		case string(c) == variable && found == 0:
			out.WriteString("<session>")
			found++
		case string(c) == variable:
			found++
			fmt.Fprintf(&out, "<part%d>", found)
		case strings.ContainsRune(`\*<`, c):
			out.WriteString(`\` + string(c))
		default:
			out.WriteRune(c)
		}
	}
	if found == 0 {
		return ""
	}
	return out.String() + rest
}

// exceptions are rules for keys that need no guard, and would be under that of a shorter prefix. A prefix
// ends with a separator: within a segment it might also be that of other keys.
func exceptions(patterns []Pattern, stems map[string]*stem, names map[string]bool) (rules []Rule) {
	done := map[string]bool{}
	for i := range patterns {
		p := &patterns[i]
		if p.Sequences > 0 || p.labels == nil || p.Reads+p.Writes == 0 {
			continue
		}
		prefix := literals(p.labels)
		under, over := false, done[prefix]
		for other := range stems {
			over = over || strings.HasPrefix(other, prefix) // it would take a guarded pattern out, or is the same
			under = under || strings.HasPrefix(prefix, other)
		}
		if !under || over {
			continue
		}
		done[prefix] = true
		why := "only read"
		switch {
		case p.Atomic == p.Writes && p.Writes > 0:
			why = "changed by atomic updates only"
		case p.Writes > 0:
			why = "no write goes on from a read"
		}
		rules = append(rules, Rule{Name: name(prefix, names), Prefix: prefix, Mode: rule.ModePass, Why: p.Pattern + ": " + why})
	}
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.Prefix, b.Prefix) })
	return rules
}

// literals are the segments before the first that is variable, each with its separator.
func literals(labels []string) string {
	var out strings.Builder
	for _, label := range labels {
		if !isLiteral(label) || separator(label) == 0 {
			break
		}
		out.WriteString(label)
	}
	return out.String()
}

// besides names patterns that a rule guards in vain: they begin like those that need it.
func besides(patterns []Pattern, rules []Rule, at int) string {
	var all []string
	for i := range patterns {
		if p := &patterns[i]; p.Sequences == 0 && p.labels != nil && rules[at].Mode != rule.ModePass && longest(rules, head(p.labels)) == at {
			all = append(all, p.Pattern)
		}
	}
	if len(all) > 3 {
		all = append(all[:3], fmt.Sprintf("%d others", len(all)-3))
	}
	return strings.Join(all, ", ")
}

// longest is the place of the rule with the longest prefix of a text, or -1.
func longest(rules []Rule, text string) int {
	best := -1
	for i := range rules {
		r := &rules[i]
		if strings.HasPrefix(text, r.Prefix) && (best < 0 || len(r.Prefix) > len(rules[best].Prefix)) {
			best = i
		}
	}
	return best
}

// name makes a rule's name of its prefix, unlike those that there are.
func name(prefix string, taken map[string]bool) string {
	text := strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.':
			return c
		}
		return '-'
	}, prefix)
	text = strings.Trim(text, "-_.")
	text = text[:min(len(text), 48)]
	if text == "" {
		text = "all"
	}
	unique := text
	for n := 2; taken[unique]; n++ {
		unique = text + "-" + strconv.Itoa(n)
	}
	taken[unique] = true
	return unique
}

// yaml writes rules as they are pasted under "rules:".
func yaml(rules []Rule) string {
	var out strings.Builder
	for i := range rules {
		r := &rules[i]
		fmt.Fprintf(&out, "  # %s\n", r.Why)
		fmt.Fprintf(&out, "  - name: %s\n", strconv.Quote(r.Name))
		option := func(name, value string, given bool) {
			if given {
				fmt.Fprintf(&out, "    %s: %s\n", name, value)
			}
		}
		option("prefix", strconv.Quote(r.Prefix), true)
		option("session", strconv.Quote(r.Session), r.Session != "")
		option("mode", string(r.Mode), true)
		option("owner", string(r.Owner), r.Owner != "")
		option("writes_per_read", string(r.WritesPerRead), r.WritesPerRead != "")
		option("max_hold", rule.Text(time.Duration(r.MaxHold)), r.MaxHold != 0)
		option("idle", rule.Text(time.Duration(r.Idle)), r.Idle != 0)
	}
	return out.String()
}

func sortedKeys(stems map[string]*stem) []string {
	var all []string
	for prefix := range stems {
		all = append(all, prefix)
	}
	slices.Sort(all)
	return all
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
