package upstream

import "github.com/fence-proxy/fence-proxy/internal/resp"

// Mode says what Redis may send unasked on a connection. It changes with certain replies (see
// Exchange.After) and with each confirmation of a subscription.
type Mode struct {
	RESP3    bool
	Monitors bool // lines of MONITOR come

	channels, patterns, shards int // subscriptions
}

// Subscribed reports whether the connection has any subscription.
func (m Mode) Subscribed() bool { return m.Listens() || m.shards > 0 }

// Listens reports whether it has a subscription that only its client can end. Those of shards end
// when their slot moves.
func (m Mode) Listens() bool { return m.channels+m.patterns > 0 }

// confirmed takes in a confirmation: its word, and the number of subscriptions that it tells.
func (m *Mode) confirmed(word string, total int) {
	switch word {
	case "subscribe", "unsubscribe": // counted together with patterns
		m.channels = max(total-m.patterns, 0)
	case "psubscribe", "punsubscribe":
		m.patterns = max(total-m.channels, 0)
	default:
		m.shards = total
	}
}

// count is the number of subscriptions that a word is about.
func (m Mode) count(word string) int {
	switch word {
	case "subscribe", "unsubscribe":
		return m.channels
	case "psubscribe", "punsubscribe":
		return m.patterns
	default:
		return m.shards
	}
}

// Executed takes in the confirmations in an EXEC's reply.
func (m *Mode) Executed(frame []byte) {
	v, _, err := resp.ParseValue(frame)
	if err != nil || v.Type != '*' {
		return
	}
	for _, e := range v.Elems {
		m.confirmation(e)
	}
}

// IsConfirmation reports whether a frame confirms a subscription.
func IsConfirmation(frame []byte) bool {
	v, _, err := resp.ParseValue(frame)
	return err == nil && new(Mode).confirmation(v) != ""
}

// IsMessage reports whether a frame that may be a reply reads like a message or the confirmation of a subscription.
func IsMessage(frame []byte) bool {
	v, _, err := resp.ParseValue(frame)
	if err != nil || len(v.Elems) < 3 || len(v.Elems) > 4 {
		return false
	}
	switch kindOf(v.Elems[0].Str) {
	case message, patternMessage, confirmation:
		return true
	}
	return false
}

// confirmation takes in a value that may be a confirmation, and returns its word.
func (m *Mode) confirmation(v resp.Value) string {
	if len(v.Elems) != 3 || v.Elems[2].Type != ':' {
		return ""
	}
	word := string(v.Elems[0].Str)
	if kindOf(v.Elems[0].Str) != confirmation {
		return ""
	}
	m.confirmed(word, int(v.Elems[2].Int))
	return word
}
