package proxy

import "testing"

func TestReservedKeysAreLeftOutOfLists(t *testing.T) {
	const record = "$21\r\nfence-proxy:{c:s1}:ab\r\n"
	for name, tc := range map[string]struct{ command, reply, want string }{
		"KEYS":                   {"keys", "*3\r\n$1\r\na\r\n" + record + "$1\r\nb\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
		"KEYS of records only":   {"keys", "*2\r\n" + record + record, "*0\r\n"},
		"KEYS without records":   {"keys", "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n"},
		"KEYS of nothing":        {"keys", "*0\r\n", "*0\r\n"},
		"SCAN":                   {"scan", "*2\r\n$2\r\n17\r\n*2\r\n" + record + "$1\r\na\r\n", "*2\r\n$2\r\n17\r\n*1\r\n$1\r\na\r\n"},
		"SCAN of records only":   {"scan", "*2\r\n$1\r\n0\r\n*1\r\n" + record, "*2\r\n$1\r\n0\r\n*0\r\n"},
		"SCAN without records":   {"scan", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n"},
		"an error":               {"scan", "-ERR fence-proxy: is no cursor\r\n", "-ERR fence-proxy: is no cursor\r\n"},
		"a key that is like one": {"keys", "*1\r\n$15\r\nmy-fence-proxy:\r\n", "*1\r\n$15\r\nmy-fence-proxy:\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(unlisted(tc.command, []byte(tc.reply))); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
