package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Patient is what is looked at.
type Patient struct {
	// Config is the configuration, as it was loaded.
	Config *config.Config
	// Nodes are the Redis servers that hold its data, primaries first. They stay the caller's.
	Nodes []Node
	// Area is where a scratch record may be.
	Area tokenstore.Area
	// Open opens the fence records; the check closes what it returns.
	Open func(context.Context) (*tokenstore.Store, error)
	// Locker opens the lock provider, nil where the store itself grants; the check closes what it returns.
	Locker func() (provider.Locker, error)
}

// Node is one Redis.
type Node struct {
	Addr  string
	Redis *redis.Client // as the proxy's user
	// Operator is somebody who may ask more than the proxy's user, nil if there is nobody.
	Operator *redis.Client
}

// patience bounds each check.
const patience = 10 * time.Second
