package cluster

import (
	"context"
	"crypto/sha1" //nolint:gosec // what Redis names scripts by
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

const (
	// scriptsMost is how many scripts are remembered, and scriptBytes how much of them.
	scriptsMost = 4096
	scriptBytes = 32 << 20
)

// scripts are those that clients have loaded. A node that has joined since, or was restarted, gets them when they are asked for.
type scripts struct {
	mu    sync.RWMutex
	texts map[string]string // by digest
	names map[string]string // digests by text
	size  int
}

// known are the scripts that a node has, as far as that is known.
type known struct {
	mu      sync.RWMutex
	digests map[string]bool
}

func (k *known) has(digest string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.digests[digest]
}

func (k *known) add(digest string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.digests == nil || len(k.digests) > scriptsMost {
		k.digests = map[string]bool{}
	}
	k.digests[digest] = true
}

func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.digests = nil
}

// learn remembers a script.
func (s *scripts) learn(text []byte) (digest string) {
	s.mu.RLock()
	digest, ok := s.names[string(text)]
	s.mu.RUnlock()
	if ok {
		return digest
	}
	sum := sha1.Sum(text) //nolint:gosec // what Redis names scripts by
	digest = hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil || len(s.texts) >= scriptsMost || s.size+len(text) > scriptBytes {
		s.texts, s.names, s.size = map[string]string{}, map[string]string{}, 0
	}
	if _, ok := s.texts[digest]; !ok && len(text) <= scriptBytes {
		kept := string(text)
		s.texts[digest], s.names[kept] = kept, digest
		s.size += len(kept)
	}
	return digest
}

func (s *scripts) text(digest string) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	text, ok := s.texts[digest]
	return text, ok
}

// clear forgets all, as SCRIPT FLUSH does.
func (s *scripts) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts, s.names, s.size = nil, nil, 0
}

// digestOf is the digest that an EVALSHA names.
func digestOf(args [][]byte) string {
	if len(args) < 2 {
		return ""
	}
	return strings.ToLower(string(args[1]))
}

// has reports whether the script that an EVALSHA names is known.
func (s *scripts) has(raw []byte) bool {
	_, ok := s.text(digestOf(argsOf(raw)))
	return ok
}

// load gives a node the script that an EVALSHA names.
func (s *scripts) load(c *Cluster, n *node, raw []byte) { s.give(c, n, digestOf(argsOf(raw))) }

func (s *scripts) give(c *Cluster, n *node, digest string) {
	text, ok := s.text(digest)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.options.DialTimeout)
	defer cancel()
	client := redis.NewClient(c.ask(n.addr))
	defer client.Close()
	if err := client.ScriptLoad(ctx, text).Err(); err != nil {
		c.options.Log.Debug("a script could not be loaded at a node", "node", n.addr, "error", err)
		return
	}
	n.known.add(digest)
}

// scripted notes the script that a command brings, and sees to it that the node has the one that it names.
func (f *front) scripted(cmd *command.Command, r *request, e *entry) error {
	switch cmd.Name {
	case "eval", "eval_ro":
		if len(r.args) > 1 {
			digest := f.c.scripts.learn(r.args[1])
			if n := f.nodeOf(e); n != nil && !n.known.has(digest) {
				n.known.add(digest)
			}
		}
	case "evalsha", "evalsha_ro":
		e.scripted = true
		n := f.nodeOf(e)
		digest := digestOf(r.args)
		if n == nil || n.known.has(digest) {
			return nil
		}
		if _, ok := f.c.scripts.text(digest); !ok {
			return nil
		}
		if f.tx == nil {
			return nil // if the node doesn't know it, it says so, and nothing is done yet
		}
		if err := f.ship(); err != nil {
			return err
		}
		f.c.scripts.give(f.c, n, digest)
	}
	return nil
}

// nodeOf is where an entry will go, nil if that is not known.
func (f *front) nodeOf(e *entry) *node {
	switch {
	case e.c != nil:
		return e.c.n
	case e.slot >= 0:
		return f.topology.of(int(e.slot))
	case e.slot == noKeys:
		return f.home
	}
	return nil
}

func now() time.Time { return time.Now() }
