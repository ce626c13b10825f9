package doctor

import (
	"context"
	"slices"
	"strings"
)

// aclUser is a user as ACL LIST tells of it.
type aclUser struct {
	name   string
	on     bool
	nopass bool
	// grants are what it may do: the root permissions, and each selector.
	grants []aclGrant
}

// aclGrant is a set of commands on a set of keys.
type aclGrant struct {
	writes   []string // patterns of keys that may be written
	commands []string // rules for commands, in order
}

// parseUser reads a line of ACL LIST: "user NAME on nopass sanitize-payload ~* &* +@all (%R~x +get)".
func parseUser(line string) (u aclUser, ok bool) {
	line, ok = strings.CutPrefix(line, "user ")
	if !ok {
		return u, false
	}
	u.name, line, _ = strings.Cut(line, " ")
	for {
		before, rest, found := strings.Cut(line, "(")
		inside, after, closed := strings.Cut(rest, ")")
		if !found || !closed {
			break
		}
		u.grants = append(u.grants, u.grant(inside))
		line = before + after
	}
	u.grants = append([]aclGrant{u.grant(line)}, u.grants...)
	return u, true
}

// grant reads rules, in the order in which Redis names them.
func (u *aclUser) grant(rules string) (g aclGrant) {
	for _, word := range strings.Fields(rules) {
		switch {
		case word == "on":
			u.on = true
		case word == "nopass":
			u.nopass = true
		case word == "allkeys":
			g.writes = append(g.writes, "*")
		case word == "allcommands":
			g.commands = append(g.commands, "+@all")
		case word == "nocommands":
			g.commands = append(g.commands, "-@all")
		case strings.HasPrefix(word, "~"):
			g.writes = append(g.writes, word[1:])
		case strings.HasPrefix(word, "%"):
			if access, pattern, found := strings.Cut(word[1:], "~"); found && strings.Contains(access, "W") {
				g.writes = append(g.writes, pattern)
			}
		case strings.HasPrefix(word, "+"), strings.HasPrefix(word, "-"):
			g.commands = append(g.commands, strings.ToLower(word))
		}
	}
	return g
}

// reaches returns which of the prefixes some key that the patterns let it write has.
func (g *aclGrant) reaches(prefixes []string) []string {
	return slices.DeleteFunc(slices.Clone(prefixes), func(prefix string) bool {
		return !slices.ContainsFunc(g.writes, func(pattern string) bool { return meets(pattern, prefix) })
	})
}

// meets reports whether a pattern may fit a key with a prefix: as far as it has no sign of a pattern, one begins with the other.
func meets(pattern, prefix string) bool {
	literal := strings.Builder{}
	whole := true
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c == '\\' && i+1 < len(pattern) {
			i++
			literal.WriteByte(pattern[i])
			continue
		}
		if strings.IndexByte("*?[", c) >= 0 {
			whole = false
			break
		}
		literal.WriteByte(c)
	}
	if whole {
		return strings.HasPrefix(literal.String(), prefix)
	}
	return strings.HasPrefix(literal.String(), prefix) || strings.HasPrefix(prefix, literal.String())
}

// categories are which commands a category has, as ACL CAT tells.
type categories func(ctx context.Context, category string) ([]string, error)

// writing returns a command of the category @write that the grant allows, "" if there is none.
func (g *aclGrant) writing(ctx context.Context, of categories) (string, error) {
	writes, err := of(ctx, "write")
	if err != nil {
		return "", err
	}
	may := map[string]bool{}
	for _, word := range g.commands {
		name, allows := word[1:], word[0] == '+'
		switch {
		case name == "@all":
			for _, w := range writes {
				may[w] = allows
			}
		case name[0] == '@':
			some, err := of(ctx, name[1:])
			if err != nil {
				return "", err
			}
			for _, w := range some {
				may[w] = allows
			}
		default:
			may[name] = allows
			if container, _, sub := strings.Cut(name, "|"); sub && allows {
				may[container] = true
			}
		}
	}
	for _, likely := range []string{"set", "del", "hset", "rpush", "expire"} {
		if may[likely] && slices.Contains(writes, likely) {
			return likely, nil
		}
	}
	for _, w := range writes {
		if may[w] {
			return w, nil
		}
	}
	return "", nil
}
