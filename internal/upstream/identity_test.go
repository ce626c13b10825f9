package upstream

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/silence"
)

func TestAConnectionIsKnownAsTheServerNamesIt(t *testing.T) {
	const line = "id=12 addr=10.0.0.1:4711 laddr=10.0.0.2:6379 fd=8 name=id=7 db=0\n"
	for name, c := range map[string]struct {
		reply string
		want  silence.Identity
	}{
		"RESP2":          {"$65\r\n" + line + "\r\n", silence.Identity{ID: "12", Addr: "10.0.0.1:4711", LocalAddr: "10.0.0.2:6379"}},
		"RESP3":          {"=69\r\ntxt:" + line + "\r\n", silence.Identity{ID: "12", Addr: "10.0.0.1:4711", LocalAddr: "10.0.0.2:6379"}},
		"no right":       {"-NOPERM this user has no permissions to run the 'client|info' command\r\n", silence.Identity{}},
		"not known":      {"-ERR unknown subcommand 'INFO'\r\n", silence.Identity{}},
		"without laddr=": {"$22\r\nid=12 addr=10.0.0.1:47\r\n", silence.Identity{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Identify()
			s.replies(c.reply)
			if got := s.Identity(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			command, err := (&Endpoint{Options: &redis.Options{}}).Silence(t.Context(), s.Conn)
			if known := c.want.ID != ""; known != (err == nil) || !known && !errors.Is(err, silence.ErrImpossible) || known && len(command) != 8 {
				t.Errorf("it is silenced by %v, %v", command, err)
			}
		})
	}
}

func TestASilencerStandsInThePlaceOfCLIENTKILL(t *testing.T) {
	s := newScene(t)
	s.Identify()
	s.replies("$60\r\nid=12 addr=10.0.0.1:4711 laddr=10.0.0.2:6379 fd=8 name= db=0\r\n")
	for _, want := range []error{nil, silence.ErrImpossible} {
		e := &Endpoint{Options: &redis.Options{}, Silencer: func(context.Context, net.Conn) error { return want }}
		if command, err := e.Silence(t.Context(), s.Conn); !errors.Is(err, want) || len(command) > 0 {
			t.Errorf("got %v, %v, want %v", command, err, want)
		}
	}
}
