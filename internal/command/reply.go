package command

import (
	"fmt"
	"strings"
)

// Where things are in an entry of the COMMAND reply. Entries of servers before
// 7.0 end before the key specs.
const (
	atName, atArity, atFlags, atFirst, atLast, atStep = 0, 1, 2, 3, 4, 5
	atTips, atSpecs, atSubs                           = 7, 8, 9
)

// Parse reads the reply to COMMAND as go-redis decodes it, in either protocol: a
// RESP3 map may come as a flat list of names and values.
func Parse(reply any) (*Table, error) {
	entries, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("parse COMMAND reply: a %T, want a list", reply)
	}
	t := &Table{commands: make(map[string]*Command, len(entries))}
	for _, e := range entries {
		if e == nil {
			continue // a name the server was asked for and does not know
		}
		if err := t.parse(e, ""); err != nil {
			return nil, fmt.Errorf("parse COMMAND reply: %w", err)
		}
	}
	return t, nil
}

// parse adds the command of one entry, then those of its sub-commands. container
// is the name of the one it is a sub-command of, if any.
func (t *Table) parse(entry any, container string) error {
	e, _ := entry.([]any)
	if len(e) <= atStep {
		return fmt.Errorf("an entry of %d parts", len(e))
	}
	name, ok := e[atName].(string)
	if !ok || name == "" {
		return fmt.Errorf("a name that is a %T", e[atName])
	}
	c := &Command{Name: strings.ToLower(name)}
	if container != "" && !strings.HasPrefix(c.Name, container+"|") {
		c.Name = container + "|" + c.Name
	}
	arity, ok := e[atArity].(int64)
	if !ok {
		return fmt.Errorf("%s: an arity that is a %T", c.Name, e[atArity])
	}
	c.Arity = int(arity)
	flags, ok := words(e[atFlags])
	if !ok {
		return fmt.Errorf("%s: flags that are a %T", c.Name, e[atFlags])
	}
	for _, f := range flags {
		c.Flags |= flagOf(f)
	}

	if len(e) <= atSpecs {
		first, ok1 := e[atFirst].(int64)
		last, ok2 := e[atLast].(int64)
		step, ok3 := e[atStep].(int64)
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("%s: first, last and step key that are no numbers", c.Name)
		}
		c.legacy = true
		c.legacySpec(int(first), int(last), int(step))
	} else {
		tips, ok := words(e[atTips])
		if !ok {
			return fmt.Errorf("%s: tips that are a %T", c.Name, e[atTips])
		}
		for _, tip := range tips {
			c.tip(tip) // others are none of this package's
		}
		specs, ok := e[atSpecs].([]any)
		if !ok {
			return fmt.Errorf("%s: key specs that are a %T", c.Name, e[atSpecs])
		}
		for _, s := range specs {
			if err := c.parseSpec(s); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
	}
	if !t.add(c) {
		return fmt.Errorf("%s: no such container", c.Name)
	}

	if len(e) > atSubs {
		subs, ok := e[atSubs].([]any)
		if !ok {
			return fmt.Errorf("%s: sub-commands that are a %T", c.Name, e[atSubs])
		}
		for _, s := range subs {
			if err := t.parse(s, c.Name); err != nil {
				return fmt.Errorf("sub-commands of %s: %w", c.Name, err)
			}
		}
	}
	c.settle()
	return nil
}

// tip takes in a hint for clients, as in "request_policy:all_shards". It reports whether it is one for clusters.
func (c *Command) tip(tip string) bool {
	switch what, policy, _ := strings.Cut(tip, ":"); what {
	case "request_policy":
		c.Request = policy
	case "response_policy":
		c.Response = policy
	default:
		return false
	}
	return true
}

// legacySpec makes the spec that first, last and step amount to.
func (c *Command) legacySpec(first, last, step int) {
	access := Read
	if c.Is(FlagWrite) {
		access = Write
	}
	movable := c.Is(FlagMovable)
	if first <= 0 {
		return
	}
	if last >= 0 {
		last -= first
	}
	c.specs = []spec{{
		access: access, incomplete: movable,
		begin: beginIndex, pos: first,
		find: findRange, last: last, step: step,
	}}
}

