//go:build integration

package provider

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// The explorer's nodes are fakes. Here they are asked the same as a Redis, in random order, and have to say the same. Time
// passes in hours, so a slow machine changes nothing.
func TestTheFakeNodeIsLikeRedis(t *testing.T) {
	t.Parallel()
	clock := harness.NewClock(t)
	server := harness.StartRedis(t, harness.WithClock(clock), harness.WithArgs("--enable-debug-command", "yes"))
	// A clock that goes forward and back finds again what Redis has not yet got around to delete.
	if err := server.Client().Do(t.Context(), "debug", "set-active-expire", "0").Err(); err != nil {
		t.Fatal(err)
	}
	settings := *redlockDefaults().(*RedlockSettings)
	settings.NodeTimeout = 30 * time.Second
	node, err := newRedlockRedis(server.URL(), &settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.close)
	seed := rand.Uint64()
	c := newChance(seed)
	var offset time.Duration
	fake := newFakeNode(func() time.Time { return time.Now().Add(offset) })
	words := map[string]int{}
	for step := range 5000 {
		switch {
		case c.happens(.005):
			if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			fake.forget()
		case c.happens(.1):
			by := time.Duration(1+c.below(3)) * (time.Hour + time.Second)
			if c.happens(.3) {
				by = -by
			}
			clock.Step(by)
			offset += by
		}
		script, key, args := randomQuestion(c)
		fromRedis, err := node.ask(t.Context(), script, key, args...)
		if err != nil {
			t.Fatalf("seed %d, step %d: script %s%v: %v", seed, step, script.name, args, err)
		}
		words[script.name+" "+fromRedis[0]]++
		answer := fake.run(script, key, args)
		if got, want := inHours(answer), inHours(fromRedis); got != want {
			t.Fatalf("seed %d, step %d: script %s%v of %v: the fake says %s, Redis %s", seed, step, script.name, args, key, got, want)
		}
	}
	for _, word := range []string{
		"check in", "check out", "take taken", "take held", "take out", "take dead", "raise raised", "raise gone", "raise behind",
		"renew kept", "renew joined", "renew gone", "release released", "release gone",
	} {
		if words[word] == 0 {
			t.Errorf("seed %d: no script has answered %q; %v", seed, word, words)
		}
	}
}

// randomQuestion is about one of four acquisitions of one of two sessions.
func randomQuestion(c *chance) (*redlockScript, redlockKey, []any) {
	hours := func(n int) int64 { return millis(time.Duration(n) * time.Hour) }
	ever := hours(100_000)
	owner, lease := c.below(4), 1+c.below(3)
	key := redlockKey{session: fmt.Sprint("s", c.below(2)), id: fmt.Sprint("id", owner)}
	if c.happens(.2) { // a new one, that nobody has given back
		key.id = fmt.Sprint("id", c.below(1_000_000))
	}
	value := fmt.Sprintf("%s %d me", key.id, hours(2))
	grant := strconv.Itoa(1 + c.below(40))
	switch c.below(6) {
	case 0:
		return redlockCheck, key, []any{hours(2)}
	case 1:
		return redlockRaise, key, []any{value, grant, ever}
	case 2:
		return redlockRenew, key, []any{value, grant, ever, hours(lease), hours(2)}
	case 3:
		late := int64(0)
		if c.happens(.05) {
			late = ever
		}
		return redlockRelease, key, []any{value, []string{"", "tell"}[c.below(2)], late}
	default:
		return redlockTake, key, []any{value, hours(lease), hours(2)}
	}
}

// inHours is an answer without what passes between two questions.
func inHours(answer []string) string {
	rounded := answer[:1:1]
	for i, field := range answer[1:] {
		ms, err := strconv.ParseInt(field, 10, 64)
		switch {
		case err != nil:
			rounded = append(rounded, field)
		case answer[0] == "taken" && i == 0: // the counter
			rounded = append(rounded, field)
		case answer[0] == "taken" && i == 1: // the clock, in seconds
			rounded = append(rounded, fmt.Sprint((ms+1800)/3600))
		case answer[0] == "taken":
		default:
			rounded = append(rounded, time.Duration(ms*int64(time.Millisecond)).Round(time.Hour).String())
		}
	}
	return fmt.Sprint(rounded)
}
