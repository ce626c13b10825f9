package cluster

import (
	"sync"
	"sync/atomic"
)

const (
	// chunkSmall and chunkLarge are the sizes of chunks in bytes, for who sends little at a time and who sends much.
	chunkSmall = 4 << 10
	chunkLarge = 64 << 10
)

// chunk is memory that requests were read into. Requests stay there until they are answered, since they may have to be sent
// again; it is not used again before that.
type chunk struct {
	buf   []byte
	users atomic.Int32 // requests, and the reader while it fills it
}

var smallChunks, largeChunks sync.Pool

func newChunk(size int) *chunk {
	pool := poolOf(size)
	if pool == nil {
		k := &chunk{buf: make([]byte, size)}
		k.users.Store(1)
		return k
	}
	k, ok := pool.Get().(*chunk)
	if !ok {
		k = &chunk{buf: make([]byte, size)}
	}
	k.users.Store(1)
	return k
}

func poolOf(size int) *sync.Pool {
	switch size {
	case chunkSmall:
		return &smallChunks
	case chunkLarge:
		return &largeChunks
	}
	return nil
}

func (k *chunk) use() { k.users.Add(1) }

func (k *chunk) release() {
	if k.users.Add(-1) == 0 {
		if pool := poolOf(len(k.buf)); pool != nil {
			pool.Put(k)
		}
	}
}

// inbox is where the client's requests are read to: in.buf[start:end] is not routed yet.
type inbox struct {
	in         *chunk
	start, end int
	much       bool // the last read filled what was there
}

func (b *inbox) bytes() []byte {
	if b.in == nil {
		return nil
	}
	return b.in.buf[b.start:b.end]
}

// room returns where to read to; missing is what a request that has begun lacks, as far as that is known.
func (b *inbox) room(missing int) []byte {
	switch {
	case b.in == nil:
		b.in, b.start, b.end = newChunk(b.size()), 0, 0
	case b.start == b.end && b.in.users.Load() == 1 && b.size() == len(b.in.buf):
		b.start, b.end = 0, 0
	case b.end == len(b.in.buf) || b.start == b.end && b.size() > len(b.in.buf):
		b.move(missing)
	}
	return b.in.buf[b.end:]
}

func (b *inbox) size() int {
	if b.much {
		return chunkLarge
	}
	return chunkSmall
}

// move goes on in another chunk, with what is not routed yet.
func (b *inbox) move(missing int) {
	left := b.end - b.start
	size := b.size()
	if left+max(missing, 1) > size {
		size = max(chunkLarge, left+max(missing, left))
	}
	k := newChunk(size)
	b.end = copy(k.buf, b.in.buf[b.start:b.end])
	b.start = 0
	b.in.release()
	b.in = k
}

// rest gives the chunk up if nothing is left in it.
func (b *inbox) rest() {
	if b.in != nil && b.start == b.end {
		b.in.release()
		*b = inbox{much: b.much}
	}
}
