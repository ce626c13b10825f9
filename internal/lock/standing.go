package lock

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Standing are the holds of a manager's owners under one rule.
type Standing struct {
	Rule   string
	Mode   rule.Mode
	Holds  int
	Oldest time.Duration // how long the longest of them has stood
}

// Standing returns the holds that stand now, by rule and mode.
func (m *Manager) Standing() []Standing {
	type of struct {
		rule string
		mode rule.Mode
	}
	now, at := time.Now(), map[of]int{}
	var all []Standing
	for _, o := range m.everybody() {
		if o.Holds() == 0 {
			continue
		}
		for _, s := range o.all() {
			s.mu.Lock()
			held, age := s.state == Held, now.Sub(s.since)
			s.mu.Unlock()
			if !held {
				continue
			}
			key := of{s.Rule.Name, s.Rule.Mode}
			i, known := at[key]
			if !known {
				i = len(all)
				at[key], all = i, append(all, Standing{Rule: key.rule, Mode: key.mode})
			}
			all[i].Holds++
			all[i].Oldest = max(all[i].Oldest, age)
		}
	}
	return all
}
