package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
)

// waitEvery is how often the proxy is asked.
const waitEvery = 100 * time.Millisecond

func newWait() *cobra.Command {
	cmd := &cobra.Command{
		Use: "wait ready|unused", Short: "Wait until the proxy beside it is ready, or has no client left",
		Long: `Asks the proxy with the same configuration at its admin address, and ends with 0 once it is

  ready   it takes clients
  unused  no client is connected, or the proxy has gone

and with 75 if it is not when the time is over. For hooks and probes in images without a shell.`,
		Args: exactArgs(1), ValidArgs: []string{"ready", "unused"},
	}
	path := cmd.Flags().String("config", "", "configuration `file` of the proxy")
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "`time` to wait")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := config.Load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		network, address := cfg.AdminAddress()
		if address == "" {
			return usageError{errors.New("the proxy serves no health and metrics: give it an admin address")}
		}
		ask := newQuestion(network, address)
		is := map[string]func(context.Context) error{"ready": ask.ready, "unused": ask.unused}[args[0]]
		if is == nil {
			return usageError{fmt.Errorf("%q is not known: write ready or unused", args[0])}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return wait(ctx, is)
	}
	return cmd
}

// wait asks until the answer is nil.
func wait(ctx context.Context, is func(context.Context) error) error {
	for {
		err := is(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(waitEvery):
		case <-ctx.Done():
			return &statusError{exitTempFail, err}
		}
	}
}

// question asks a proxy at its admin address.
type question struct{ http http.Client }

func newQuestion(network, address string) *question {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return &question{http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// ready is nil when the proxy says that it is.
func (q *question) ready(ctx context.Context) error {
	body, err := q.get(ctx, "/readyz")
	if err == nil {
		_ = body.Close()
	}
	return err
}

// unused is nil when the proxy has no client, or is not there.
func (q *question) unused(ctx context.Context) error {
	const clients = "fence_proxy_connections"
	body, err := q.get(ctx, "/metrics")
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return nil
	case err != nil:
		return err
	}
	defer func() { _ = body.Close() }()
	for lines := bufio.NewScanner(body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name, _, _ = strings.Cut(name, "{"); name != clients {
			continue
		}
		if value != "0" {
			return fmt.Errorf("%s clients are connected", value)
		}
		return nil
	}
	return errors.New("the proxy does not say how many clients it has")
}

// get returns the body of a good answer. The caller closes it.
func (q *question) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://proxy"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := q.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return response.Body, nil
}
