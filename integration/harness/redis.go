package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// serverEnv is the path of the server to test with, as scripts/servers.sh prints it, in place of the redis-server that the PATH has.
const serverEnv = "FENCE_TEST_REDIS"

// Redis is a real redis-server (or what [serverEnv] names) with an empty, unpersisted database on a loopback
// port. Its Process changes with every restart.
type Redis struct {
	*Process

	Addr   string
	Port   int
	Secure string // host:port under TLS; "" without [WithTLS]
	Socket string // unix socket's path; "" without [WithSocket]
	Dir    string // its working directory

	tb       testing.TB
	file     string // its configuration file, which it may rewrite; "" for none
	args     []string
	env      []string
	password string
	control  *control
	log      *Transcript // of all its lives
}

// RedisOption changes how [StartRedis] starts the server.
type RedisOption func(*Redis)

// WithArgs adds arguments to the server's command line, as in
// WithArgs("--maxmemory", "2mb", "--maxmemory-policy", "allkeys-lru"). They win over
// the harness's own.
func WithArgs(args ...string) RedisOption {
	return func(r *Redis) { r.args = append(r.args, args...) }
}

// WithTLS makes the server listen under TLS as well, at [Redis.Secure]; who connects there needs a certificate of the same authority.
// The bus of a cluster under TLS is at a port that belongs to this one.
func WithTLS(ca *Authority) RedisOption {
	return func(r *Redis) {
		own := ca.Sign("redis")
		r.Secure = loopback(freeClusterPort(r.tb))
		r.args = append(r.args, "--tls-port", portOf(r.Secure), "--tls-cert-file", own.Cert, "--tls-key-file", own.Key, "--tls-ca-cert-file", ca.File)
	}
}

// WithSocket makes the server listen on a unix socket as well.
func WithSocket() RedisOption {
	return func(r *Redis) {
		r.Socket = filepath.Join(r.Dir, "redis.sock")
		r.args = append(r.args, "--unixsocket", r.Socket)
	}
}

// WithPassword makes the server ask for a password. Clients from [Redis.Client]
// and the URL of [Redis.URL] have it.
func WithPassword(password string) RedisOption {
	return func(r *Redis) {
		r.password = password
		r.args = append(r.args, "--requirepass", password)
	}
}

// WithClock gives the server a clock of its own.
func WithClock(c *Clock) RedisOption {
	return func(r *Redis) { r.env = append(r.env, c.env...) }
}

// withFile gives the server a configuration file, which it may rewrite. It is in the server's directory.
func withFile(tb testing.TB, lines ...string) RedisOption {
	tb.Helper()
	return func(r *Redis) {
		r.file = filepath.Join(r.Dir, "redis.conf")
		if err := os.WriteFile(r.file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// withSource has the server's own connections come from an address: to its primary, to a cluster's nodes, a Sentinel's.
func withSource(tb testing.TB, addr string) RedisOption {
	tb.Helper()
	if before7(tb) {
		return WithArgs("--bind", addr, "127.0.0.1") // from the first of them
	}
	return WithArgs("--bind-source-addr", addr)
}

// StartRedis starts a redis-server and waits until it answers.
func StartRedis(tb testing.TB, options ...RedisOption) *Redis {
	tb.Helper()
	port := FreePort(tb)
	r := &Redis{Addr: loopback(port), Port: port, Dir: shortTempDir(tb), tb: tb, log: &Transcript{}}
	for _, option := range options {
		option(r)
	}
	r.control = &control{tb: tb, addr: r.Addr, password: r.password}
	tb.Cleanup(r.control.close)
	logIfFailed(tb, "redis-server "+r.Addr, r.log)
	r.start()
	return r
}

// Client returns a go-redis client straight at the server, closed when the test
// ends. The edits change its options.
func (r *Redis) Client(edits ...func(*redis.Options)) *redis.Client {
	r.tb.Helper()
	withPassword := func(o *redis.Options) { o.Password = r.password }
	return newClient(r.tb, r.Addr, append([]func(*redis.Options){withPassword}, edits...))
}

// URL is the server's address as an upstream URL.
func (r *Redis) URL() string {
	if r.password != "" {
		return fmt.Sprintf("redis://:%s@%s", r.password, r.Addr)
	}
	return "redis://" + r.Addr
}

// Stop shuts the server down in an orderly way (SIGTERM) and waits for its end.
func (r *Redis) Stop() {
	r.tb.Helper()
	r.Terminate()
	r.Wait()
}

// Restart kills the server if it still runs and starts it again on the same port. Without
// persistence (see [WithArgs]) it comes back empty.
func (r *Redis) Restart() {
	r.tb.Helper()
	r.Kill()
	r.start()
}

// RestartEmpty is Restart without any file that the server has written.
func (r *Redis) RestartEmpty() {
	r.tb.Helper()
	r.Kill()
	files, err := filepath.Glob(filepath.Join(r.Dir, "*"))
	for _, file := range files {
		err = os.RemoveAll(file)
	}
	if err != nil {
		r.tb.Fatalf("empty the directory of redis-server: %v", err)
	}
	r.start()
}

func (r *Redis) start() {
	r.tb.Helper()
	server := RedisServer(r.tb)
	var args []string
	if r.file != "" {
		args = append(args, r.file)
	}
	args = append(args,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(r.Port), "--dir", r.Dir,
		"--save", "", "--appendonly", "no")
	cmd := exec.Command(server, append(args, r.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, r.log, r.log
	cmd.Env = append(cmd.Environ(), r.env...)
	r.control.restarted()
	r.Process = launch(r.tb, "redis-server "+r.Addr, cmd)
	if !poll(patience, func() bool { return r.exited() || r.control.connect() }) || r.exited() {
		r.tb.Fatalf("redis-server %s does not answer and %s:\n%s", r.Addr, r.fate(), r.log)
	}
}

// RedisServer is the path of the server to test with.
func RedisServer(tb testing.TB) string {
	tb.Helper()
	if server := os.Getenv(serverEnv); server != "" {
		return server
	}
	server, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatal("redis-server is not on the PATH: apt-get install redis-server")
	}
	return server
}

// shortTempDir is tb.TempDir for unix sockets, whose paths may have 100 bytes or so.
func shortTempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fence-") //nolint:usetesting // its paths hold the test's name
	if err != nil {
		tb.Fatalf("make a temporary directory: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
