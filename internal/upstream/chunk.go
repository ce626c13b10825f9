package upstream

import (
	"sync"
	"sync/atomic"
)

const (
	// chunkSize is the size of a chunk in bytes.
	chunkSize = 256 << 10
	// chunkLeast is how much room is left at least for a read, in bytes.
	chunkLeast = 64 << 10
)

// chunk is memory into which a shared connection reads replies. Calls use them where they are, so it
// is not used again before the last of them has been released.
type chunk struct {
	buf   []byte
	users atomic.Int64 // calls, and the connection while it reads into it
	pool  *sync.Pool
}

// newChunk returns a chunk with one user.
func newChunk(pool *sync.Pool) *chunk {
	in, ok := pool.Get().(*chunk)
	if !ok {
		in = &chunk{buf: make([]byte, chunkSize), pool: pool}
	}
	in.users.Store(1)
	return in
}

// release ends the use by one user.
func (in *chunk) release() {
	if in.users.Add(-1) == 0 {
		in.pool.Put(in)
	}
}

// inbox is where a shared connection reads to. It belongs to the leader.
type inbox struct {
	in   *chunk
	at   int // in.buf[:at] is read
	pool sync.Pool
}

// room returns where to read to.
func (b *inbox) room() []byte {
	switch {
	case b.in == nil:
		b.in, b.at = newChunk(&b.pool), 0
	case b.in.users.Load() == 1:
		b.at = 0
	case len(b.in.buf)-b.at < chunkLeast:
		b.in.release()
		b.in, b.at = newChunk(&b.pool), 0
	}
	return b.in.buf[b.at:]
}

// rest gives the chunk up: it is the calls' now, and nobody's as soon as they are done. An idle connection has none.
func (b *inbox) rest() {
	if b.in != nil {
		b.in.release()
		b.in = nil
	}
}

// take returns the next n bytes that were read as a part of the chunk.
func (b *inbox) take(n int) chunkPart {
	p := chunkPart{b.in, b.at, b.at + n}
	b.at = p.end
	return p
}

// chunkPart is in.buf[start:end].
type chunkPart struct {
	in         *chunk
	start, end int
}

func (p chunkPart) bytes() []byte { return p.in.buf[p.start:p.end:p.end] }
