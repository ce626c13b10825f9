//go:build integration

package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/doctor"
)

// examine looks at a deployment as the command does.
func examine(t *testing.T, cfg *config.Config) []doctor.Finding {
	t.Helper()
	patient, discharge, err := app.Patient(cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	defer discharge()
	return doctor.Examine(t.Context(), patient)
}

// at is a configuration with a rule for chat:, at a Redis; user is "name:password@" or nothing.
func at(t *testing.T, server *harness.Redis, user, more string) *config.Config {
	t.Helper()
	return configured(t, fmt.Sprintf("upstream: {url: \"redis://%s%s\"}\n%s", user, server.Addr, more))
}

// do sends commands, a line each.
func do(t *testing.T, server *harness.Redis, commands ...string) {
	t.Helper()
	for _, c := range commands {
		var args []any
		for _, word := range strings.Fields(c) {
			args = append(args, strings.Trim(word, `"`))
		}
		err := server.Client().Do(t.Context(), args...).Err()
		if err != nil && strings.Contains(err.Error(), "modifier '&") { // before 6.2 there are no rights to channels
			for i, a := range args {
				if strings.HasPrefix(a.(string), "&") {
					args[i] = "on"
				}
			}
			err = server.Client().Do(t.Context(), args...).Err()
		}
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
	}
}

// Each setting is shown bad, and mended.
func TestWhatASettingMeans(t *testing.T) {
	for _, c := range []struct {
		check string
		bad   []string
		level doctor.Level
		what  string
		mend  []string
		good  string
		more  string // of the configuration
	}{
		{
			"memory",
			[]string{"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory 100mb"},
			doctor.Fail, "maxmemory 100mb, policy allkeys-lru",
			[]string{"CONFIG SET maxmemory-policy noeviction"},
			"policy noeviction", "",
		},
		{"persistence", nil, doctor.Warn, "nothing is written to disk", []string{"CONFIG SET appendonly yes"}, "appendfsync everysec", ""},
		{
			"persistence",
			[]string{"CONFIG SET appendonly yes", "CONFIG SET appendfsync no"},
			doctor.Warn, "synced when the system likes",
			[]string{"CONFIG SET appendfsync always"},
			"appendfsync always", "",
		},
		{"limits", []string{"CONFIG SET timeout 20"}, doctor.Warn, "timeout 20", []string{"CONFIG SET timeout 31"}, "suit the configuration", ""},
		{"limits", []string{"CONFIG SET tcp-keepalive 0"}, doctor.Warn, "tcp-keepalive 0", []string{"CONFIG SET tcp-keepalive 60"}, "suit", ""},
		{"limits", []string{"CONFIG SET lua-time-limit 10"}, doctor.Warn, "BUSY", []string{"CONFIG SET lua-time-limit 5000"}, "suit", ""},
		{"limits", []string{"CONFIG SET proto-max-bulk-len 2mb"}, doctor.Warn, "proto-max-bulk-len 2mb", []string{"CONFIG SET proto-max-bulk-len 512mb"}, "suit", ""},
		{"limits", []string{"CONFIG SET maxclients 100"}, doctor.Warn, "maxclients 100", []string{"CONFIG SET maxclients 200"}, "suit", "limits: {connections: 200}\n"},
		{"records", []string{"SET fence-proxy:mine v"}, doctor.Fail, `"fence-proxy:mine"`, []string{"DEL fence-proxy:mine"}, "0 fence records", ""},
		{"records", []string{`SET fence-proxy:{old:s}:t 1796000000000000`}, doctor.Warn, `a rule "old"`, []string{"DEL fence-proxy:{old:s}:t"}, "0 fence records", ""},
		{"rules", []string{"SET Chat:1 v"}, doctor.Warn, "guards no key", []string{"SET chat:1 v"}, "guards keys that are there", ""},
	} {
		t.Run(c.check+" "+c.what, func(t *testing.T) {
			t.Parallel()
			server := harness.StartRedis(t)
			do(t, server, c.bad...)
			cfg := at(t, server, "", c.more)
			wants(t, examine(t, cfg), c.check, c.level, c.what)
			do(t, server, c.mend...)
			found := examine(t, cfg)
			wants(t, found, c.check, doctor.OK, c.good)
			if n := len(told(found, c.check)); n != 1 {
				t.Errorf("%d findings: %+v", n, told(found, c.check))
			}
		})
	}
}

func TestSnapshotsAreTold(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	if err := server.Client().ConfigSet(t.Context(), "save", "900 1").Err(); err != nil {
		t.Fatal(err)
	}
	wants(t, examine(t, at(t, server, "", "")), "persistence", doctor.Warn, "snapshots only (save 900 1)")
}

// The remedy for a rule that guards nothing shows how the keys there begin.
func TestARuleThatGuardsNothingIsComparedWithTheKeys(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	do(t, server, "SET Chat:1 v", "SET plain v", "SELECT 0")
	for _, f := range told(examine(t, at(t, server, "", "")), "rules") {
		if !strings.Contains(f.Remedy, "Chat:") {
			t.Errorf("remedy %q", f.Remedy)
		}
	}
}

func TestKeysOfOtherDatabasesCount(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	one := server.Client(func(o *redis.Options) { o.DB = 3 })
	one.Set(t.Context(), "chat:1", "v", 0)
	one.Set(t.Context(), "fence-proxy:{chat:s}:t", "5 5 1 etcd", 0)
	found := examine(t, at(t, server, "", ""))
	wants(t, found, "rules", doctor.OK, "guards keys")
	wants(t, found, "records", doctor.Fail, "1 fence records are lock provider etcd's")
}

func TestAReplicaIsNoPlaceForTheProxyAndAPrimaryWithoutReplicasIsTold(t *testing.T) {
	t.Parallel()
	primary, replica := harness.StartRedis(t), harness.StartRedis(t)
	do(t, replica, fmt.Sprintf("REPLICAOF 127.0.0.1 %d", primary.Port))
	harness.Eventually(t, 0, func() bool {
		return strings.Contains(primary.Client().Info(t.Context(), "replication").Val(), "state=online")
	}, "the replica is online")
	cfg := at(t, primary, "", "")
	wants(t, examine(t, cfg), "replicas", doctor.Warn, "1 replicas, min-replicas-to-write 0")
	do(t, primary, "CONFIG SET min-replicas-to-write 2")
	wants(t, examine(t, cfg), "replicas", doctor.Fail, "NOREPLICAS")
	do(t, primary, "CONFIG SET min-replicas-to-write 1")
	wants(t, examine(t, cfg), "replicas", doctor.OK, "min-replicas-to-write 1")
	wants(t, examine(t, at(t, replica, "", "")), "role", doctor.Fail, fmt.Sprintf("is a replica of 127.0.0.1:%d", primary.Port))
}

func TestClocksThatAreApart(t *testing.T) {
	t.Parallel()
	skewed := harness.NewClock(t)
	ahead, here := harness.StartRedis(t, harness.WithClock(skewed)), harness.StartRedis(t)
	wants(t, examine(t, at(t, ahead, "", "")), "clock", doctor.OK, "is within")
	skewed.Step(time.Minute)
	wants(t, examine(t, at(t, ahead, "", "")), "clock", doctor.Warn, "ahead of this machine's")
	p := &doctor.Patient{Config: at(t, here, "", ""), Open: opener(here.Client()), Nodes: []doctor.Node{{Addr: here.Addr, Redis: here.Client()}, {Addr: ahead.Addr, Redis: ahead.Client()}}}
	found := doctor.Examine(t.Context(), p)
	wants(t, found, "clocks", doctor.Warn, "are 1m0")
	for _, f := range told(found, "clock") {
		if f.Node != here.Addr && f.Node != ahead.Addr {
			t.Errorf("whose clock? %+v", f)
		}
	}
	skewed.Step(-time.Minute)
	wants(t, doctor.Examine(t.Context(), p), "clocks", doctor.OK, "of 2 nodes are within")
}

func TestTheProxysUserLacksRights(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	do(t, server, "ACL SETUSER fence on >pw ~* &* +@all")
	cfg := at(t, server, "fence:pw@", "")
	found := examine(t, cfg)
	wants(t, found, "rights", doctor.OK, "user fence may do all")
	wants(t, found, "kill", doctor.OK, "")
	for _, c := range []struct{ rules, missing string }{
		{"+@all -watch", "+watch"}, {"+@all -evalsha", "+evalsha"}, {"+@all -subscribe", "+subscribe"}, {"+@all -zrange", "+zrange"}, {"+@all resetkeys ~chat:*", "~fence-proxy:*"},
	} {
		do(t, server, "ACL SETUSER fence reset on >pw ~* &* "+c.rules)
		found := examine(t, cfg)
		wants(t, found, "rights", doctor.Fail, "user fence may not")
		if dryruns := server.Client().Do(t.Context(), "ACL", "DRYRUN", "default", "PING").Err() == nil; dryruns { // since 7.0
			for _, f := range told(found, "rights") {
				if !strings.HasPrefix(f.Remedy, "ACL SETUSER fence "+c.missing+";") {
					t.Errorf("%s: remedy %q", c.rules, f.Remedy)
				}
			}
		}
		if strings.Contains(fmt.Sprint(found), "pw") {
			t.Error("the password is told")
		}
	}
	do(t, server, "ACL SETUSER fence reset on >pw ~* &* +@all -client")
	wants(t, examine(t, cfg), "kill", doctor.Warn, "NOPERM")
	do(t, server, "ACL SETUSER fence reset on >other ~* &* +@all")
	found = examine(t, cfg)
	wants(t, found, "connection", doctor.Fail, "WRONGPASS")
	if len(found) != 1 {
		t.Errorf("it goes on: %+v", found)
	}
}

// Case of an agent's user that may write around the proxy, and of one that may not.
func TestUsersThatMayWriteAroundTheProxy(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	wants(t, examine(t, at(t, server, "", "")), "bypass", doctor.Fail, "user default has no password")
	do(t, server, "ACL SETUSER fence on >pw ~* &* +@all")
	cfg := at(t, server, "fence:pw@", "")
	wants(t, examine(t, cfg), "bypass", doctor.Fail, "user default has no password")
	admin := server.Client(func(o *redis.Options) { o.Username, o.Password = "fence", "pw" })
	acl := func(rules string) {
		t.Helper()
		args := []any{"ACL", "SETUSER"}
		for _, word := range strings.Fields(rules) {
			args = append(args, word)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	acl("agent on >pw ~chat:1* +@read +append")
	acl("default off")
	wants(t, examine(t, cfg), "bypass", doctor.Warn, "user agent may write chat:* (APPEND)")
	acl("agent resetkeys ~other:*")
	wants(t, examine(t, cfg), "bypass", doctor.OK, "of 3 users fence alone")
	acl("default on resetpass >all ~* +@all")
	wants(t, examine(t, at(t, server, "default:all@", "")), "bypass", doctor.Warn, "the proxy logs in as default")
}

func TestTheLockProviderIsAsked(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	nodes := make([]*harness.Redis, 3)
	list := make([]string, 3)
	for i := range nodes {
		nodes[i] = harness.StartRedis(t)
		list[i] = fmt.Sprintf("%q", "redis://"+nodes[i].Addr)
	}
	cfg := at(t, server, "", "lock:\n  provider: redlock\n  redlock: {nodes: ["+strings.Join(list, ", ")+"], restart_delay: 0s}\n")
	found := examine(t, cfg)
	wants(t, found, "provider", doctor.OK, "redlock answers")
	wants(t, found, "rights", doctor.OK, "may do all")
	nodes[0].Kill()
	nodes[1].Kill()
	wants(t, examine(t, cfg), "provider", doctor.Fail, "redlock would not grant")
}

// The doctor takes away what it made, and changes nothing else.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	do(t, server, "SET chat:1 v")
	before := server.Client().ConfigGet(t.Context(), "*").Val()
	examine(t, at(t, server, "", ""))
	if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) != 1 || keys[0] != "chat:1" {
		t.Errorf("keys %q", keys)
	}
	if after := server.Client().ConfigGet(t.Context(), "*").Val(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("settings have changed")
	}
}
