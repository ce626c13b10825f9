package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/status"
)

// clientTimeout bounds one question to an admin server.
const clientTimeout = 5 * time.Second

// Client asks a proxy's admin server.
type Client struct {
	http    http.Client
	address string
	base    string
}

// NewClient returns a client of the admin server at an address, as net.Dial takes it. One that listens
// everywhere is asked here.
func NewClient(network, address string) *Client {
	c := &Client{address: address, base: "http://localhost"}
	if network == "tcp" {
		if host, port, err := net.SplitHostPort(address); err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
			address = net.JoinHostPort("localhost", port)
		}
		c.base = "http://" + address
	}
	c.http.Timeout = clientTimeout
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	return c
}

// Close closes the client's connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Raw returns an answer as it came.
func (c *Client) Raw(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v1/"+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // the address is said anyhow
		}
		return nil, fmt.Errorf("no answer from the admin address %s: %w", c.address, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.address, err)
	}
	if answer.StatusCode != http.StatusOK {
		var f failure
		if json.Unmarshal(text, &f) != nil || f.Error == "" {
			f.Error = "it is no fence-proxy's admin address, or that of another version"
		}
		return nil, fmt.Errorf("%s: %s", c.address, f.Error)
	}
	return text, nil
}

func ask[T any](ctx context.Context, c *Client, path string, query url.Values) (answer T, err error) {
	text, err := c.Raw(ctx, path, query)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

// Overview returns how things are.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return ask[Overview](ctx, c, "overview", nil)
}

// Holds returns open holds.
func (c *Client) Holds(ctx context.Context, query url.Values) (status.Page[status.Hold], error) {
	return ask[status.Page[status.Hold]](ctx, c, "holds", query)
}

// Refusals returns the last refusals, newest first.
func (c *Client) Refusals(ctx context.Context, query url.Values) (status.Page[status.Refusal], error) {
	return ask[status.Page[status.Refusal]](ctx, c, "refusals", query)
}

// Explain says how a key is guarded.
func (c *Client) Explain(ctx context.Context, query url.Values) (Explanation, error) {
	return ask[Explanation](ctx, c, "explain", query)
}
