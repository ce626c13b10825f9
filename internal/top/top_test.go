package top

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fence-proxy/fence-proxy/internal/admin"
	"github.com/fence-proxy/fence-proxy/internal/status"
)

func frame() *Frame {
	left := status.Millis(18 * time.Second)
	f := &Frame{Overview: admin.Overview{
		At: time.Unix(7200, 0), Ready: true,
		About: admin.About{Name: "agents-1", Version: "v1", Started: time.Unix(0, 0), Listen: ":6380", Upstream: "redis://redis", Provider: "redis", Clients: 3, Holds: 2},
		Now:   status.Now{Holding: 2, Waiting: 1, Hour: status.Figures{Fenced: 2, Locked: 1}, Minute: status.Figures{Commits: 90}},
	}}
	f.Holds = status.Page[status.Hold]{Total: 3, Items: []status.Hold{
		{Session: status.Session{Rule: "chat", Session: "42"}, Holder: status.Party{Client: "10.0.0.1:5", Name: "worker-1"}, Age: status.Millis(12 * time.Second), LeaseLeft: &left, Waiting: 1, Grant: 10},
		{Session: status.Session{Rule: "chat", Session: strings.Repeat("é", 200)}, Holder: status.Party{Client: "10.0.0.2:5"}, Age: status.Millis(time.Second), Grant: 11},
	}}
	f.Refusals.Items = []status.Refusal{{
		At: time.Unix(7199, 0), Session: status.Session{Session: "42"}, Error: "FENCED", Command: "SET", Who: status.Party{Name: "worker-2"}, Summary: "superseded by worker-1",
	}}
	return f
}

func TestAFrameSaysWhatThePageSays(t *testing.T) {
	lines := frame().Lines(0, Style{})
	for _, want := range []string{
		"fence-proxy agents-1  ready",
		":6380 → redis://redis  locks redis  3 clients  up 2h0m0s  v1",
		"holds 2   waiting 1   refused in 1 h 3 (1 in vain)   commits 1.5/s",
		"and 1 more",
		"01:59:59  FENCED  42  SET of worker-2: superseded by worker-1",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("there is no line %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if row := strings.Fields(lines[5]); !slices.Equal(row, []string{"42", "chat", "worker-1", "(10.0.0.1:5)", "12", "s", "18", "s", "1", "10"}) {
		t.Errorf("%q", row)
	}
}

func TestAFrameFitsTheTerminal(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		for _, line := range frame().Lines(width, Style{}) {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d characters in a terminal of %d: %s", n, width, line)
			}
		}
	}
	if lines := strings.Split(screen(frame().Lines(80, Marked), 6), "\r\n"); len(lines) != 5 {
		t.Errorf("%d lines in a terminal of 6", len(lines))
	}
}

func TestQOrCtrlCEndsIt(t *testing.T) {
	for _, keys := range []string{"q", "abc\x03", ""} {
		quitKey(strings.NewReader(keys)) // it would go on for ever
	}
	rest := strings.NewReader("aqb")
	if quitKey(rest); rest.Len() != 1 {
		t.Errorf("%d keys are left", rest.Len())
	}
}
