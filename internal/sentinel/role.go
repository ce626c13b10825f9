package sentinel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// roleTimeout bounds asking a node for its role.
const roleTimeout = time.Second

// replicaError says that a node is no primary.
type replicaError struct{ addr, role string }

func (e *replicaError) Error() string {
	return fmt.Sprintf("%s says that it is no primary (ROLE %s)", e.addr, e.role)
}

func isReplica(err error) bool {
	var replica *replicaError
	return errors.As(err, &replica)
}

// judge asks one node for its role, over a connection of its own.
type judge struct{ client *redis.Client }

// role returns nil if a node says that it is a primary. One that does not let the proxy's user ask counts as one.
func (d *Dialer) role(ctx context.Context, addr string) error {
	j := d.judge(addr)
	ctx, cancel := context.WithTimeout(ctx, roleTimeout)
	defer cancel()
	role, err := j.client.Do(ctx, "ROLE").Slice()
	var refusal redis.Error
	switch {
	case errors.As(err, &refusal) && isRights(refusal.Error()):
		if !d.mute {
			d.mute = true
			d.options.Log.Warn("the node does not say whether it is a primary: give upstream.url's user the right to ROLE", "node", addr, "error", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("ask %s for its role: %w", addr, err)
	case len(role) == 0 || role[0] != "master":
		return &replicaError{addr, fmt.Sprint(role)}
	}
	return nil
}

// isRights reports whether a refusal is about who asks.
func isRights(text string) bool {
	for _, word := range []string{"NOPERM", "NOAUTH"} {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}

// judge returns the one for a node. Those for nodes that are not asked any more are let go.
func (d *Dialer) judge(addr string) *judge {
	if j := d.judges[addr]; j != nil {
		return j
	}
	primary := d.Primary()
	for other, j := range d.judges {
		if other != primary {
			_ = j.client.Close()
			delete(d.judges, other)
		}
	}
	j := &judge{redis.NewClient(d.asking(addr, d.options.Login))}
	d.judges[addr] = j
	return j
}

// asking are the options of a client that asks one server now and then.
func (d *Dialer) asking(addr string, login func() (username, password string)) *redis.Options {
	return &redis.Options{
		Addr: addr, PoolSize: 1, MaxRetries: -1, Protocol: 2, DisableIdentity: true, ClientName: "fence-proxy",
		DialTimeout: d.options.DialTimeout, DialerRetries: 1, ContextTimeoutEnabled: true,
		CredentialsProvider: login, Dialer: d.options.Connect,
	}
}
