package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Endpoint is where the upstream Redis is and as whom to log in there.
type Endpoint struct {
	// Options are the same facts for the proxy's own go-redis connections. Their Dialer, if there is one, makes all
	// connections: what is behind it may be more than one server.
	Options *redis.Options
	// Silencer is for what is more than one server at a time, where CLIENT KILL is no use. Nil: the upstream is one server.
	Silencer Silencer
	// DialTimeout bounds connecting and logging in, and waiting for a turn when many connect at once.
	DialTimeout time.Duration
	// Meter counts the connections and their bytes.
	Meter Meter

	turns turns
}

// dialsMost is how many connections are made at once. A server that is asked for more than its backlog has room for (511 at Redis, 128
// on older systems) does not answer some of them, which costs a second at least, and after a few more the dial.
const dialsMost = 64

// turns bounds the connections that are made at once.
type turns struct {
	once sync.Once
	free chan struct{}
}

// take waits for a turn, which the caller gives back.
func (t *turns) take(ctx context.Context) (giveBack func(), err error) {
	t.once.Do(func() { t.free = make(chan struct{}, dialsMost) })
	select {
	case t.free <- struct{}{}:
		return func() { <-t.free }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Login is as whom to log in: the arguments of AUTH. Nil is the Options' user, an empty one nobody.
type Login []string

// Dial connects, logs in as the Options' user, and selects a database and a protocol (2 or 3).
func (e *Endpoint) Dial(ctx context.Context, db, proto int) (net.Conn, error) {
	return e.DialAs(ctx, nil, db, proto)
}

// DialAs is Dial as somebody else.
func (e *Endpoint) DialAs(ctx context.Context, as Login, db, proto int) (net.Conn, error) {
	nc, err := e.dial(ctx, as, db, proto)
	if err != nil {
		e.Meter.failed.Add(1)
	}
	return nc, err
}

func (e *Endpoint) dial(ctx context.Context, as Login, db, proto int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, e.DialTimeout)
	defer cancel()
	giveBack, err := e.turns.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the upstream: %w", err)
	}
	defer giveBack()
	connect := e.Options.Dialer
	if connect == nil {
		connect = (&net.Dialer{}).DialContext
	}
	nc, err := connect(ctx, e.Options.Network, e.Options.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the upstream: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline)
	}
	if err := e.login(nc, as, db, proto); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return nc, nc.SetDeadline(time.Time{})
}

func (e *Endpoint) login(nc net.Conn, as Login, db, proto int) error {
	var out []byte
	replies := 0
	if as == nil {
		as = e.own()
	}
	if len(as) > 0 {
		out = resp.AppendCommandStrings(out, append(Login{"AUTH"}, as...)...)
		replies++
	}
	if db != 0 {
		out = resp.AppendCommandStrings(out, "SELECT", strconv.Itoa(db))
		replies++
	}
	if proto != 2 {
		out = resp.AppendCommandStrings(out, "HELLO", strconv.Itoa(proto))
		replies++
	}
	if replies == 0 {
		return nil
	}
	if _, err := nc.Write(out); err != nil {
		return fmt.Errorf("log in to the upstream: %w", err)
	}
	in := bufio.NewReaderSize(nc, 512)
	for range replies {
		line, err := reply(in)
		if err != nil {
			return fmt.Errorf("log in to the upstream: %w", err)
		}
		if line[0] == '-' {
			return &refusal{string(line[1 : len(line)-2])}
		}
	}
	return nil
}

// ErrWrongPass says that Redis takes a user or its password no more.
var ErrWrongPass = errors.New("the user or its password is wrong")

// refusal is Redis's answer to a login.
type refusal struct{ line string }

func (r *refusal) Error() string { return "log in to the upstream: " + r.line }

func (r *refusal) Is(target error) bool {
	return target == ErrWrongPass && strings.HasPrefix(r.line, "WRONGPASS ")
}

// own is as whom the proxy itself logs in now, nil for nobody.
func (e *Endpoint) own() Login {
	username, password := e.Options.Username, e.Options.Password
	if e.Options.CredentialsProvider != nil {
		username, password = e.Options.CredentialsProvider()
	}
	switch {
	case password == "":
		return nil
	case username == "":
		return Login{password}
	}
	return Login{username, password}
}

// reply reads one reply, byte by byte so that nothing behind it is taken.
func reply(in *bufio.Reader) ([]byte, error) {
	var f resp.Framer
	var frame []byte
	for {
		b, err := in.ReadByte()
		if err != nil {
			return nil, err
		}
		frame = append(frame, b)
		_, done, err := f.Scan(frame[len(frame)-1:])
		if done || err != nil {
			return frame, err
		}
	}
}
