package observe

import "time"

const (
	// DefaultTurn is how long a command may wait for another client's on the same key.
	DefaultTurn = 100 * time.Millisecond

	// maxKeys is how many keys are followed at a time; the one used least lately goes first.
	maxKeys = 50_000
	// maxOwners is how many connections are remembered of a key.
	maxOwners = 64
	// maxReads is how many unwritten reads are remembered of a connection and a key.
	maxReads = 16
	// maxChanges is how many changes of a key are remembered, for writes of parts.
	maxChanges = 16
	// maxSpans is how many sequences of a key are remembered, for overlaps.
	maxSpans = 16
	// maxParts is how many parts of a value a write is known to change; with more it counts for all.
	maxParts = 16

	// maxNodes bounds the tree of patterns.
	maxNodes = 10_000
	// maxSiblings is how many literal texts are told apart at one place of a key.
	maxSiblings = 32
	// maxDepth is how many segments of a key are told apart.
	maxDepth = 16
	// maxText is how many bytes of a key are looked at for its pattern.
	maxText = 512

	// maxClients is how many clients are told apart, and maxPerPattern how many of them at each pattern.
	maxClients, maxPerPattern = 1000, 16
	// maxCommands is how many commands are counted apart at each pattern.
	maxCommands = 32

	// maxHead is how much of a reply is looked at, and maxExec of a transaction's.
	maxHead, maxExec = 64, 64 << 10

	// readTime is how long a read is remembered.
	readTime = 10 * time.Minute
	// followTime is how long after a write another one without a read still belongs to the same
	// sequence.
	followTime = 30 * time.Second
)
