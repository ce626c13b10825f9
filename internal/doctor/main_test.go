package doctor_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func TestMain(m *testing.M) { harness.Main(m) }

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func opener(client *redis.Client) func(context.Context) (*tokenstore.Store, error) {
	return func(ctx context.Context) (*tokenstore.Store, error) {
		return tokenstore.Open(ctx, client.Options(), "redis")
	}
}
