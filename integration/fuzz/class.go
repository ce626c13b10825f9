package fuzz

import (
	"bytes"
	"slices"
)

// class is how the replies of a command are compared. Errors are always compared byte by byte.
type class int

const (
	exact     class = iota // byte by byte
	about                  // a time: a minute may lie between
	unordered              // byte by byte, but for the order of elements
	shape                  // types and lengths
	kind                   // the type only
)

// classes are those of commands whose tips do not tell.
var classes = map[string]struct {
	class  class
	reason string
}{
	"ttl":         {about, "what is left of a time"},
	"pttl":        {about, "what is left of a time"},
	"expiretime":  {about, "a time that counts from now"},
	"pexpiretime": {about, "a time that counts from now"},

	"object|encoding": {exact, "both servers are of one version"},
	"object|refcount": {exact, "both servers are of one version"},
	"xtrim":           {exact, "both servers are of one version"},

	"hello":             {shape, "tells the connection's id"},
	"client|id":         {shape, "tells the connection's id"},
	"xinfo|stream":      {shape, "FULL tells when a consumer was seen"},
	"memory|usage":      {shape, "the allocator decides"},
	"acl|log":           {kind, "tells ages and addresses"},
	"acl|genpass":       {shape, "random"},
	"slowlog|get":       {kind, "tells what was slow"},
	"slowlog|len":       {kind, "tells what was slow"},
	"lolwut":            {kind, "random"},
	"info":              {kind, "tells about the server"},
	"config|get":        {kind, "tells ports and paths, in the order of a hash table"},
	"client|list":       {kind, "tells about all connections"},
	"client|info":       {kind, "tells about the connection"},
	"latency|latest":    {kind, "tells what was slow"},
	"latency|history":   {kind, "tells what was slow"},
	"latency|histogram": {kind, "tells how fast commands were"},
	"function|dump":     {kind, "libraries come in the order of a hash table"},
	"function|stats":    {kind, "lists engines and running scripts"},
	"memory|stats":      {kind, "the allocator decides"},

	"scan":  {kind, "pages depend on a hash seed"},
	"sscan": {kind, "pages depend on a hash seed"},
	"hscan": {kind, "pages depend on a hash seed"},
	"zscan": {kind, "pages depend on a hash seed"},

	"command":              {unordered, "in the order of a hash table"},
	"command|docs":         {unordered, "in the order of a hash table"},
	"command|info":         {unordered, "sub-commands come in the order of a hash table"},
	"command|list":         {unordered, "in the order of a hash table"},
	"acl|cat":              {unordered, "in the order of a hash table"},
	"pubsub|channels":      {unordered, "in the order of a hash table"},
	"pubsub|shardchannels": {unordered, "in the order of a hash table"},
}

// classOf is the class of a call's reply.
func classOf(s *Step) class {
	c := s.Command
	if c == nil {
		return exact
	}
	switch {
	case c.Name == "sort" || c.Name == "sort_ro":
		// BY a constant leaves a set in the order of its hash table, and ALPHA so leaves what differs
		// behind a NUL byte only; LIMIT cuts that.
		if slices.ContainsFunc(s.Args, func(a string) bool { return lower(a) == "by" || lower(a) == "alpha" }) {
			return kind
		}
	case c.tips["nondeterministic_output"] && classes[c.Name].reason == "":
		return shape
	case c.tips["nondeterministic_output_order"]:
		return unordered
	}
	return classes[c.Name].class
}

// queue follows which replies are those of a transaction.
type queue struct {
	open   bool
	queued []*Step
}

// take notes a step and its reply.
func (q *queue) take(s *Step, reply []byte) {
	name := ""
	if s.Command != nil {
		name = s.Command.Name
	}
	switch {
	case bytes.Equal(reply, []byte("+QUEUED\r\n")):
		q.queued = append(q.queued, s)
	case name == "multi" && reply[0] == '+':
		q.open, q.queued = true, nil
	case q.open && (name == "exec" || (name == "discard" || name == "reset") && reply[0] == '+'):
		q.open = false
	}
}

// same compares the replies to a step. q is as it was before it.
func same(q *queue, s *Step, want, got []byte) bool {
	if bytes.Equal(want, got) {
		return true
	}
	w, g := parse(want), parse(got)
	if q.open && s.Command != nil && s.Command.Name == "exec" && len(w.elems) == len(q.queued) && len(g.elems) == len(w.elems) && w.typ == g.typ {
		for i, e := range w.elems {
			if !alike(classOf(q.queued[i]), e, g.elems[i]) {
				return false
			}
		}
		return len(w.elems) > 0
	}
	return alike(classOf(s), w, g)
}

func alike(c class, want, got value) bool {
	if want.isError() || got.isError() {
		return want.typ == got.typ && want.text == got.text
	}
	switch c {
	case about:
		return want.sorted() == got.sorted() || want.typ == ':' && got.typ == ':' && near(want.text, got.text, 60_000)
	case unordered:
		return want.sorted() == got.sorted()
	case shape:
		return want.shape() == got.shape()
	case kind:
		return want.typ == got.typ && want.null == got.null
	}
	return equal(want, got)
}

func equal(a, b value) bool {
	return a.typ == b.typ && a.null == b.null && a.text == b.text && slices.EqualFunc(a.elems, b.elems, equal)
}
