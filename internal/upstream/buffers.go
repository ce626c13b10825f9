package upstream

import "sync"

// receiveBuffer is the size of a receiver's buffer in bytes: larger replies are streamed.
const receiveBuffer = 64 << 10

// Buffers lends buffers to receivers. A connection has one only while there is something to receive,
// so idle connections need none. The zero value is ready.
type Buffers struct{ pool sync.Pool }

func (b *Buffers) get() *[receiveBuffer]byte {
	if buf, ok := b.pool.Get().(*[receiveBuffer]byte); ok {
		return buf
	}
	return new([receiveBuffer]byte)
}

func (b *Buffers) put(buf *[receiveBuffer]byte) { b.pool.Put(buf) }
