package rule

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestZeroOptionsTakeTheirDefaultsButWaitAndLinger(t *testing.T) {
	t.Parallel()
	got, err := New(Rule{Name: "chat", Prefix: "agent:"})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Name, want.Prefix, want.Wait = "chat", "agent:", 0
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

func TestTheDefaultsAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	want := Rule{
		Mode: "auto", Owner: "auto", ClientBy: "address", WritesPerRead: "one", Scripts: "refuse",
		Wait: 1500 * time.Millisecond, Lease: 30 * time.Second, MaxHold: 2 * time.Minute, Idle: 30 * time.Second,
		RecordTTL: time.Hour, Durability: Durability{Timeout: time.Second}, LockedError: "LOCKED",
	}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCompileRefusesWithTheFieldAndARemedy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		edit func(*Rule)
		want string
	}{
		{"no name", func(r *Rule) { r.Name = "" }, `name: is missing: name the rule, as in name: chat`},
		{"a name with a space", func(r *Rule) { r.Name = "my chat" }, `name: "my chat" cannot be a name: use 1 to 64 letters, digits, _ . or -`},
		{"a long name", func(r *Rule) { r.Name = strings.Repeat("a", 65) }, `name: "` + strings.Repeat("a", 65) + `" cannot be a name: use 1 to 64 letters, digits, _ . or -`},
		{"the reserved prefix", func(r *Rule) { r.Prefix = "fence-proxy:"; r.Session = "" }, `prefix: "fence-proxy:" is inside "fence-proxy:", which the proxy keeps for itself: guard another prefix`},
		{"a prefix inside the reserved one", func(r *Rule) { r.Prefix = "fence-proxy:x"; r.Session = "" }, `prefix: "fence-proxy:x" is inside "fence-proxy:", which the proxy keeps for itself: guard another prefix`},
		{"a pattern for other keys", func(r *Rule) { r.Session = "agent:mem:<session>" }, `session: "agent:mem:<session>" matches no key that begins with the prefix "agent:ctx:": begin it with "agent:ctx:"`},
		{"a pattern without a capture", func(r *Rule) { r.Session = "agent:ctx:*" }, `session: "agent:ctx:*" captures nothing: mark the part of the key that names the session, as in agent:ctx:<session>:*, or leave session out to make each key its own`},
		{"an open capture", func(r *Rule) { r.Session = "agent:ctx:<s" }, `session: "agent:ctx:<s" has a < without its >: write <session>, or \< for a literal <`},
		{"a capture without a name", func(r *Rule) { r.Session = "agent:ctx:<>" }, `session: "<>" is not a capture: use letters, digits and _, as in <session>`},
		{"a capture twice", func(r *Rule) { r.Session = "agent:ctx:<s>:<s>" }, `session: <s> appears twice: give each capture its own name`},
		{"captures side by side", func(r *Rule) { r.Session = "agent:ctx:<a><b>" }, `session: "agent:ctx:<a><b>" has two wildcards side by side, so that nothing says where the first one ends: put literal text between them`},
		{"a capture before a star", func(r *Rule) { r.Session = "agent:ctx:<a>*" }, `session: "agent:ctx:<a>*" has two wildcards side by side, so that nothing says where the first one ends: put literal text between them`},
		{"a last backslash", func(r *Rule) { r.Session = `agent:ctx:<a>\` }, `session: "agent:ctx:<a>\\" ends in a backslash: write \\ for a literal backslash`},
		{"an unknown mode", func(r *Rule) { r.Mode = "lok" }, `mode: "lok" is not a mode: write lock, fence, auto, observe or pass`},
		{"an unknown owner", func(r *Rule) { r.Owner = "pod" }, `owner: "pod" is not an owner: write auto, connection, client or proxy`},
		{"an unknown way to tell clients", func(r *Rule) { r.ClientBy = "pod" }, `client_by: "pod" is not known: write address or name`},
		{"a reader without a name", func(r *Rule) { r.Readers = []string{"a", ""} }, `readers: "" can be neither a user nor a client's name: write an ACL user or a client's name`},
		{"a reader that can't be", func(r *Rule) { r.Readers = []string{"a b"} }, `readers: "a b" can be neither a user nor a client's name: write an ACL user or a client's name`},
		{"a reader given twice", func(r *Rule) { r.Readers = []string{"a", "b", "a"} }, `readers: "a" is given twice: remove one`},
		{"unknown writes", func(r *Rule) { r.WritesPerRead = "two" }, `writes_per_read: "two" is not known: write one or many`},
		{"a negative wait", func(r *Rule) { r.Wait = -time.Second }, `wait: -1s is negative: write 0s to refuse at once, or a time such as 1500ms`},
		{"a wait over a minute", func(r *Rule) { r.Wait = 61 * time.Second }, `wait: 1m1s is longer than any client waits for a reply: write 60s or less, and less than the clients' socket timeout`},
		{"a short lease", func(r *Rule) { r.Lease = 99 * time.Millisecond }, `lease: 99ms is too short to renew: write 100ms or more; 30s is the default`},
		{"no lease", func(r *Rule) { r.Lease = 0 }, `lease: 0s is too short to renew: write 100ms or more; 30s is the default`},
		{"a hold below the lease", func(r *Rule) { r.MaxHold = time.Second }, `max_hold: 1s is shorter than lease (30s): write 30s or more, or shorten lease`},
		{"no idle", func(r *Rule) { r.Idle = 0 }, `idle: 0s would end every hold at once: write a time such as 30s`},
		{"a negative linger", func(r *Rule) { r.Linger = -1 }, `linger: -1ns is negative: write 0s to release with the commit, or a time such as 50ms`},
		{"a linger past the hold", func(r *Rule) { r.Linger = 3 * time.Minute }, `linger: 3m is longer than max_hold (2m): write 2m or less`},
		{"a short record", func(r *Rule) { r.RecordTTL = 3 * time.Minute }, `record_ttl: 3m is shorter than twice max_hold (2m): write 4m or more`},
		{"centuries", func(r *Rule) { r.MaxHold = 1 << 62 }, `max_hold: 1281023h53m38.427387904s is longer than a year: write 8760h or less`},
		{"no word", func(r *Rule) { r.LockedError = "" }, `locked_error: is empty: write LOCKED, or TRYAGAIN for clients that retry it`},
		{"two words", func(r *Rule) { r.LockedError = "TRY AGAIN" }, `locked_error: "TRY AGAIN" is not the first word of a Redis error: write one word of capital letters, digits and _, as in LOCKED`},
		{"a word of cluster clients", func(r *Rule) { r.LockedError = "MOVED" }, `locked_error: "MOVED" tells clients something else: write LOCKED or TRYAGAIN`},
		{"two things at once", func(r *Rule) { r.Name = ""; r.Idle = -1 }, "name: is missing: name the rule, as in name: chat\nidle: -1ns would end every hold at once: write a time such as 30s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := Default()
			r.Name, r.Prefix, r.Session = "chat", "agent:ctx:", "agent:ctx:<session>:*"
			tc.edit(&r)
			_, err := Compile(r)
			if err == nil {
				t.Fatal("was accepted")
			}
			if err.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", err, tc.want)
			}
			var field *FieldError
			if !errors.As(err, &field) {
				t.Error("is no FieldError")
			}
		})
	}
}

