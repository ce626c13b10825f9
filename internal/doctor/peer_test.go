package doctor_test

import (
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/tidwall/redcon"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/doctor"
)

// peer is a Redis that says what it was told to, and otherwise that it may not be asked: so are managed ones.
func peer(t *testing.T, says map[string]string) *doctor.Patient {
	t.Helper()
	server := redcon.NewServer("127.0.0.1:0", func(conn redcon.Conn, cmd redcon.Command) {
		words := make([]string, len(cmd.Args))
		for i, a := range cmd.Args {
			words[i] = strings.ToUpper(string(a))
		}
		line := strings.Join(words, " ")
		switch text, told := says[line]; {
		case told:
			conn.WriteBulkString(text)
		case line == "PING":
			conn.WriteString("PONG")
		case strings.HasPrefix(line, "CLIENT SETINFO"), strings.HasPrefix(line, "CLIENT SETNAME"):
			conn.WriteString("OK")
		default:
			conn.WriteError("NOPERM this user has no permissions to run the '" + strings.ToLower(words[0]) + "' command")
		}
	}, nil, nil)
	listening := make(chan error, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { listening <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = l.Close()
		if err := <-listening; err != nil {
			t.Log("the server ended:", err)
		}
	})
	client := redis.NewClient(&redis.Options{Addr: l.Addr().String(), Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return &doctor.Patient{Config: configured(t, ""), Nodes: []doctor.Node{{Addr: l.Addr().String(), Redis: client}}, Open: opener(client)}
}

// configured loads a configuration with a rule for chat:, and more of it.
func configured(t *testing.T, more string) *config.Config {
	t.Helper()
	text := more
	if !strings.Contains(more, "rules:") {
		text += "\nrules:\n  - {name: chat, prefix: \"chat:\"}\n"
	}
	return load(t, text)
}

// told returns what a check has said.
func told(found []doctor.Finding, check string) (all []doctor.Finding) {
	for _, f := range found {
		if f.Check == check {
			all = append(all, f)
		}
	}
	return all
}

// wants makes sure that a check says one thing, and how.
func wants(t *testing.T, found []doctor.Finding, check string, level doctor.Level, what string) {
	t.Helper()
	said := told(found, check)
	for _, f := range said {
		if f.Level == level && strings.Contains(f.What, what) {
			if (f.Remedy == "") != (level == doctor.OK) {
				t.Errorf("%s: its remedy is %q", check, f.Remedy)
			}
			return
		}
	}
	t.Errorf("%s says %+v, want %s: …%s…", check, said, level, what)
}

const primary = "redis_version:7.2.4\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n"

func TestWhatMayNotBeAskedIsSaidWithAWayRoundIt(t *testing.T) {
	found := doctor.Examine(t.Context(), peer(t, nil))
	for _, check := range []string{"server", "role", "clock", "memory", "persistence", "limits", "bypass", "records", "rules", "clients"} {
		wants(t, found, check, doctor.Unsure, "could not ask: NOPERM")
	}
	wants(t, found, "rights", doctor.Fail, "NOPERM")
	wants(t, found, "kill", doctor.Warn, "NOPERM")
	if doctor.Healthy(found) {
		t.Error("a user who may nothing is healthy")
	}
}

func TestWhatInfoTells(t *testing.T) {
	for _, c := range []struct {
		info, check string
		level       doctor.Level
		what        string
	}{
		{primary, "server", doctor.OK, "Redis 7.2.4, standalone"},
		{"redis_version:7.2.4\r\nvalkey_version:8.1.1", "server", doctor.OK, "Valkey 8.1.1"},
		{"redis_version:6.2.7", "server", doctor.Warn, "Redis 6.2.7 works"},
		{"redis_version:5.0.7", "server", doctor.Fail, "older than any"},
		{"redis_version:unstable", "server", doctor.Warn, "unstable"},
		{"some:thing", "server", doctor.Warn, "names no version"},
		{primary, "role", doctor.OK, "primary"},
		{"role:slave\r\nmaster_host:h\r\nmaster_port:1", "role", doctor.Fail, "replica of h:1"},
		{"role:sentinel", "role", doctor.Warn, "sentinel"},
		{"role:master\r\nloading:1", "role", doctor.Warn, "is loading"},
		{"maxmemory:1048576\r\nmaxmemory_policy:noeviction", "memory", doctor.OK, "maxmemory 1mb, policy noeviction"},
		{"maxmemory:1048576\r\nmaxmemory_policy:volatile-ttl", "memory", doctor.Warn, "volatile-ttl"},
		{"maxmemory:1048576\r\nmaxmemory_policy:volatile-lru", "memory", doctor.Fail, "have a TTL"},
		{"maxmemory:1048576\r\nmaxmemory_policy:allkeys-lru", "memory", doctor.Fail, "are evicted"},
		{"maxmemory:0\r\nmaxmemory_policy:allkeys-lru", "memory", doctor.OK, "no maxmemory"},
		{"maxmemory:1048576", "memory", doctor.Unsure, "NOPERM"},
		{"aof_enabled:1", "persistence", doctor.OK, "append-only file"},
		{"aof_enabled:0", "persistence", doctor.Unsure, "NOPERM"},
		{"aof_enabled:1\r\naof_last_write_status:err", "persistence", doctor.Fail, "MISCONF"},
		{"aof_enabled:0\r\nrdb_last_bgsave_status:err", "persistence", doctor.Fail, "snapshot failed"},
		{"role:master\r\nconnected_slaves:0", "replicas", doctor.OK, "no replica"},
		{"role:master\r\nconnected_slaves:2", "replicas", doctor.Unsure, "NOPERM"},
	} {
		wants(t, doctor.Examine(t.Context(), peer(t, map[string]string{"INFO": c.info})), c.check, c.level, c.what)
	}
}

func TestClientsThatGiveUpBeforeARuleDoes(t *testing.T) {
	list := "id=1 name= lib-name=jedis lib-ver=5.1.0\nid=2 name= lib-name=redis-py lib-ver=8.0.0\nid=3 name=fence-proxy lib-name=go-redis(,go1.26) lib-ver=9.1\n"
	p := peer(t, map[string]string{"CLIENT LIST": list})
	wants(t, doctor.Examine(t.Context(), p), "clients", doctor.OK, "jedis 5.1.0, redis-py 8.0.0 wait for longer")
	p.Config = configured(t, "rules:\n  - {name: chat, prefix: \"chat:\", wait: 3s}\n")
	found := doctor.Examine(t.Context(), p)
	wants(t, found, "clients", doctor.Warn, "jedis 5.1.0 gives up on a reply after 2s")
	if n := len(told(found, "clients")); n != 1 {
		t.Errorf("%d findings: those that wait for longer and the proxy's own are told, too", n)
	}
	p = peer(t, map[string]string{"CLIENT LIST": "id=1 name=\n"})
	wants(t, doctor.Examine(t.Context(), p), "clients", doctor.OK, "no client of a library")
}

func TestARedisThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	found := doctor.Examine(t.Context(), &doctor.Patient{Config: configured(t, ""), Nodes: []doctor.Node{{Addr: addr, Redis: client}}, Open: opener(client)})
	wants(t, found, "connection", doctor.Fail, "can't be reached")
	if len(found) != 1 {
		t.Errorf("it is asked all the same: %+v", found)
	}
}
