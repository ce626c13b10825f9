//go:build image

// Package image tests the image's own files (dist/image, see scripts/image.sh) where there is nothing else: the binary runs
// in a root directory of its own that nobody may write to, as nobody, with no environment but a container's.
package image

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	built  = "../../dist/image"
	nobody = 65532
)

func TestMain(m *testing.M) { harness.Main(m) }

// root makes a root directory with the binary and a configuration.
func root(t *testing.T, config string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fence-image-") //nolint:usetesting // others than the owner have to reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, err := os.ReadFile(filepath.Join(built, "fence-proxy"))
	if err != nil {
		t.Fatalf("%v: run make image", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "fence-proxy"), binary, 0o755))
	must(os.MkdirAll(filepath.Join(dir, "etc", "fence-proxy"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "etc", "fence-proxy", "config.yaml"), []byte(config), 0o644))
	for _, path := range []string{"", "etc", "etc/fence-proxy"} {
		must(os.Chmod(filepath.Join(dir, path), 0o555))
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, path), 0o755) }) // so that it can be removed
	}
	return dir
}

// command runs the binary in a root directory as nobody, who has no rights there.
func command(dir string, env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command("/fence-proxy", args...)
	cmd.Path, cmd.Dir, cmd.Env, cmd.Err = "/fence-proxy", "/", env, nil
	output := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	} else { // in a user namespace anybody may
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}}
	}
	return cmd, output
}

func TestTheBinaryNeedsNothingBesideItself(t *testing.T) {
	binary, err := elf.Open(filepath.Join(built, "fence-proxy"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = binary.Close() }()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is not static: %v", p.Type)
		}
	}
	cmd, output := command(root(t, ""), nil, "version")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if want := "fence-proxy " + os.Getenv("IMAGE_VERSION") + "\n"; output.String() != want {
		t.Errorf("it says %q, not %q", output, want)
	}
}

func TestItServesFromAnEmptyRootThatItMayNotWriteTo(t *testing.T) {
	server := harness.StartRedis(t)
	listen, admin := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	dir := root(t, "rules:\n  - {name: chat, prefix: \"ctx:\", mode: lock}\n")
	before := files(t, dir)
	cmd, output := command(dir, []string{"FENCE_LISTEN=" + listen, "FENCE_ADMIN=" + admin, "FENCE_UPSTREAM_URL=" + server.URL()},
		"serve", "--config=/etc/fence-proxy/config.yaml")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	web := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	harness.Eventually(t, 0, func() bool {
		response, err := web.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, "it is ready")
	client := redis.NewClient(&redis.Options{Addr: listen})
	defer func() { _ = client.Close() }()
	if err := client.Get(t.Context(), "ctx:1").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("read: %v", err)
	}
	if err := client.Set(t.Context(), "ctx:1", "written", 0).Err(); err != nil {
		t.Errorf("write: %v", err)
	}
	if got := server.Client().Get(t.Context(), "ctx:1").Val(); got != "written" {
		t.Errorf("Redis has %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("at the end: %v\n%s", err, output)
	}
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("it has left %v", after)
	}
	if strings.Contains(output.String(), "level=ERROR") {
		t.Errorf("%s", output)
	}
}

func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheBillOfMaterialsNamesEveryModule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(built, "sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bill); err != nil || bill.BOMFormat != "CycloneDX" {
		t.Fatalf("format %q, %v", bill.BOMFormat, err)
	}
	named := map[string]string{}
	for _, c := range bill.Components {
		named[c.Name] = c.Version
	}
	info, err := buildinfo.ReadFile(filepath.Join(built, "fence-proxy"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range info.Deps {
		if named[module.Path] != module.Version {
			t.Errorf("%s %s is named as %q", module.Path, module.Version, named[module.Path])
		}
	}
	if len(info.Deps) < 10 {
		t.Errorf("the binary names %d modules", len(info.Deps))
	}
}
