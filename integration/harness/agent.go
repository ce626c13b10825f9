package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// agentEnv makes a test binary an agent: its value is the address that the agent talks to.
const agentEnv = "FENCE_AGENT"

// Agent is a client process: it can be frozen and killed in the middle of a
// sequence, as a test's own connections cannot. It has one connection, made at its
// start, and sends its commands one by one.
//
//	test ──{"command": […]}──▶ agent process ──RESP──▶ server
//	     ◀──{"reply": bytes}──
type Agent struct {
	*Process

	orders chan order // closed at cleanup; ends the converse goroutine
}

// Result is what a command came to.
type Result struct {
	Reply any // as [Decode] gives it
	Err   error
}

type order struct {
	args   []string
	result chan<- Result
}

// instruction and report are the lines that a test and its agent exchange. []byte
// travels as base64, so that any byte may be in it.
type instruction struct {
	Command [][]byte `json:"command"`
}

type report struct {
	Reply []byte `json:"reply,omitempty"`
	Error string `json:"error,omitempty"` // the connection's, not the server's
}

// StartAgent starts a client process for the server or proxy at "host:port" or a
// unix socket's path. Needs a TestMain that calls [Main].
func StartAgent(tb testing.TB, addr string) *Agent {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatalf("find the test binary: %v", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), agentEnv+"="+addr)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	outReader, outWriter, outErr := os.Pipe()
	if err := errors.Join(inErr, outErr); err != nil {
		tb.Fatalf("connect to the agent: %v", err)
	}
	cmd.Stdout = outWriter
	a := &Agent{orders: make(chan order, 1024)}
	done := make(chan struct{})
	tb.Cleanup(func() { close(a.orders); <-done }) // after the process was killed
	a.Process = launch(tb, "agent", cmd)
	_ = outWriter.Close() // the agent's end is its own; so its death ends our reading
	go func() {
		defer close(done)
		defer func() { _ = in.Close(); _ = outReader.Close() }()
		a.converse(in, outReader)
	}()
	return a
}

// Do sends a command and waits for the reply. An error reply comes back as a
// [ReplyError], the end of the agent or its connection as another error. Any goroutine
// may call it.
func (a *Agent) Do(args ...string) (any, error) {
	result := <-a.DoAsync(args...)
	return result.Reply, result.Err
}

// DoAsync is Do without waiting. Commands keep their order.
func (a *Agent) DoAsync(args ...string) <-chan Result {
	result := make(chan Result, 1)
	a.orders <- order{args, result}
	return result
}

// converse is the agent's goroutine on the test's side.
func (a *Agent) converse(in io.Writer, out io.Reader) {
	lines := json.NewDecoder(out)
	for o := range a.orders {
		reply, err := a.exchange(in, lines, o.args)
		o.result <- Result{reply, err}
	}
}

func (a *Agent) exchange(in io.Writer, lines *json.Decoder, args []string) (any, error) {
	var i instruction
	for _, arg := range args {
		i.Command = append(i.Command, []byte(arg))
	}
	if err := json.NewEncoder(in).Encode(i); err != nil {
		return nil, fmt.Errorf("instruct the agent: %w", err)
	}
	var r report
	if err := lines.Decode(&r); err != nil {
		return nil, fmt.Errorf("hear from the agent: %w", err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	reply, err := Decode(r.Reply)
	if err != nil {
		return nil, err
	}
	if refusal, ok := reply.(ReplyError); ok {
		return nil, refusal
	}
	return reply, nil
}

// runAgent is the agent process: it does what the lines say until they end.
func runAgent(addr string, in io.Reader, out io.Writer) {
	conn, err := dial(addr)
	var replies *bufio.Reader
	if err == nil {
		defer func() { _ = conn.Close() }()
		replies = bufio.NewReader(conn)
	}
	instructions, reports := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var i instruction
		if instructions.Decode(&i) != nil {
			return
		}
		var raw []byte
		if err == nil {
			raw, err = perform(conn, replies, i)
		}
		var r report
		if err != nil { // and for ever after: the connection is broken
			r.Error = err.Error()
		} else {
			r.Reply = raw
		}
		if reports.Encode(r) != nil {
			return
		}
	}
}

func perform(conn io.Writer, replies *bufio.Reader, i instruction) ([]byte, error) {
	args := make([]string, len(i.Command))
	for n, arg := range i.Command {
		args[n] = string(arg)
	}
	if _, err := io.WriteString(conn, Encode(args...)); err != nil {
		return nil, err
	}
	_, raw, err := readReply(replies)
	return raw, err
}
