package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const programs = "programs" // their folder

// program is a crowd that is a process, for locks of other languages. It is called as
//
//	program PORT N KEY…
//
// and connects its N clients, client i for the key i modulo their number. Each does a cycle, and the program prints "{}". Then each line that it reads is the
// length of a turn in milliseconds, and it prints a line of JSON, a [turned].
type program struct {
	in  io.Writer
	out *bufio.Reader
}

// turned is what a program says at the end of a turn. Times are in milliseconds.
type turned struct {
	Error   string `json:"error"`
	Clients []struct {
		Took   []float64 `json:"took"`
		GaveUp int       `json:"gaveUp"`
		InTime int       `json:"inTime"`
		Last   float64   `json:"last"`
	} `json:"clients"`
}

func redisPy(tb testing.TB, to place, keys []string, n int) crowd {
	tb.Helper()
	return startProgram(tb, exec.Command(harness.Python(tb), filepath.Join(programs, "redispy.py")), to, keys, n)
}

func nodeRedlock(tb testing.TB, to place, keys []string, n int) crowd {
	tb.Helper()
	harness.InstallNodePackages(tb, programs)
	return startProgram(tb, exec.Command("node", filepath.Join(programs, "redlock.js")), to, keys, n)
}

func startProgram(tb testing.TB, cmd *exec.Cmd, to place, keys []string, n int) crowd {
	tb.Helper()
	_, port, err := net.SplitHostPort(to.redis)
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Args = append(append(cmd.Args, port, fmt.Sprint(n)), keys...)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		tb.Fatalf("connect to %s: %v", cmd, err)
	}
	harness.StartProgram(tb, filepath.Base(cmd.Args[1]), cmd)
	p := &program{in, bufio.NewReader(out)}
	if _, err := p.read(); err != nil {
		tb.Fatalf("the first cycles of %s: %v", cmd, err)
	}
	return p
}

func (p *program) work(_ context.Context, length time.Duration) ([]spell, error) {
	if _, err := fmt.Fprintln(p.in, length.Milliseconds()); err != nil {
		return nil, err
	}
	t, err := p.read()
	if err != nil {
		return nil, err
	}
	var spells []spell
	for _, c := range t.Clients {
		s := spell{gaveUp: c.GaveUp, inTime: c.InTime, last: milliseconds(c.Last)}
		for _, ms := range c.Took {
			s.took = append(s.took, milliseconds(ms))
		}
		spells = append(spells, s)
	}
	return spells, nil
}

func (p *program) read() (t turned, err error) {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return t, fmt.Errorf("read what it says: %w", err)
	}
	if err := json.Unmarshal(line, &t); err != nil {
		return t, fmt.Errorf("it says %.200q: %w", line, err)
	}
	if t.Error != "" {
		return t, errors.New(t.Error)
	}
	return t, nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
