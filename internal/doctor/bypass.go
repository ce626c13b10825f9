package doctor

import (
	"context"
	"strings"
)

const closeDoor = "docs/acl.md: give guarded keys to the proxy's user alone"

// bypass looks for users who may write guarded keys at Redis, around the proxy.
func bypass(ctx context.Context, e *exam) {
	prefixes := e.guardedPrefixes()
	if len(prefixes) == 0 {
		return
	}
	lines, err := e.asks().Do(ctx, "ACL", "LIST").StringSlice()
	if err != nil {
		e.unsure(err, "run it with --operator and the URL of a user who may say ACL LIST; users other than the proxy's should not be able to write "+quoted(prefixes))
		return
	}
	own := e.user()
	known := map[string][]string{}
	of := func(ctx context.Context, category string) ([]string, error) {
		if c, ok := known[category]; ok {
			return c, nil
		}
		c, err := e.asks().Do(ctx, "ACL", "CAT", category).StringSlice()
		if err == nil {
			known[category] = c
		}
		return c, err
	}
	good := true
	for _, line := range lines {
		u, ok := parseUser(line)
		if !ok || !u.on {
			continue
		}
		command, reached, err := u.writes(ctx, prefixes, of)
		switch {
		case err != nil:
			e.unsure(err, "run it with --operator and the URL of a user who may say ACL CAT")
			return
		case command == "":
			continue
		}
		which := quoted(reached)
		switch {
		case u.nopass:
			good = false
			remedy := closeDoor
			if u.name == own {
				remedy = "make a user for the proxy, and turn " + u.name + " off or take guarded keys from it: docs/acl.md"
			}
			e.fail(remedy, "user %s has no password and may write %s (%s): whoever reaches Redis writes around the proxy", u.name, which, strings.ToUpper(command))
		case u.name == own && own == "default":
			good = false
			e.warn("make a user for the proxy alone: docs/acl.md", "the proxy logs in as default: whoever has its password writes %s around the proxy", which)
		case u.name != own:
			good = false
			e.warn(closeDoor, "user %s may write %s (%s) at Redis without the proxy", u.name, which, strings.ToUpper(command))
		}
	}
	if good {
		e.ok("of %d users %s alone may write guarded keys", len(lines), own)
	}
}

// writes tells by which command a user may write keys with which of the prefixes; "" if by none.
func (u *aclUser) writes(ctx context.Context, prefixes []string, of categories) (command string, reached []string, err error) {
	for _, g := range u.grants {
		reached := g.reaches(prefixes)
		if len(reached) == 0 {
			continue
		}
		if command, err = g.writing(ctx, of); err != nil || command != "" {
			return command, reached, err
		}
	}
	return "", nil, nil
}

func (e *exam) guardedPrefixes() (all []string) {
	for _, r := range e.Config.Rules {
		if r.Guards() {
			all = append(all, r.Prefix)
		}
	}
	return all
}

// quoted lists prefixes as patterns.
func quoted(prefixes []string) string {
	const most = 3
	all := make([]string, 0, most+1)
	for i, p := range prefixes {
		if i == most {
			all = append(all, "…")
			break
		}
		all = append(all, p+"*")
	}
	return strings.Join(all, ", ")
}