func TestCompileAcceptsTheEdges(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Rule){
		"the empty prefix":                       func(r *Rule) { r.Prefix, r.Session = "", "" },
		"a prefix that the reserved begins with": func(r *Rule) { r.Prefix, r.Session = "fence", "" },
		"a prefix into a capture":                func(r *Rule) { r.Prefix, r.Session = "agent:ctx:v2", "agent:<kind>:<id>" },
		"a prefix shorter than the head":         func(r *Rule) { r.Prefix, r.Session = "ag", "agent:ctx:<id>" },
		"no wait":                                func(r *Rule) { r.Wait = 0 },
		"a minute's wait":                        func(r *Rule) { r.Wait = time.Minute },
		"the shortest lease":                     func(r *Rule) { r.Lease = 100 * time.Millisecond },
		"a lease as long as the hold":            func(r *Rule) { r.Lease = r.MaxHold },
		"a linger as long as the hold":           func(r *Rule) { r.Linger = r.MaxHold },
		"another word":                           func(r *Rule) { r.LockedError = "TRYAGAIN" },
		"pass":                                   func(r *Rule) { r.Mode = ModePass },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Default()
			r.Name, r.Prefix, r.Session = "chat", "agent:ctx:", "agent:ctx:<session>:*"
			edit(&r)
			if _, err := Compile(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDurationsReadAsAPersonWritesThem(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1.5s", 2 * time.Minute: "2m", time.Hour: "1h",
		90 * time.Minute: "1h30m", 10 * time.Minute: "10m", 20 * time.Hour: "20h", 610 * time.Second: "10m10s",
	} {
		if got := Text(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}
