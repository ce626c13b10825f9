// Package rule says which keys are guarded, and how.
//
// A [Rule] guards every key that begins with its prefix. A [Set] finds the
// rule of a key: the longest matching prefix wins, so that a short prefix can
// guard a whole family of keys and a longer one treat some of them otherwise,
// for instance let them pass.
//
//	key  agent:ctx:s42:history
//	     └──prefix─┘
//	     agent:ctx:<session>:*     session pattern
//	               └─s42──┘        session text
//
// # Sessions
//
// The session is the unit of exclusion: two owners may not be in the middle of
// a sequence on the same session. A rule takes its text from the key with a
// pattern, which has to account for the whole key, first byte to last:
//
//   - <name> captures one byte or more. Names are for the reader: letters,
//     digits and "_", each one once.
//   - * stands for any bytes, or none.
//   - \ makes the next byte literal: \* \< \\.
//   - Everything else stands for itself, braces and ">" included.
//
// Captures and stars are wildcards. Each ends at the first place where the
// literal text after it begins; the last one takes all that is left, up to the
// literal text that closes the pattern, if any. Two wildcards with nothing
// between them are refused, since nothing would say where the first one ends.
// This is what a regular expression with (.+?) and .*? finds, anchored at both
// ends, but without backtracking: a literal's first occurrence leaves the most
// room for the rest, so where it leads to no match no later one does, and the
// time is linear in the length of the key.
//
//	agent:ctx:<session>:*    agent:ctx:s42:history    s42
//	agent:ctx:<session>:*    agent:ctx:s42:a:b        s42
//	t:<tenant>:<session>     t:acme:s42:x             acme:s42\:x
//	*:<session>:state        app:v2:s42:state         v2:s42 (the star ends at the first ":")
//
// Without a pattern each key is its own session and the key is the text. A key
// under the prefix that does not fit the pattern is its own session too.
//
// # Session texts do not collide
//
// Within a rule, equal texts mean equal sessions:
//
//   - a key that does not fit the pattern gives "=" and the key;
//   - one capture gives the captured bytes, and several are joined with ":",
//     "\" being put before each ":" and "\" in them;
//   - a text of captures that would begin with "=" (or, with one capture, with
//     "\") gets a "\" in front.
//
// Texts of different rules may be equal; whoever stores them adds the name of
// the rule.
//
// # Building rules
//
// [Default] holds every option's default. [New] fills in what was left zero;
// [Compile] takes zero at its word and is for values that a person wrote. Both
// report all that is wrong, one [FieldError] for each option.
//
// A compiled rule and a set never change, and may be used by many goroutines.
package rule
