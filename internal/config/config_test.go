package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// write makes a configuration file named config.yaml in the working directory
// of the test, so that errors name it so.
func write(t *testing.T, text string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "config.yaml"
}

func load(t *testing.T, text string, args ...string) *Config {
	t.Helper()
	cfg, err := Load(write(t, text), flags(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	set := pflag.NewFlagSet("fence-proxy", pflag.ContinueOnError)
	AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestDefaultIsAnEmbeddedStoreWithTheChatRule(t *testing.T) {
	t.Parallel()
	cfg, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:6380" || cfg.Upstream.URL != "embedded:" || cfg.Upstream.DialTimeout != 5*time.Second ||
		cfg.Drain != 5*time.Second || cfg.Lock.Provider != "redis" || cfg.Log.Level != "info" || cfg.Log.Format != "text" || cfg.Name == "" {
		t.Error(cfg)
	}
	key := []byte("agent:ctx:s42:history")
	r := cfg.Set.Match(key)
	if r == nil || r.Name != "chat" || r.Mode != rule.ModeAuto || r.Owner != rule.OwnerAuto {
		t.Fatalf("got rule %+v", r)
	}
	if got := string(r.AppendSession(nil, key)); got != "s42" {
		t.Errorf("got session %q", got)
	}
}

func TestLoadWithoutAFileIsTheDefault(t *testing.T) {
	got, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	want.notes = got.notes
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEveryOptionIsReadFromTheFile(t *testing.T) {
	cfg := load(t, `
listen: unix:///run/fence-proxy.sock
tls: {min_version: "1.3"}
name: agents-1
drain: 0
admin: ":9999"
admin_token: "0123456789abcdef"
admin_hosts: [a.example, b.example]
admin_pprof: true
limits: {connections: 5, request: 2mb, nesting: 64, pipeline: 7, output_buffer: 65536, output_timeout: 0, waiters: 3}
upstream:
  url: rediss+sentinel://alice:secret@a.example,b.example:1/main?db=3
  tls: {server_name: redis, insecure_skip_verify: true, min_version: "1.3"}
  sentinel: {username: bob, password: secret}
  dial_timeout: 250ms
  start_timeout: 3s
lock:
  provider: redis
  on_provider_down: pass
  agent_health: {http: "http://127.0.0.1:8000/healthz", tcp: "127.0.0.1:8000", interval: 2s, timeout: 500ms, failures: 2}
log: {level: debug, format: json}
telemetry: {endpoint: "https://collector:4317/", protocol: grpc, traces: false, metrics: false, logs: false, sample: 0.25, session_names: true}
rules:
  - name: chat
    prefix: "agent:ctx:"
    session: "agent:ctx:<session>:*"
    mode: lock
    owner: proxy
    client_by: name
    readers: [dashboard, "7"]
    writes_per_read: many
    scripts: allow
    wait: 0
    lease: 100ms
    max_hold: 1m30s
    idle: 10s
    linger: 50ms
    record_ttl: 2h
    durability: {replicas: 2, timeout: 250ms}
    locked_error: TRYAGAIN
  - {name: shared, prefix: "agent:ctx:shared:", mode: pass}
  - {name: binary, prefix: !!binary /wA=}
`)
	if got, want := cfg.String(), "listen=unix:///run/fence-proxy.sock tls.listen= tls.cert= tls.key= tls.client_ca= tls.min_version=1.3 admin=:9999 admin_token=xxxxx admin_token_file= admin_hosts=[a.example b.example] admin_pprof=true "+
		"name=agents-1 drain=0s "+
		"upstream.url=rediss+sentinel://alice:xxxxx@a.example,b.example:1/main?db=3 upstream.username= upstream.password= upstream.password_file= upstream.tls.ca= upstream.tls.cert= upstream.tls.key= "+
		"upstream.tls.server_name=redis upstream.tls.insecure_skip_verify=true upstream.tls.min_version=1.3 upstream.sentinel.username=bob upstream.sentinel.password=xxxxx upstream.sentinel.password_file= upstream.dial_timeout=250ms upstream.start_timeout=3s upstream.cluster=hidden lock.provider=redis "+
		"lock.on_provider_down=pass lock.agent_health.http=http://127.0.0.1:8000/healthz lock.agent_health.tcp=127.0.0.1:8000 "+
		"lock.agent_health.interval=2s lock.agent_health.timeout=500ms lock.agent_health.failures=2 "+
		"limits.connections=5 limits.request=2mb limits.nesting=64 limits.pipeline=7 limits.output_buffer=64kb limits.output_timeout=0s limits.waiters=3 "+
		"log.level=debug log.format=json telemetry.endpoint=https://collector:4317/ telemetry.protocol=grpc telemetry.traces=false "+
		"telemetry.metrics=false telemetry.logs=false telemetry.sample=0.25 telemetry.session_names=true rules=[chat shared binary]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want, err := rule.Compile(rule.Rule{
		Name: "chat", Prefix: "agent:ctx:", Session: "agent:ctx:<session>:*", Mode: rule.ModeLock, Owner: rule.OwnerProxy,
		ClientBy: rule.ByName, Readers: []string{"dashboard", "7"},
		WritesPerRead: rule.Many, Scripts: rule.ScriptsAllow, Wait: 0, Lease: 100 * time.Millisecond, MaxHold: 90 * time.Second, Idle: 10 * time.Second,
		Linger: 50 * time.Millisecond, RecordTTL: 2 * time.Hour, LockedError: "TRYAGAIN",
		Durability: rule.Durability{Replicas: 2, Timeout: 250 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cfg.Rules[0], want) {
		t.Errorf("got  %+v\nwant %+v", cfg.Rules[0], want)
	}
	if r := cfg.Set.Match([]byte("agent:ctx:shared:x")); r != cfg.Rules[1] || r.Mode != rule.ModePass || r.Wait != 1500*time.Millisecond {
		t.Errorf("got %+v", r)
	}
	if cfg.Rules[2].Prefix != "\xff\x00" {
		t.Errorf("got prefix %q", cfg.Rules[2].Prefix)
	}
}

func TestAFileWithoutRulesGuardsNothing(t *testing.T) {
	cfg := load(t, "upstream: {url: 'redis://localhost'}\n")
	if !cfg.Set.Empty() || cfg.Set.Match([]byte("agent:ctx:a:b")) != nil {
		t.Error("guards something")
	}
	if got, want := strings.Join(cfg.Notes(), "\n"), "there are no rules: no key is guarded"; got != want {
		t.Errorf("got notes %q", got)
	}
}

func TestAFlagWinsOverAVariableAndThatOverTheFile(t *testing.T) {
	const file = "listen: 127.0.0.1:1\nname: file\ndrain: 1s\nupstream: {url: 'redis://file'}\n"
	t.Setenv("FENCE_NAME", "variable")
	t.Setenv("FENCE_DRAIN", "2s")
	t.Setenv("FENCE_UPSTREAM_DIAL_TIMEOUT", "3s")
	t.Setenv("FENCE_UPSTREAM_URL", "")
	cfg := load(t, file, "--drain=4s", "--log-level=warn")
	for name, pair := range map[string][2]string{
		"file":                   {cfg.Listen, "127.0.0.1:1"},
		"variable":               {cfg.Name, "variable"},
		"flag":                   {cfg.Drain.String(), "4s"},
		"variable, not in file":  {cfg.Upstream.DialTimeout.String(), "3s"},
		"variable set to naught": {cfg.Upstream.URL, "redis://file"},
		"flag, not in file":      {cfg.Log.Level, "warn"},
		"default":                {cfg.Log.Format, "text"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %q, want %q", name, pair[0], pair[1])
		}
	}
}

// An empty variable counts as none, but where nothing is something to ask for.
func TestAnEmptyVariableTurnsAdminOff(t *testing.T) {
	const file = "admin: 127.0.0.1:1\nupstream: {url: 'redis://file'}\n"
	t.Setenv("FENCE_ADMIN", "")
	if cfg := load(t, file); cfg.Admin != "" {
		t.Errorf("admin is at %q", cfg.Admin)
	}
	if cfg := load(t, file, "--admin=127.0.0.1:2"); cfg.Admin != "127.0.0.1:2" {
		t.Errorf("with a flag, admin is at %q", cfg.Admin)
	}
	for _, o := range options() {
		t.Setenv(variable(o.key), "")
	}
	want := defaults()
	if cfg := load(t, "upstream: {url: 'redis://file'}\n"); cfg.Listen != want.Listen || cfg.Name != want.Name || cfg.Limits != want.Limits || cfg.Log != want.Log || cfg.Admin != "" {
		t.Errorf("%+v", cfg)
	}
}

// namesFiles tells the options whose files have to be there, which have tests of their own.
func namesFiles(key string) bool {
	return strings.HasSuffix(key, "_file") || slices.Contains([]string{"tls.listen", "tls.cert", "tls.key", "tls.client_ca", "upstream.tls.ca", "upstream.tls.cert", "upstream.tls.key"}, key)
}

func TestEveryOptionHasAVariable(t *testing.T) {
	values := map[string]string{
		"listen": "[::1]:7000", "name": "n", "drain": "7s", "upstream.url": "rediss+sentinel://a,b/m?db=2",
		"tls.min_version": "1.3", "upstream.tls.server_name": "n", "upstream.tls.insecure_skip_verify": "true", "upstream.tls.min_version": "1.3",
		"upstream.username": "u", "upstream.password": "p", "upstream.sentinel.username": "u", "upstream.sentinel.password": "p", "upstream.dial_timeout": "7s", "upstream.start_timeout": "8s", "upstream.cluster": "passthrough",
		"lock.provider": "redis", "log.level": "error", "log.format": "json", "admin": ":7001",
		"admin_token": "0123456789abcdef", "admin_hosts": "a.example", "admin_pprof": "true",
		"limits.connections": "9", "limits.request": "9mb", "limits.nesting": "99", "limits.pipeline": "9",
		"limits.output_buffer": "9mb", "limits.output_timeout": "9s", "limits.waiters": "9",
		"lock.on_provider_down": "pass", "lock.agent_health.http": "http://h/x", "lock.agent_health.tcp": "h:1",
		"telemetry.endpoint": "http://h:1", "telemetry.protocol": "grpc", "telemetry.traces": "false", "telemetry.metrics": "false",
		"telemetry.logs": "false", "telemetry.sample": "0.5", "telemetry.session_names": "true",
		"lock.agent_health.interval": "9s", "lock.agent_health.timeout": "9s", "lock.agent_health.failures": "9",
	}
	withKinds(t) // whose settings have a test of their own
	all := slices.DeleteFunc(options(), func(o option) bool { return namesFiles(o.key) })
	for _, o := range all {
		if values[o.key] == "" {
			t.Fatalf("%s is not in this test", o.key)
		}
		t.Setenv(variable(o.key), values[o.key])
	}
	cfg, err := Load("", flags(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if got := strings.Trim(fmt.Sprint(o.field(cfg)), "[]"); got != strings.Trim(values[o.key], "[]") {
			t.Errorf("%s: got %s, want %s", variable(o.key), got, values[o.key])
		}
	}
}

func TestEveryFlagSetsItsOption(t *testing.T) {
	values := map[string]string{
		"listen": ":1", "name": "n", "drain": "7s", "upstream": "redis://h", "log-level": "error", "log-format": "json", "admin": ":2",
	}
	var args []string
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(set)
	set.VisitAll(func(f *pflag.Flag) {
		if values[f.Name] == "" {
			t.Fatalf("--%s is not in this test", f.Name)
		}
		args = append(args, "--"+f.Name+"="+values[f.Name])
	})
	cfg, err := Load("", flags(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{
		"listen": cfg.Listen, "name": cfg.Name, "drain": cfg.Drain.String(), "upstream": cfg.Upstream.URL,
		"log-level": cfg.Log.Level, "log-format": cfg.Log.Format, "admin": cfg.Admin,
	}
	if !reflect.DeepEqual(got, values) {
		t.Errorf("got %v, want %v", got, values)
	}
}

func TestAMistakeNamesTheVariableOrFlagItCameFrom(t *testing.T) {
	t.Setenv("FENCE_LOG_LEVEL", "loud")
	t.Setenv("FENCE_DRAIN", "5")
	t.Setenv("FENCE_RULES", "[]")
	_, err := Load(write(t, "log:\n  level: quiet\n  format: xml\n"), flags(t, "--listen=here", "--upstream=redis://:secret@h:x"))
	const want = `FENCE_DRAIN: "5" has no unit: write 5s or 5ms
--listen: "here" is not an address: write host:port, as in 127.0.0.1:6380, or unix:///run/fence-proxy.sock
--upstream: cannot be parsed: percent-encode what is special in the password (# as %23, / as %2F, ? as %3F, % as %25) and put IPv6 addresses in brackets
FENCE_LOG_LEVEL: "loud" is not known: write debug, info, warn or error
FENCE_RULES: is set, but rules are read from the file only: unset it, and write the rules into the file
config.yaml:3: log.format: "xml" is not known: write text or json`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestNotesSayWhatIsWorthKnowing(t *testing.T) {
	t.Setenv("FENCE_LISTN", ":1")
	t.Setenv("FENCE_PROXY_SERVICE_HOST", "10.0.0.1")
	t.Setenv("FENCE_TOKEN", "42")
	cfg := load(t, `
rules:
  - {name: a, prefix: "a:"}
  - {name: b, prefix: "b:"}
  - {name: slow, prefix: "s:", wait: 5s, lease: 5s, idle: 10m}
  - {name: free, prefix: "c:", mode: pass}
  - {name: part, prefix: "a:part:", mode: pass}
`)
	want := []string{
		`FENCE_LISTN is set but is no option: did you mean FENCE_LISTEN?`,
		`upstream.url is "embedded:": all data is in this process's memory and gone when it ends`,
		`rules a, b: after a proxy is killed its holds last until the lease (30s) ends; waiters give up after wait (1.5s)`,
		`rule slow: wait (5s) is longer than the socket timeout that some clients have (Jedis 2s, go-redis 3s, redis-py 5s); one that gives up first sends its command again`,
		`rule slow: idle (10m) is longer than max_hold (2m), which ends the hold first`,
		`rule free: mode is pass, and no other rule guards a shorter prefix: the rule changes nothing`,
	}
	if got := cfg.Notes(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNotesOfTheBuiltInRulesSaySo(t *testing.T) {
	cfg, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `no configuration file: the built-in rule "chat" guards the keys under "agent:ctx:"`
	if !slices.Contains(cfg.Notes(), want) {
		t.Errorf("got %q", cfg.Notes())
	}
}

func TestThePasswordIsNeverPrinted(t *testing.T) {
	t.Parallel()
	cfg, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	for _, url := range []string{"redis://:hunter2@h", "redis://u:hunter2@h:1/2", "unix://:hunter2@/run/s", "redis://:hunter2@h:bad", "redis+sentinel://u:hunter2@a,b:1/m"} {
		cfg.Upstream.URL = url
		target, _ := cfg.Upstream.Target() // one is bad on purpose
		for _, v := range []any{cfg, *cfg, cfg.Upstream, &cfg.Upstream, target} {
			fmt.Fprintf(&logged, "%v %+v %#v %s\n", v, v, v, v)
			slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "v", v)
			slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "v", v)
			if err := json.NewEncoder(&logged).Encode(v); err != nil {
				t.Error(err)
			}
		}
	}
	if strings.Contains(logged.String(), "hunter2") {
		t.Error(logged.String())
	}
}

func TestUpstreamURLsAreTakenApart(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]Target{
		"embedded:":              {Embedded: true},
		"redis://localhost":      {Network: "tcp", Address: "localhost:6379"},
		"redis://10.0.0.1:7000/": {Network: "tcp", Address: "10.0.0.1:7000"},
		"redis://[::1]:7000/15":  {Network: "tcp", Address: "[::1]:7000", DB: 15},
		"redis://[::1]":          {Network: "tcp", Address: "[::1]:6379"},
		"redis://:p%40s%23s@h":   {Network: "tcp", Address: "h:6379", Password: "p@s#s"},
		"redis://u:p@h":          {Network: "tcp", Address: "h:6379", Username: "u", Password: "p"},
		"redis+cluster://a":      {Network: "tcp", Address: "a:6379", Cluster: []string{"a:6379"}},
		"redis+cluster://u:p%40@a:1,[::1],c:3/": {
			Network: "tcp", Address: "a:1", Username: "u", Password: "p@", Cluster: []string{"a:1", "[::1]:6379", "c:3"},
		},
		"unix:///run/redis.sock":        {Network: "unix", Address: "/run/redis.sock"},
		"unix://u:p@/run/r.sock?db=3":   {Network: "unix", Address: "/run/r.sock", Username: "u", Password: "p", DB: 3},
		"unix:///run/with%20space.sock": {Network: "unix", Address: "/run/with space.sock"},
		"rediss://h":                    {Network: "tcp", Address: "h:6379", TLS: true},
		"rediss+cluster://h,i":          {Network: "tcp", Address: "h:6379", TLS: true, Cluster: []string{"h:6379", "i:6379"}},
		"redis+sentinel://h/mymaster":   {Network: "tcp", Address: "mymaster", Sentinels: []string{"h:26379"}},
		"redis+sentinel://u:p,@a:1,b,[::1],[::2]:7/m?db=2": {
			Network: "tcp", Address: "m", Username: "u", Password: "p,", DB: 2, Sentinels: []string{"a:1", "b:26379", "[::1]:26379", "[::2]:7"},
		},
	} {
		got, err := Upstream{URL: url}.Target()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", url, got, err)
		}
	}
}

func TestListenAddressIsWhatNetListenTakes(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string][2]string{
		"127.0.0.1:6380": {"tcp", "127.0.0.1:6380"}, ":0": {"tcp", ":0"}, "[::]:1": {"tcp", "[::]:1"},
		"unix:///run/a.sock": {"unix", "/run/a.sock"},
	} {
		network, address := (&Config{Listen: listen}).ListenAddress()
		if network != want[0] || address != want[1] {
			t.Errorf("%s: got %s %s", listen, network, address)
		}
	}
}

func TestLoadReportsEveryMistakeAsAnErrorOfItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my config.yaml")
	text := "listen: nowhere\nlisten: [\"again\"]\ntypo: 1\nrules:\n  - name: a\n    wait: 1\n  - prefix: x\n    mode: block\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, nil)
	joined, ok := err.(interface{ Unwrap() []error }) // is about the shape
	if !ok {
		t.Fatal(err)
	}
	var got []string
	for _, e := range joined.Unwrap() {
		var mistake *Error
		if !errors.As(e, &mistake) || mistake.File != path {
			t.Fatalf("%#v", e)
		}
		got = append(got, fmt.Sprint(mistake.Line, " ", mistake.Key))
	}
	want := []string{"1 listen", "2 listen", "3 typo", "5 rules[0].prefix", "6 rules[0].wait", "7 rules[1].name", "8 rules[1].mode"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q\n%v", got, want, err)
	}
}
