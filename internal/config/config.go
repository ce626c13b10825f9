package config

import (
	"os"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/size"
)

// Config is a checked configuration. It does not change once loaded.
type Config struct {
	// Listen is where clients connect: host:port, or unix:///path[?mode=0660].
	// "" is nowhere, where TLS says where. Default "127.0.0.1:6380".
	Listen string `yaml:"listen"`
	// TLS is how clients connect under TLS.
	TLS TLS `yaml:"tls"`
	// Admin is where health, metrics and the status page are served: host:port,
	// unix:///path, or "" for nowhere. Default "127.0.0.1:9380".
	Admin string `yaml:"admin" empty:"nowhere"`
	// AdminToken is what whoever wants to change something there has to present,
	// 16 characters or more; "" lets nobody. Default "".
	AdminToken string `yaml:"admin_token"`
	// AdminTokenFile is a file with the token, instead of AdminToken; it is read
	// at each use. Default "".
	AdminTokenFile string `yaml:"admin_token_file"`
	// AdminHosts are names, besides localhost and addresses, under which browsers
	// may reach the status page. Default none.
	AdminHosts []string `yaml:"admin_hosts"`
	// AdminPprof serves Go's profiles under /debug/pprof/. Default false.
	AdminPprof bool `yaml:"admin_pprof"`
	// Name is this proxy's name in messages, so that a refusal says behind
	// which proxy the holder is. Default the host's name.
	Name string `yaml:"name"`
	// Drain is how long sequences may go on after SIGTERM; 0 breaks them off.
	// Default 5s.
	Drain time.Duration `yaml:"drain"`
	// Upstream is the Redis that holds the data.
	Upstream Upstream `yaml:"upstream"`
	// Users are who may use the proxy, where it asks by itself; none (default):
	// what clients say with AUTH goes to the Redis.
	Users []*account.User `yaml:"users"`
	// Lock is where locks are.
	Lock Lock `yaml:"lock"`
	// Limits bound what clients may ask of the proxy.
	Limits Limits `yaml:"limits"`
	// Log is how the proxy logs.
	Log Log `yaml:"log"`
	// Telemetry is what is sent to an OpenTelemetry collector.
	Telemetry Telemetry `yaml:"telemetry"`
	// Rules are the rules in the order they were written.
	Rules []*rule.Rule `yaml:"rules"`

	// Set finds the rule of a key among Rules.
	Set *rule.Set `yaml:"-"`

	notes []string // what Load saw that the values don't show
}

// Upstream says how to reach the Redis that holds the data.
type Upstream struct {
	// URL is "embedded:" (a store in this process's memory, the default),
	// redis://[[user]:password@]host[:port][/db],
	// redis+cluster://[[user]:password@]host[:port],…,
	// redis+sentinel://[[user]:password@]host[:port],…/name[?db=N] or
	// unix://[[user]:password@]/path[?db=N]. It may hold a password;
	// [Upstream.Target] takes it apart.
	URL string `yaml:"url"`
	// Username is as whom to log in there, where the URL does not say; "" (default)
	// is the default user.
	Username string `yaml:"username"`
	// Password is its password. Default "".
	Password string `yaml:"password"`
	// PasswordFile is a file with the password, instead of Password; it is read for
	// each new connection. Default "".
	PasswordFile string `yaml:"password_file"`
	// TLS is how to connect where the URL begins with rediss instead of redis.
	TLS UpstreamTLS `yaml:"tls"`
	// Sentinel is as whom to log in at the Sentinels of such a URL.
	Sentinel Sentinel `yaml:"sentinel"`
	// DialTimeout is how long connecting may take. Default 5s.
	DialTimeout time.Duration `yaml:"dial_timeout"`
	// StartTimeout is how long a proxy that starts waits for an upstream that can't be
	// reached, or is not ready, before it gives up. Default 1m; 0: it tries once.
	StartTimeout time.Duration `yaml:"start_timeout"`
	// Cluster says what clients see of Redis Cluster: "hidden" (default), one
	// Redis; "passthrough", a cluster of one node, which is the proxy.
	Cluster string `yaml:"cluster"`
}

// Lock says where locks are.
type Lock struct {
	// Provider grants the locks: "redis" (default), which is the upstream itself,
	// or one of provider.Kinds. Each of these has its settings under lock.<name>.
	Provider string `yaml:"provider"`
	// OnProviderDown says what becomes of guarded commands while a provider other
	// than redis can't be asked: "refuse" (default), or "pass": they go through
	// unguarded.
	OnProviderDown string `yaml:"on_provider_down"`
	// AgentHealth ties holds to the health of the agent beside the proxy.
	AgentHealth AgentHealth `yaml:"agent_health"`

	settings map[string]provider.Settings // of each kind, by name
}

