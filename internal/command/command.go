package command

import "strings"

// Command is what the server says of one command or sub-command.
type Command struct {
	// Name is in lower case; a sub-command's is "container|sub".
	Name string
	// Verb is the name as people write it: in upper case, "CONTAINER SUB".
	Verb string
	// Flags are those of the server.
	Flags Flags
	// Arity counts the arguments with the name: exactly that many, or at least
	// its negation when negative.
	Arity int
	// Request and Response are the server's advice to clients of a cluster: to which nodes a call goes
	// ("all_shards"), and how their replies become one ("agg_sum"). "" where it has none. See
	// https://redis.io/docs/latest/develop/reference/command-tips/.
	Request, Response string

	specs []spec
	// exact, when not nil, reads the arguments in place of the specs.
	exact walk
	// subs has the sub-commands by their own name ("encoding"); nil if this is
	// no container.
	subs map[string]*Command
	// legacy is set when the server gave first, last and step in place of key
	// specs, so that Load may know better.
	legacy bool
}

// Is reports whether the command has every flag in f.
func (c *Command) Is(f Flags) bool {
	return c.Flags&f == f
}

// Fits reports whether a call of n arguments, its name among them, is one that the server executes.
func (c *Command) Fits(n int) bool {
	return n == c.Arity || c.Arity < 0 && n >= -c.Arity
}

// Container reports whether the command has sub-commands.
func (c *Command) Container() bool {
	return c.subs != nil
}

// Keys appends the keys of the call to dst. complete is false when the call may
// touch keys that are not among them: the specs cannot tell, or the arguments
// do not fit. A call with fewer arguments than the command needs has no keys and
// is complete, since no server executes it.
func (c *Command) Keys(dst []Key, args [][]byte) (keys []Key, complete bool) {
	if len(args) < max(c.Arity, -c.Arity) {
		return dst, true
	}
	if c.exact != nil {
		return c.exact(dst, args, c)
	}
	complete = true
	for i := range c.specs {
		var ok bool
		if dst, ok = c.specs[i].keys(dst, args); !ok {
			complete = false
		}
	}
	return dst, complete
}

// settle draws what follows from the command's flags, once they and its specs
// are known.
func (c *Command) settle() {
	c.Verb = strings.ToUpper(strings.ReplaceAll(c.Name, "|", " "))
	writes, reads := false, false
	for _, s := range c.specs {
		writes = writes || s.access == Write
		reads = reads || s.access == Read
	}
	if c.Is(FlagWrite) && reads && !writes {
		// A command that writes, yet whose specs only read, writes what it reads:
		// XREADGROUP moves its group forward in the key.
		for i := range c.specs {
			c.specs[i].access = Write
		}
	}
	if c.Is(FlagMovable) && len(c.specs) == 0 && !c.Container() {
		c.specs = []spec{{incomplete: true, access: Write}}
	}
	c.exact = exactly(c.Name)
}
