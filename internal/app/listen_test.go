package app

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/config"
)

func TestASocketHasTheModeThatItsAddressNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for listen, want := range map[string]fs.FileMode{path + "?mode=0662": 0o662, path + "?mode=600": 0o600} {
		cfg, err := config.Default()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listen, cfg.Admin = "unix://"+listen, ""
		p, err := Start(t.Context(), cfg, "test", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		p.close(t.Context())
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", listen, info.Mode(), err)
		}
	}
}
