package rule

// wholeKey marks the session text of a key that does not fit its rule's
// pattern.
const wholeKey = '='

// AppendSession appends the text of the key's session to dst and returns the
// extended slice. The key is one that [Set.Match] gave the rule for. Nothing is
// allocated but what dst needs to grow, and neither slice is kept.
func (r *Rule) AppendSession(dst, key []byte) []byte {
	if r.pattern == nil {
		return append(dst, key...)
	}
	start := len(dst)
	dst, fits := r.pattern.appendCaptures(dst, key)
	if fits {
		return dst
	}
	dst = append(dst[:start], wholeKey)
	return append(dst, key...)
}
