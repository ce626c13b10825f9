package observe

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// The value of a key is the set of the updates in it, so what is lost shows in the end.
func TestCountsWhatIsMissingInTheEnd(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := newPlay(t)
		value, updates := map[int]bool{}, 0
		seen := map[string]map[int]bool{}
		agents := []string{"a", "b", "c", "d"}
		for range 60 {
			name := agents[random.IntN(len(agents))]
			switch view := seen[name]; {
			case random.IntN(8) == 0: // adds to what is there, whoever has seen it
				p.run(name + " RPUSH k x -> :1")
				before := value
				value = maps.Clone(value)
				value[updates] = true
				if view != nil && maps.Equal(view, before) {
					seen[name] = value // it knows what it has added itself
				}
				updates++
			case view == nil:
				p.run(name + " LRANGE k 0 -1 -> *0")
				seen[name] = value
			default:
				p.run(name + " SET k x")
				value = maps.Clone(view)
				value[updates] = true
				updates++
				delete(seen, name)
			}
		}
		if found := p.pattern(); found.Lost != int64(updates-len(value)) || found.Guessed != 0 {
			t.Fatalf("seed %d: %d counted as lost, %d of %d are (%d a guess)", seed, found.Lost, updates-len(value), updates, found.Guessed)
		}
	}
}
