package socket

import (
	"net"
	"testing"
)

func TestAHangUpIsSeenBehindData(t *testing.T) {
	c, far := tcp(t)
	_, _ = far.Write([]byte("x"))
	if c.HungUp() {
		t.Fatal("hung up before the peer has closed")
	}
	_ = far.Close()
	for !c.HungUp() { // until it has arrived
	}
	buf := make([]byte, 8)
	if n, err := c.Read(buf); n != 1 || err != nil {
		t.Errorf("what was sent before: %d bytes, %v", n, err)
	}
}

func TestWhatHasComeIsCounted(t *testing.T) {
	c, far := tcp(t)
	if n := c.Unread(); n != 0 {
		t.Fatalf("%d bytes at first", n)
	}
	_, _ = far.Write([]byte("xyz"))
	for c.Unread() < 3 { // until it has arrived
	}
	buf := make([]byte, 1)
	if n, err := c.Read(buf); n != 1 || err != nil || c.Unread() != 2 {
		t.Errorf("%d bytes are left", c.Unread())
	}
}

func TestAPipeCannotBeProbed(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	_ = far.Close()
	if c := New(near); c.HungUp() || c.Unread() != 0 {
		t.Error("its end is said to be known")
	}
}
