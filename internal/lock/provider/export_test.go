package provider

// For tests outside of the package.

// PlainName is the name of a session's node or key.
var PlainName = plainName

// ConsulInLine is how many of a Locker's own stand in line for a session, its holder among them.
func ConsulInLine(l Locker, session string) int {
	c, ok := l.(*consul)
	if !ok {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines[c.settings.Path+"/"+plainName(session)])
}

// ConsulWithoutWatches lets a Locker have no blocking queries for waiters.
func ConsulWithoutWatches(l Locker) {
	if c, ok := l.(*consul); ok {
		c.watches = make(chan struct{})
	}
}