// AgentHealth says how to ask the agent beside the proxy whether it is healthy. With neither HTTP nor TCP it
// is not asked.
type AgentHealth struct {
	// HTTP is a URL; healthy is an answer of 200 to 399.
	HTTP string `yaml:"http"`
	// TCP is host:port; healthy is that it takes connections.
	TCP string `yaml:"tcp"`
	// Interval is the time between two questions. Default 5s.
	Interval time.Duration `yaml:"interval"`
	// Timeout is how long an answer may take. Default 1s.
	Timeout time.Duration `yaml:"timeout"`
	// Failures is how many in a row make it unhealthy. Default 3.
	Failures int `yaml:"failures"`
}

// Set reports whether the agent is to be asked.
func (a AgentHealth) Set() bool { return a.HTTP != "" || a.TCP != "" }

// Limits bound what clients may ask of the proxy. DESIGN.md says what happens at
// each.
type Limits struct {
	// Connections is how many clients may be connected. Default 10000.
	Connections int `yaml:"connections"`
	// Request is the most bytes of one request, 40 more counting for each of its
	// arguments. Default 1gb.
	Request size.Size `yaml:"request"`
	// Nesting is how deep a reply of Redis may be nested. Default 10000, more
	// than Redis makes of any script.
	Nesting int `yaml:"nesting"`
	// Pipeline is how many commands of a client may wait for Redis before no
	// more are read from it. Default 10000.
	Pipeline int `yaml:"pipeline"`
	// OutputBuffer is the most bytes of replies that are kept for one client.
	// Default 1gb.
	OutputBuffer size.Size `yaml:"output_buffer"`
	// OutputTimeout is how long a client may take none of the replies that wait
	// for it; 0 is for ever. Default 5m.
	OutputTimeout time.Duration `yaml:"output_timeout"`
	// Waiters is how many clients, of all proxies, may wait for one session.
	// Default 1000.
	Waiters int `yaml:"waiters"`
}

// Log says how the proxy logs.
type Log struct {
	// Level is the least level that is logged: "debug", "info" (default),
	// "warn" or "error".
	Level string `yaml:"level"`
	// Format is "text" (default) or "json", one object a line.
	Format string `yaml:"format"`
}

// Default returns the configuration that needs no file: an in-memory store, and
// the rule of the sample configuration.
func Default() (*Config, error) {
	cfg := defaults()
	if err := cfg.addBuiltinRules(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// defaults returns the default of every option, without rules.
func defaults() *Config {
	return &Config{
		Listen:   "127.0.0.1:6380",
		Admin:    "127.0.0.1:9380",
		Name:     hostname(),
		Drain:    5 * time.Second,
		TLS:      TLS{MinVersion: "1.2"},
		Upstream: Upstream{TLS: UpstreamTLS{MinVersion: "1.2"}, URL: Embedded, DialTimeout: 5 * time.Second, StartTimeout: time.Minute, Cluster: ClusterHidden},
		Lock: Lock{
			Provider: "redis", OnProviderDown: onDownRefuse,
			AgentHealth: AgentHealth{Interval: 5 * time.Second, Timeout: time.Second, Failures: 3},
			settings:    kindSettings(),
		},
		Limits: Limits{
			Connections: 10_000, Request: size.GB, Nesting: 10_000, Pipeline: 10_000,
			OutputBuffer: size.GB, OutputTimeout: 5 * time.Minute, Waiters: 1000,
		},
		Log:       Log{Level: "info", Format: "text"},
		Telemetry: Telemetry{Protocol: ProtocolHTTP, Traces: true, Metrics: true, Logs: true, Sample: 1},
		Set:       new(rule.Set),
	}
}

func (c *Config) addBuiltinRules() error {
	r := rule.Default()
	r.Name, r.Prefix, r.Session = "chat", "agent:ctx:", "agent:ctx:<session>:*"
	chat, err := rule.Compile(r)
	if err != nil {
		return err
	}
	c.Rules = []*rule.Rule{chat}
	c.Set, err = rule.NewSet(c.Rules)
	return err
}

// hostname returns the host's name in a form that check accepts.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "fence-proxy"
	}
	name = strings.Map(func(c rune) rune {
		if !isNameRune(c) {
			return '-'
		}
		return c
	}, name)
	return name[:min(len(name), maxName)]
}
