package bench

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestConnectionsComeToSessionsOfTheirOwn(t *testing.T) {
	s := &stage{scene: scene{clients: 4, sessions: 100, rules: 10}}
	owner, visited := map[string]int{}, map[string]bool{}
	for conn := range s.clients {
		for n := range 100 {
			key := s.session(conn, n)
			if before, known := owner[key]; known && before != conn {
				t.Fatalf("%s is both %d's and %d's", key, before, conn)
			}
			owner[key], visited[key] = conn, true
		}
	}
	if len(visited) != s.sessions {
		t.Errorf("%d of %d sessions are visited", len(visited), s.sessions)
	}
	s.shared, s.sessions = true, 1
	if a, b := s.session(0, 3), s.session(3, 4); a != b {
		t.Errorf("the shared session is %s and %s", a, b)
	}
}

func TestAStageHasAsManyRulesAsItSays(t *testing.T) {
	s := &stage{scene: scene{sessions: 1000, rules: 100}}
	var configuration struct {
		Rules []struct{ Prefix string }
	}
	if err := yaml.Unmarshal([]byte(s.configuration()), &configuration); err != nil || len(configuration.Rules) != s.rules {
		t.Fatalf("%d rules (%v)", len(configuration.Rules), err)
	}
	used := map[string]bool{}
	for session := range s.sessions {
		for _, r := range configuration.Rules {
			if strings.HasPrefix(s.key(session), r.Prefix) {
				used[r.Prefix] = true
			}
		}
	}
	if len(used) != s.rules {
		t.Errorf("sessions are spread over %d of %d rules", len(used), s.rules)
	}
}

func TestNumbersHaveCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 65536: "65,536", 1_000_001: "1,000,001"} {
		if got := group3(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
