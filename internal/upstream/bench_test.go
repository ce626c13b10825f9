package upstream

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// BenchmarkPass passes 100 requests and their replies.
func BenchmarkPass(b *testing.B) {
	request := []byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
	replies := bytes.Repeat([]byte("$5\r\nvalue\r\n"), 100)
	b.ReportAllocs()
	for b.Loop() {
		peer := &peer{pieces: [][]byte{replies}}
		c := NewConn(peer, discarded{})
		for range 100 {
			c.Pass(request, 1)
		}
		if err := c.Serve(); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}

// discarded is a downstream.
type discarded struct{}

func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) Flush() error                { return nil }
