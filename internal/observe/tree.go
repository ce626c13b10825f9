package observe

import (
	"cmp"
	"slices"
	"strings"
)

// tree has the patterns of the keys, segment by segment:
//
//	agent: ─ ctx: ─ *: ─ history
//	                 └── state
//
// Where too many literal texts come at one place, they are what is variable there.
type tree struct {
	root  node
	nodes int
	rest  *stats // of keys that found no place
}

// node is one place in a key.
type node struct {
	label    string // the segment with its separator
	children map[string]*node
	stats    *stats                    // of keys that end here; nil if there are none
	variable [1 + len(separators)]bool // by separator: any text is one child
}

// families is how many of one family make it variable.
const families = 4

// find returns the stats of a key.
func (t *tree) find(key []byte) *stats {
	n := &t.root
	for _, label := range segments(key) {
		next := n.child(label)
		if next == nil {
			if t.nodes >= maxNodes {
				if t.rest == nil {
					t.rest = newStats()
				}
				return t.rest
			}
			next = t.grow(n, label)
		}
		n = next
	}
	if n.stats == nil {
		n.stats = newStats()
	}
	return n.stats
}

// separator is the sign that ends a label, or 0.
func separator(label string) byte {
	if last := len(label) - 1; last >= 0 && strings.IndexByte(separators, label[last]) >= 0 {
		return label[last]
	}
	return 0
}

// place is a separator's in node.variable.
func place(separator byte) int { return 1 + strings.IndexByte(separators, separator) }

// anything is the label of any text before a separator.
func anything(separator byte) string {
	if separator == 0 {
		return variable
	}
	return variable + string(separator)
}

func isLiteral(label string) bool { return !strings.Contains(label, variable) }

// isText reports whether a label is a literal text, not a separator alone.
func isText(label string) bool {
	return isLiteral(label) && len(label) > 0 && !(len(label) == 1 && separator(label) != 0)
}

// child finds where a label belongs.
func (n *node) child(label string) *node {
	if c := n.children[label]; c != nil || !isText(label) {
		return c
	}
	if c := n.children[family(label)]; c != nil {
		return c
	}
	if end := separator(label); n.variable[place(end)] {
		return n.children[anything(end)]
	}
	return nil
}

// grow adds a child, and makes one of all that are too many.
func (t *tree) grow(n *node, label string) *node {
	c := &node{label: label}
	t.add(n, c)
	if !isText(label) {
		return c
	}
	end := separator(label)
	if kin := n.literals(func(l string) bool { return family(l) == family(label) }); len(kin) >= families && family(label) != label {
		return t.unite(n, family(label), kin)
	}
	if all := n.literals(func(l string) bool { return separator(l) == end }); len(all) > maxSiblings {
		n.variable[place(end)] = true
		return t.unite(n, anything(end), all)
	}
	return c
}

func (t *tree) add(n, c *node) {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	n.children[c.label] = c
	t.nodes++
}

// literals returns the children with literal texts that fit.
func (n *node) literals(fits func(label string) bool) (all []*node) {
	for _, c := range n.sorted() {
		if isText(c.label) && fits(c.label) {
			all = append(all, c)
		}
	}
	return all
}

func (n *node) sorted() []*node {
	all := make([]*node, 0, len(n.children))
	for _, c := range n.children {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *node) int { return cmp.Compare(a.label, b.label) })
	return all
}

// unite makes one child of several.
func (t *tree) unite(n *node, label string, some []*node) *node {
	into := n.children[label]
	if into == nil {
		into = &node{label: label}
		t.add(n, into)
	}
	for _, c := range some {
		if c != into {
			delete(n.children, c.label)
			t.nodes--
			t.merge(into, c)
		}
	}
	return into
}

// merge takes a node, which has lost its place, into another.
func (t *tree) merge(into, from *node) {
	switch {
	case from.stats == nil:
	case into.stats == nil:
		into.stats = from.stats
	default:
		into.stats.merge(from.stats)
	}
	for end := range from.variable {
		into.variable[end] = into.variable[end] || from.variable[end]
	}
	for _, c := range from.sorted() {
		t.nodes--
		if there := into.child(c.label); there != nil {
			t.merge(there, c)
			continue
		}
		t.merge(t.grow(into, c.label), c)
	}
}

// The numbers of names that are taken for variable once nothing more comes.
const (
	fewKin    = 2 // of one family
	fewTwins  = 2 // with the same segments behind them
	manyTwins = 8 // at the start of the key, where environments and applications have theirs
	fewLeaves = 4 // with nothing behind them, all read and written
)

// settle takes names for variable that are few, but alike.
func (t *tree) settle() { t.settleBelow(&t.root, 0) }

func (t *tree) settleBelow(n *node, depth int) {
	for _, c := range n.sorted() {
		t.settleBelow(c, depth+1)
	}
	for _, c := range n.literals(func(string) bool { return true }) {
		kin := n.literals(func(l string) bool { return family(l) == family(c.label) })
		if len(kin) >= fewKin && family(c.label) != c.label {
			t.unite(n, family(c.label), kin)
		}
	}
	enough := fewTwins
	if depth == 0 {
		enough = manyTwins
	}
	for _, c := range n.literals(func(string) bool { return true }) {
		if n.children[c.label] != c || len(c.children) == 0 {
			continue
		}
		end, like := separator(c.label), c.signature()
		twins := n.literals(func(l string) bool { return separator(l) == end && n.children[l].signature() == like })
		twin := n.children[anything(end)]
		if len(twins) >= enough || twin != nil && twin.signature() == like {
			t.unite(n, anything(end), twins)
		}
	}
	leaves := n.literals(func(l string) bool {
		c := n.children[l]
		return separator(l) == 0 && len(c.children) == 0 && c.stats != nil && c.stats.sequences > 0
	})
	if depth > 0 && len(leaves) >= fewLeaves {
		t.unite(n, variable, leaves)
	}
}

// signature is the same for nodes with the same segments behind them.
func (n *node) signature() string {
	var b strings.Builder
	for _, c := range n.sorted() {
		b.WriteString(c.label + "(" + c.signature() + ")")
	}
	return b.String()
}

// all yields the patterns, in order.
func (t *tree) all(yield func(labels []string, s *stats) bool) {
	var walk func(n *node, path []string) bool
	walk = func(n *node, path []string) bool {
		if n.stats != nil && !yield(path, n.stats) {
			return false
		}
		for _, c := range n.sorted() {
			if !walk(c, append(slices.Clone(path), c.label)) {
				return false
			}
		}
		return true
	}
	walk(&t.root, nil)
}
