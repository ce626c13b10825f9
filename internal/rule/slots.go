package rule

import "bytes"

// Spans reports whether keys of one session may be in several slots of a Redis Cluster. They are in one if each key is its
// own session, or if the pattern has a hash tag that is the same for all keys of a session: its opening brace stands ahead of every wildcard, and
// only literal text and captures stand between the two.
func (r *Rule) Spans() bool { return r.pattern != nil && !r.pattern.tags() }

// tags reports whether all keys of a session have one hash tag.
func (p *pattern) tags() bool {
	open := bytes.IndexByte(p.head, '{')
	if open < 0 {
		return false
	}
	if length := bytes.IndexByte(p.head[open+1:], '}'); length >= 0 {
		return length > 0
	}
	for i := range p.parts {
		if p.parts[i].name == "" {
			return false
		}
		if bytes.IndexByte(p.parts[i].until, '}') >= 0 {
			return true
		}
	}
	return false
}
