package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// slow is a client that takes nothing until it is read.
func slow(t *testing.T, most int) (*downstream, net.Conn) {
	t.Helper()
	c, far := connect(t, offline(t), "tcp")
	c.out.most = most
	t.Cleanup(func() {
		_ = c.nc.Close()
		c.out.close()
	})
	return &c.out, far
}

// fill writes until the client's socket takes no more, and returns how much that was.
func fill(t *testing.T, d *downstream, b byte) (n int) {
	t.Helper()
	chunk := bytes.Repeat([]byte{b}, 1<<20)
	for !d.behind() {
		if _, err := d.Write(chunk); err != nil {
			t.Fatal(err)
		}
		n += len(chunk)
		if n > 1<<30 {
			t.Fatal("a socket of a gigabyte")
		}
	}
	return n
}

func TestTheClientsGoroutineNeverWaitsForTheClient(t *testing.T) {
	d, far := slow(t, 0)
	n := fill(t, d, 'a')
	for range 1000 { // none of these would return
		if _, err := d.Write([]byte("b")); err != nil {
			t.Fatal(err)
		}
		if err := d.Push(); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, n+1000)
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, append(bytes.Repeat([]byte("a"), n), bytes.Repeat([]byte("b"), 1000)...)) {
		t.Errorf("what came differs from what was written: %v", err)
	}
}

func TestTheReceiverWaitsForTheClientUnlessItIsWaitedFor(t *testing.T) {
	d, far := slow(t, 0)
	n := fill(t, d, 'a')
	flushed := make(chan error, 2)
	go func() { flushed <- d.Flush() }()
	select {
	case err := <-flushed:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	d.hurry(true)
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	d.hurry(false)
	go func() { flushed <- d.Flush() }()
	if _, err := io.ReadFull(far, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	if d.behind() {
		t.Error("the client is behind though it has taken everything")
	}
}

func TestNoMoreIsKeptForAClientThanMayBe(t *testing.T) {
	d, _ := slow(t, 4<<20)
	var err error
	for written := 0; err == nil && written < 1<<30; written += 1 << 10 {
		_, err = d.Write(make([]byte, 1<<10))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, upstream.ErrTooMuch) || len(d.buf) > 4<<20 {
		t.Errorf("%d bytes are kept: %v", len(d.buf), err)
	}
}

func TestAClientThatHasGoneEndsTheSending(t *testing.T) {
	d, far := slow(t, 0)
	fill(t, d, 'a')
	_ = far.Close()
	for d.Flush() == nil {
	}
	if _, err := d.Write([]byte("b")); err == nil {
		t.Error("a write after the end has no error")
	}
}

func TestOnlyAClientThatTakesNothingIsDropped(t *testing.T) {
	s := offline(t)
	s.limits.Store(&Limits{OutputTimeout: time.Minute})
	c, far := connect(t, s, "tcp")
	s.clients[c] = struct{}{}
	start := time.Now()
	look := func(seen map[*client]stuck, after time.Duration) map[*client]stuck {
		return s.lookAtOutputs(seen, start.Add(after))
	}
	for _, progress := range []uint64{0, 2, 4} { // it waits for nothing
		c.out.progress.Store(progress)
		if seen := look(look(nil, 0), time.Hour); len(seen) > 0 {
			t.Errorf("%v", seen)
		}
	}
	seen := map[*client]stuck(nil)
	for i := range uint64(10) { // it takes something now and then
		c.out.progress.Store(2*i + 1)
		seen = look(seen, time.Duration(i)*59*time.Second)
	}
	seen = look(seen, 9*59*time.Second+59*time.Second)
	if len(seen) != 1 {
		t.Errorf("it was dropped after 59 s: %v", seen)
	}
	if _, err := c.nc.Write([]byte("x")); err != nil {
		t.Errorf("it was dropped: %v", err)
	}
	if seen = look(seen, 9*59*time.Second+time.Minute); len(seen) != 0 {
		t.Errorf("it was not dropped after a minute: %v", seen)
	}
	if got, err := io.ReadAll(far); string(got) != "x" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestLongRepliesKeepTheirPlaceAmongShortOnes(t *testing.T) {
	d, far := slow(t, 0)
	var want []byte
	go func() {
		for i := range 2000 {
			p := bytes.Repeat([]byte{byte(i)}, 10)
			if i%5 == 0 {
				p = bytes.Repeat([]byte{byte(i)}, direct+i)
			}
			_, _ = d.Write(p)
			if i%17 == 0 {
				_ = d.Push()
			}
			clear(p) // the memory is used for something else
		}
		_ = d.Push()
	}()
	for i := range 2000 {
		if i%5 == 0 {
			want = append(want, bytes.Repeat([]byte{byte(i)}, direct+i)...)
		} else {
			want = append(want, bytes.Repeat([]byte{byte(i)}, 10)...)
		}
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what came differs from what was written: %v", err)
	}
}