// parseSpec adds one key spec, unless it is of something that is no key.
func (c *Command) parseSpec(v any) error {
	m, ok := dict(v)
	if !ok {
		return fmt.Errorf("a key spec that is a %T", v)
	}
	flags, ok := words(m["flags"])
	if !ok {
		return fmt.Errorf("key spec flags that are a %T", m["flags"])
	}
	var s spec
	var ro, rw, update, changes, variable, notKey bool
	for _, f := range flags {
		switch f {
		case "RO":
			ro = true
		case "RW":
			rw = true
		case "update":
			update = true
		case "OW", "RM", "insert", "delete":
			changes = true
		case "variable_flags":
			variable = true
		case "incomplete":
			s.incomplete = true
		case "not_key":
			notKey = true
		}
	}
	if notKey {
		return nil
	}
	s.access = Write
	switch {
	case ro && !rw && !update && !changes && !variable:
		s.access = Read
	case c.Is(FlagModule|FlagReadOnly) && rw && !changes:
		// What the server assumes of a module that gives no specs (RW, access and
		// update); the module did say that the command only reads.
		s.access = Read
	}
	if c.Is(FlagModule|FlagMovable) && variable {
		s.incomplete = true // the module tells the keys itself, when asked
	}
	s.parseBegin(m["begin_search"])
	s.parseFind(m["find_keys"])
	c.specs = append(c.specs, s)
	return nil
}

// parseBegin reads begin_search; what it does not know stays unknown.
func (s *spec) parseBegin(v any) {
	kind, m := kindOf(v)
	switch kind {
	case "index":
		if pos, ok := number(m, "index"); ok && pos > 0 {
			s.begin, s.pos = beginIndex, pos
		}
	case "keyword":
		from, ok := number(m, "startfrom")
		word, _ := m["keyword"].(string)
		if ok && from != 0 && word != "" {
			s.begin, s.pos, s.keyword = beginKeyword, from, strings.ToUpper(word)
		}
	}
}

// parseFind reads find_keys; what it does not know stays unknown.
func (s *spec) parseFind(v any) {
	kind, m := kindOf(v)
	step, ok1 := number(m, "keystep")
	switch kind {
	case "range":
		last, ok2 := number(m, "lastkey")
		limit, ok3 := number(m, "limit")
		if ok1 && ok2 && ok3 && step > 0 {
			s.find, s.last, s.step, s.limit = findRange, last, step, limit
		}
	case "keynum":
		at, ok2 := number(m, "keynumidx")
		first, ok3 := number(m, "firstkey")
		if ok1 && ok2 && ok3 && step > 0 {
			s.find, s.numAt, s.first, s.step = findKeynum, at, first, step
		}
	}
}

// kindOf splits {type, spec}.
func kindOf(v any) (kind string, spec map[string]any) {
	m, _ := dict(v)
	kind, _ = m["type"].(string)
	spec, _ = dict(m["spec"])
	return kind, spec
}

// dict reads a map, or the flat list that stands for one in RESP2.
func dict(v any) (map[string]any, bool) {
	m := make(map[string]any)
	switch v := v.(type) {
	case map[any]any:
		for k, e := range v {
			if k, ok := k.(string); ok {
				m[k] = e
			}
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			if k, ok := v[i].(string); ok {
				m[k] = v[i+1]
			}
		}
	default:
		return nil, false
	}
	return m, true
}

// words reads a list or set of strings.
func words(v any) ([]string, bool) {
	l, ok := v.([]any)
	if !ok {
		return nil, false
	}
	w := make([]string, 0, len(l))
	for _, e := range l {
		s, ok := e.(string)
		if !ok {
			return nil, false
		}
		w = append(w, s)
	}
	return w, true
}

// number reads a number of a map. The values of the map are small or from a
// broken server, whose number then stays unknown.
func number(m map[string]any, name string) (int, bool) {
	n, ok := m[name].(int64)
	return int(n), ok && n > -1<<20 && n < 1<<20
}
