package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/fence-proxy/fence-proxy/internal/cluster"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// OpenCluster opens the way to a target that is a cluster; nil for any other. The caller closes it, behind all that goes that way.
func OpenCluster(ctx context.Context, u config.Upstream, target config.Target, log *slog.Logger) (*cluster.Cluster, error) {
	if target.Cluster == nil {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	c, err := cluster.Open(ctx, cluster.Options{
		Seeds: target.Cluster, Username: target.Username, Password: target.Password,
		Dial: new(net.Dialer).DialContext, DialTimeout: u.DialTimeout,
		Everywhere:  func(channel []byte) bool { return bytes.HasPrefix(channel, []byte(tokenstore.Prefix)) },
		Passthrough: u.Cluster == config.ClusterPassthrough, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.Redacted(), err)
	}
	return c, nil
}
