package tokenstore

import (
	"fmt"
	"testing"
)

// The short way must read an answer as the long one does, and leave what it doesn't know to it.
func TestTheUsualGrantIsReadAsAnyOther(t *testing.T) {
	s := &Store{}
	for _, grant := range []string{"1796003170123456", "9999999999999999", "17960031701234567", "1", "179600317012345x", ""} {
		for _, seq := range []string{"0", "7", "12"} {
			for _, continuous := range []string{"0", "1", "lost"} {
				part := []string{"granted", grant, seq, continuous}
				frame := "*4\r\n"
				for _, p := range part {
					frame += fmt.Sprintf("$%d\r\n%s\r\n", len(p), p)
				}
				want, wantErr := s.parseBegin(part)
				got, err := s.ParseBegin([]byte(frame))
				if got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%q is read as %+v (%v), want %+v (%v)", frame, got, err, want, wantErr)
				}
				for n := range frame {
					if b, err := s.ParseBegin([]byte(frame[:n])); err == nil {
						t.Errorf("%q, which is cut, is read as %+v", frame[:n], b)
					}
				}
			}
		}
	}
	if _, ok := parseGranted([]byte("*4\r\n$7\r\ngranted\r\n$16\r\n1796003170123456\r\n$1\r\n0\r\n$1\r\n1\r\n")); !ok {
		t.Error("the usual grant is none")
	}
}
