package config

import (
	"os"
	"strings"
	"testing"
)

func TestAMistakeIsRefusedWithItsLineAndARemedy(t *testing.T) {
	long := "/" + strings.Repeat("x", 107)
	inRule := func(line string) string {
		return "rules:\n  - name: chat\n    prefix: \"agent:\"\n    " + line + "\n"
	}
	for _, tc := range []struct{ name, text, want string }{
		{"an empty file", "", `config.yaml: is empty: write at least upstream.url and a rule, or run without a file to try the proxy out`},
		{"only comments", "# listen: x\n", `config.yaml: is empty: write at least upstream.url and a rule, or run without a file to try the proxy out`},
		{"only null", "---\nnull\n", `config.yaml: is empty: write at least upstream.url and a rule, or run without a file to try the proxy out`},
		{"a list", "- listen: x\n", `config.yaml:1: is a list, not a group of options: write its options as key: value, as in listen: …`},
		{"text", "listen", `config.yaml:1: is one value, not a group of options: write its options as key: value, as in listen: …`},
		{"two documents", "name: a\n---\nname: b\n", `config.yaml:2: begins a second document: keep one, without --- between options`},
		{"a tab", "upstream:\n\turl: x\n", `config.yaml:2: is not YAML (found character that cannot start any token): indent with spaces, not tabs, and put values that begin with @, % or ` + "` in quotes"},
		{"a colon without quotes", "upstream:\n  url: embedded:\n", `config.yaml:2: is not YAML (mapping values are not allowed in this context): put values with a colon in quotes, as in "embedded:", and look at the indentation`},
		{"one on the first line", "a: b: c\n", `config.yaml:1: is not YAML (mapping values are not allowed in this context): put values with a colon in quotes, as in "embedded:", and look at the indentation`},
		{"bytes", "name: \xff\xfe\n", `config.yaml: is not YAML (invalid leading UTF-8 octet): save it as UTF-8 text`},
		{"an open quote", "name: \"a\n", `config.yaml:2: is not YAML (found unexpected end of stream): look for indentation, quotes or a missing space after a colon, here or just above`},
		{"a misspelt option", "name: a\nlistn: \":1\"\n", `config.yaml:2: listn: is not an option: did you mean listen?`},
		{"an option in capitals", "Listen: \":1\"\n", `config.yaml:1: Listen: is not an option: did you mean listen?`},
		{"an unknown option", "colour: red\n", `config.yaml:1: colour: is not an option: the options are listen, tls, admin, admin_token, admin_token_file, admin_hosts, admin_pprof, name, drain, upstream, users, lock, limits, log, telemetry, rules`},
		{"an option out of its group", "url: 'embedded:'\n", `config.yaml:1: url: is not an option: did you mean upstream.url?`},
		{"a rule's option outside", "lease: 30s\n", `config.yaml:1: lease: is not an option: lease belongs to a rule, under rules`},
		{"an unknown option in a group", "log:\n  colour: red\n", `config.yaml:2: log.colour: is not an option: the options of log are level, format`},
		{"a misspelt option in a rule", inRule("maxHold: 2m"), `config.yaml:4: rules[0].maxHold: is not an option: did you mean max_hold?`},
		{"swapped letters", inRule("wiat: 1s"), `config.yaml:4: rules[0].wiat: is not an option: did you mean wait?`},
		{"an option with a line break", "\"a\\nb\": 1\n", `config.yaml:1: "a\nb": is not an option: the options are listen, tls, admin, admin_token, admin_token_file, admin_hosts, admin_pprof, name, drain, upstream, users, lock, limits, log, telemetry, rules`},
		{"an option twice", "name: a\nname: b\n", `config.yaml:2: name: is given twice, first on line 1: remove one`},
		{"an option twice in a rule", inRule("prefix: b"), `config.yaml:4: rules[0].prefix: is given twice, first on line 3: remove one`},
		{"a group twice", "log: {level: info}\nlog: {format: text}\n", `config.yaml:2: log: is given twice, first on line 1: remove one`},
		{"a list for a name", "? [a]\n: b\n", `config.yaml:1: has a list in place of an option's name: write key: value`},
		{"a merge", "log: &l {level: info}\nlock: {<<: *l}\n", `config.yaml:2: lock.<<: is not supported: write the options out`},
		{"an option without a value", "listen:\n", `config.yaml:1: listen: has no value: write one, or leave the line out`},
		{"a group without options", "upstream:\n", `config.yaml:1: upstream: has no value: write one, or leave the line out`},
		{"rules without a list", "rules:\n", `config.yaml:1: rules: has no value: write one, or leave the line out`},
		{"a number for text", "name: 42\n", `config.yaml:1: name: 42 is a number, not text: put it in quotes: "42"`},
		{"a boolean for text", "name: true\n", `config.yaml:1: name: true is not text to YAML (bool): put it in quotes: "true"`},
		{"a date for text", "name: 2024-01-02\n", `config.yaml:1: name: 2024-01-02 is not text to YAML (timestamp): put it in quotes: "2024-01-02"`},
		{"a list for text", "log:\n  level: [info]\n", `config.yaml:2: log.level: is a list, not one value: write it on one line, after level:`},
		{"text for a group", "upstream: redis://h\n", `config.yaml:1: upstream: is one value, not a group of options: write its options as key: value, as in url: …`},
		{"a group for the rules", "rules:\n  name: chat\n", `config.yaml:2: rules: is a group of options, not a list: begin each entry with a dash, as in - name: chat`},
		{"text for a rule", "rules:\n  - chat\n", `config.yaml:2: rules[0]: is one value, not a group of options: write its options as key: value, as in name: …`},
		{"nothing for a rule", "rules:\n  -\n", `config.yaml:2: rules[0]: has no value: write one, or leave the line out`},

		{"a time without a unit", inRule("wait: 1500"), `config.yaml:4: rules[0].wait: "1500" has no unit: write 1500ms or 2s`},
		{"a quoted time without one", inRule(`wait: "1500"`), `config.yaml:4: rules[0].wait: "1500" has no unit: write 1500ms or 2s`},
		{"a small time without one", inRule("lease: 30"), `config.yaml:4: rules[0].lease: "30" has no unit: write 30s or 30ms`},
		{"a fraction without one", inRule("lease: 1.5"), `config.yaml:4: rules[0].lease: "1.5" has no unit: add one of ms, s, m and h, as in 1.5s`},
		{"a time in days", inRule("record_ttl: 1d"), `config.yaml:4: rules[0].record_ttl: "1d" is not a time: write a number and a unit (ms, s, m or h), as in 1500ms, 30s or 2m`},
		{"a time with a space", inRule("record_ttl: 1 h"), `config.yaml:4: rules[0].record_ttl: "1 h" is not a time: write a number and a unit (ms, s, m or h), as in 1500ms, 30s or 2m`},
		{"a boolean for a time", inRule("idle: true"), `config.yaml:4: rules[0].idle: "true" is not a time: write a number and a unit (ms, s, m or h), as in 1500ms, 30s or 2m`},
		{"a token that can be guessed", "admin_token: secret\n", `config.yaml:1: admin_token: has 6 characters, and could be guessed: write 16 or more, as openssl rand -hex 16 makes them`},
		{"two tokens", "admin_token: 0123456789abcdefx\nadmin_token_file: /x\n", `config.yaml:2: admin_token_file: is given, and so is admin_token: leave one of them out`},
		{"a token's file that is not there", "admin_token_file: /nowhere/token\n", `config.yaml:1: admin_token_file: can't be read: open /nowhere/token: no such file or directory: check the path and its mode`},
		{"an admin host with a port", "admin_hosts: [a.example, \"b.example:9380\"]\n", `config.yaml:1: admin_hosts: "b.example:9380" is not a host's name: write names only, as in fence.internal.example, without scheme or port`},
		{"an empty time", "drain: ''\n", `config.yaml:1: drain: "" is not a time: write a number and a unit (ms, s, m or h), as in 1500ms, 30s or 2m`},

		{"a rule without a name", "rules:\n  - prefix: a\n", `config.yaml:2: rules[0].name: is missing: name the rule, as in name: chat`},
		{"a rule without a prefix", "rules:\n  - name: a\n", `config.yaml:2: rules[0].prefix: is missing: write the text that the guarded keys begin with, as in prefix: "agent:ctx:", or prefix: "" to guard every key`},
		{"two rules with a name", inRule("mode: lock") + "  - prefix: b\n    name: chat\n", `config.yaml:6: rules[1].name: "chat" is the name of rules[0] too (line 2): give each rule its own name`},
		{"two rules with a prefix", inRule("mode: lock") + "  - name: b\n    prefix: 'agent:'\n", `config.yaml:6: rules[1].prefix: "agent:" is the prefix of rules[0] too (line 3): join the two rules, or make one prefix longer`},
		{"the reserved prefix", "rules:\n  - {name: a, prefix: 'fence-proxy:x'}\n", `config.yaml:2: rules[0].prefix: "fence-proxy:x" is inside "fence-proxy:", which the proxy keeps for itself: guard another prefix`},
		{"a pattern for other keys", inRule("session: 'job:<id>'"), `config.yaml:4: rules[0].session: "job:<id>" matches no key that begins with the prefix "agent:": begin it with "agent:"`},
		{"an unknown mode", inRule("mode: block"), `config.yaml:4: rules[0].mode: "block" is not a mode: write lock, fence, auto, observe or pass`},
		{"an unknown owner", inRule("owner: me"), `config.yaml:4: rules[0].owner: "me" is not an owner: write auto, connection, client or proxy`},
		{"an unknown way to tell clients", inRule("client_by: ip"), `config.yaml:4: rules[0].client_by: "ip" is not known: write address or name`},
		{"one reader without brackets", inRule("readers: dashboard"), `config.yaml:4: rules[0].readers: is one value, not a list: write it in brackets, as in [one, other]`},
		{"a reader that is a number", inRule("readers: [7]"), `config.yaml:4: rules[0].readers[0]: 7 is a number, not text: put it in quotes: "7"`},
		{"a reader twice", inRule("readers: [a, a]"), `config.yaml:4: rules[0].readers: "a" is given twice: remove one`},
		{"a reader that can't be", inRule("readers: ['']"), `config.yaml:4: rules[0].readers: "" can be neither a user nor a client's name: write an ACL user or a client's name`},
		{"a negative wait", inRule("wait: -1s"), `config.yaml:4: rules[0].wait: -1s is negative: write 0s to refuse at once, or a time such as 1500ms`},
		{"a long wait", inRule("wait: 2m"), `config.yaml:4: rules[0].wait: 2m is longer than any client waits for a reply: write 60s or less, and less than the clients' socket timeout`},
		{"no lease", inRule("lease: 0s"), `config.yaml:4: rules[0].lease: 0s is too short to renew: write 100ms or more; 30s is the default`},
		{"a hold below the lease", inRule("max_hold: 1s"), `config.yaml:4: rules[0].max_hold: 1s is shorter than lease (30s): write 30s or more, or shorten lease`},
		{"a lease above the default hold", inRule("lease: 3m"), `config.yaml:2: rules[0].max_hold: 2m is shorter than lease (3m): write 3m or more, or shorten lease`},
		{"no idle", inRule("idle: 0s"), `config.yaml:4: rules[0].idle: 0s would end every hold at once: write a time such as 30s`},
		{"a linger past the hold", inRule("linger: 3m"), `config.yaml:4: rules[0].linger: 3m is longer than max_hold (2m): write 2m or less`},
		{"a short record", inRule("record_ttl: 1m"), `config.yaml:4: rules[0].record_ttl: 1m is shorter than twice max_hold (2m): write 4m or more`},

		{"an address without a port", "listen: localhost\n", `config.yaml:1: listen: "localhost" is not an address: write host:port, as in 127.0.0.1:6380, or unix:///run/fence-proxy.sock`},
		{"a URL to listen on", "listen: tcp://127.0.0.1:1\n", `config.yaml:1: listen: "tcp://127.0.0.1:1" is not an address: write host:port, as in 127.0.0.1:6380, or unix:///run/fence-proxy.sock`},
		{"an empty address", "listen: ''\n", `config.yaml:1: listen: is nowhere, and so is tls.listen: write host:port for one of them`},
		{"a port by name", "listen: ':redis'\n", `config.yaml:1: listen: "redis" is not a port: write a number up to 65535, or 0 for any free port`},
		{"a port too high", "listen: ':65536'\n", `config.yaml:1: listen: "65536" is not a port: write a number up to 65535, or 0 for any free port`},
		{"a relative socket", "listen: unix://fence.sock\n", `config.yaml:1: listen: "unix://fence.sock" is not the address of a socket: write three slashes and the full path, as in unix:///run/fence-proxy.sock`},
		{"a long socket", "listen: unix://" + long + "\n", `config.yaml:1: listen: the path has 108 bytes, and a socket's may have 107: choose a shorter one`},
		{"a socket's mode", "listen: unix:///run/s?mode=rw\n", `config.yaml:1: listen: has "mode=rw" behind the ?: write the mode of the socket, as in ?mode=0660, or nothing`},
		{"a socket's option", "listen: unix:///run/s?db=1\n", `config.yaml:1: listen: has "db=1" behind the ?: write the mode of the socket, as in ?mode=0660, or nothing`},
		{"a mode for admin", "admin: unix:///run/s?mode=0600\n", `config.yaml:1: admin: has a mode, which only listen takes: remove it`},
		{"the clients' address for admin", "listen: ':1'\nadmin: ':1'\n", `config.yaml:2: admin: is where clients connect: choose another port, or write "" to turn it off`},
		{"an admin address without a port", "admin: localhost\n", `config.yaml:1: admin: "localhost" is not an address: write host:port, as in 127.0.0.1:6380, or unix:///run/fence-proxy.sock`},
		{"no connections", "limits: {connections: 0}\n", `config.yaml:1: limits.connections: 0 is too little to work with: write 1 or more`},
		{"a number with a unit", "limits: {connections: 10k}\n", `config.yaml:1: limits.connections: "10k" is not a whole number: write digits only, as in 1000`},
		{"a fraction for a number", "limits: {waiters: 1.5}\n", `config.yaml:1: limits.waiters: "1.5" is not a whole number: write digits only, as in 1000`},
		{"a boolean for a number", "limits: {pipeline: true}\n", `config.yaml:1: limits.pipeline: "true" is not a whole number: write digits only, as in 1000`},
		{"no pipeline", "limits: {pipeline: -1}\n", `config.yaml:1: limits.pipeline: -1 is too little to work with: write 1 or more`},
		{"no waiters", "limits: {waiters: 0}\n", `config.yaml:1: limits.waiters: 0 is too little to work with: write 1 or more`},
		{"a size in words", "limits: {request: 1 GiB}\n", `config.yaml:1: limits.request: "1 GiB" is not a size: write a whole number and a unit (kb, mb or gb), as in 64mb`},
		{"a small size", "limits: {request: 512}\n", `config.yaml:1: limits.request: 512 is too little to work with: write 64kb or more`},
		{"a small output buffer", "limits: {output_buffer: 1kb}\n", `config.yaml:1: limits.output_buffer: 1kb is too little to work with: write 64kb or more`},
		{"a boolean for a size", "limits: {output_buffer: true}\n", `config.yaml:1: limits.output_buffer: "true" is not a size: write a whole number and a unit (kb, mb or gb), as in 64mb`},
		{"a short output timeout", "limits: {output_timeout: 1ms}\n", `config.yaml:1: limits.output_timeout: 1ms is too little to work with: write 0s for no limit, or 1s or more`},
		{"little nesting", "limits: {nesting: 9}\n", `config.yaml:1: limits.nesting: 9 is too little to work with: write 32 or more`},
		{"a name with a space", "name: my proxy\n", `config.yaml:1: name: "my proxy" cannot be a name: use 1 to 64 letters, digits, _ . or -`},
		{"a negative drain", "drain: -1s\n", `config.yaml:1: drain: -1s is negative: write 0s to break sequences off, or a time such as 5s`},
		{"no time to connect", "upstream: {dial_timeout: 0s}\n", `config.yaml:1: upstream.dial_timeout: 0s leaves no time to connect: write a time such as 5s`},
		{"less than no time to start", "upstream: {start_timeout: -1s}\n", `config.yaml:1: upstream.start_timeout: -1s is less than no time: write 0 to try once`},
		{"an unknown provider", "lock:\n  provider: mysql\n", `config.yaml:2: lock.provider: "mysql" is not known: write redis or vault`},
		{"a misspelt provider", "lock:\n  provider: valt\n", `config.yaml:2: lock.provider: "valt" is not known: did you mean vault? Else write redis or vault`},
		{"an unknown provider's settings", "lock:\n  mysql: {}\n", `config.yaml:2: lock.mysql: is not an option: the options of lock are provider, on_provider_down, agent_health, vault`},
		{"a misspelt setting", "lock:\n  vault:\n    adresses: [h:1]\n", `config.yaml:3: lock.vault.adresses: is not an option: did you mean addresses?`},
		{"a setting that can't be", "lock:\n  provider: vault\n  vault:\n    addresses: [h:1]\n    ttl: 1ms\n", `config.yaml:5: lock.vault.ttl: can't be so: write 1s or more`},
		{"a setting that is missing", "lock:\n  provider: vault\n", `lock.vault.addresses: can't be so: name one`},
		{"a list that is none", "lock:\n  vault:\n    addresses: h:1\n", `config.yaml:3: lock.vault.addresses: is one value, not a list: write it in brackets, as in [one, other]`},
		{"a truth that is none", "lock:\n  vault:\n    tls: maybe\n", `config.yaml:3: lock.vault.tls: "maybe" is neither true nor false: write true or false`},
		{"a number that is none", "lock:\n  vault:\n    retries: many\n", `config.yaml:3: lock.vault.retries: "many" is not a whole number: write digits only, as in 1000`},
		{"an unknown word for a provider that is down", "lock:\n  on_provider_down: wait\n", `config.yaml:2: lock.on_provider_down: "wait" is not known: write refuse or pass`},
		{"an agent without a host", "lock:\n  agent_health:\n    http: /healthz\n", `config.yaml:3: lock.agent_health.http: is no URL of http or https: write a URL, as in http://127.0.0.1:8000/healthz`},
		{"an agent without a port", "lock:\n  agent_health:\n    tcp: agent\n", `config.yaml:3: lock.agent_health.tcp: "agent" is no address: write host:port, as in 127.0.0.1:8000`},
		{"an agent that is asked all the time", "lock:\n  agent_health:\n    interval: 1ms\n", `config.yaml:3: lock.agent_health.interval: 1ms is too short: write 100ms or more`},
		{"an agent that never fails", "lock:\n  agent_health:\n    failures: 0\n", `config.yaml:3: lock.agent_health.failures: 0 would never be reached: write 1 or more`},
		{"an unknown level", "log:\n  level: INFO\n", `config.yaml:2: log.level: "INFO" is not known: write debug, info, warn or error`},
		{"a collector without a scheme", "telemetry:\n  endpoint: collector:4318\n", `config.yaml:2: telemetry.endpoint: is no URL of http or https: write it as in http://127.0.0.1:4318`},
		{"a collector of another scheme", "telemetry:\n  endpoint: grpc://collector\n", `config.yaml:2: telemetry.endpoint: is no URL of http or https: write it as in http://127.0.0.1:4318`},
		{"a collector with a password", "telemetry:\n  endpoint: https://u:secret@collector\n", `config.yaml:2: telemetry.endpoint: has a user or a password: give what the collector asks for in OTEL_EXPORTER_OTLP_HEADERS`},
		{"a collector with a key", "telemetry:\n  endpoint: https://collector/?key=secret\n", `config.yaml:2: telemetry.endpoint: has something after the path: remove it, and give what the collector asks for in OTEL_EXPORTER_OTLP_HEADERS`},
		{"an unknown protocol", "telemetry:\n  protocol: http/json\n", `config.yaml:2: telemetry.protocol: "http/json" is not known: write grpc or http/protobuf`},
		{"a share above one", "telemetry:\n  sample: 10\n", `config.yaml:2: telemetry.sample: 10 is no share: write a number from 0 to 1, as in 0.1`},
		{"a share that is none", "telemetry:\n  sample: NaN\n", `config.yaml:2: telemetry.sample: NaN is no share: write a number from 0 to 1, as in 0.1`},
		{"a share in percent", "telemetry:\n  sample: 10%\n", `config.yaml:2: telemetry.sample: "10%" is not a number: write digits, as in 0.1`},
		{"an unknown format", "log:\n  format: xml\n", `config.yaml:2: log.format: "xml" is not known: write text or json`},

		{"an upstream without a scheme", "upstream:\n  url: localhost:6379\n", `config.yaml:2: upstream.url: is not a URL: write redis://host:6379, redis+sentinel://host:26379/name, redis+cluster://host:6379,host:6379, unix:///path/redis.sock or "embedded:"`},
		{"another scheme", "upstream:\n  url: http://h\n", `config.yaml:2: upstream.url: does not begin with a known scheme: write redis://host:6379, redis+sentinel://host:26379/name, redis+cluster://host:6379,host:6379, unix:///path/redis.sock or "embedded:"`},
		{"TLS files for a Redis without", "upstream:\n  url: redis://h\n  tls:\n    server_name: x\n", `config.yaml:3: upstream.tls: is given, and upstream.url is not under TLS: write rediss:// (or rediss+sentinel://, rediss+cluster://) there, or remove it`},
		{"certificates for nobody", "tls:\n  cert: a.pem\n", `config.yaml:1: tls: has certificates, and tls.listen is nowhere: write where clients connect under TLS, as in listen: ":6390", or remove them`},
		{"TLS without a certificate", "tls:\n  listen: ':6390'\n", `config.yaml:1: tls: lacks cert or key: name the files of the certificate that clients are to see`},
		{"an old TLS", "tls:\n  min_version: '1.1'\n", `config.yaml:2: tls.min_version: "1.1" is not known: write 1.2 or 1.3`},
		{"a cluster's database", "upstream:\n  url: redis+cluster://a,b/3\n", `config.yaml:2: upstream.url: names a database, and a cluster has database 0 only: remove what is behind the hosts`},
		{"a cluster's options", "upstream:\n  url: redis+cluster://a,b?x=1\n", `config.yaml:2: upstream.url: has options after the hosts, and redis+cluster:// takes none: remove them`},
		{"a cluster's port", "upstream:\n  url: redis+cluster://a:1,b:x\n", `config.yaml:2: upstream.url: cannot be parsed: percent-encode what is special in the password (# as %23, / as %2F, ? as %3F, % as %25) and put IPv6 addresses in brackets`},
		{"a cluster's empty host", "upstream:\n  url: redis+cluster://a:1,\n", `config.yaml:2: upstream.url: names no host: write redis+cluster://host:6379`},
		{"a cluster's user without a password", "upstream:\n  url: redis+cluster://u@a\n", `config.yaml:2: upstream.url: has a user but no password: redis+cluster://user:password@… logs in as a user, redis+cluster://:password@… as the default one; upstream.username and upstream.password_file do so as well`},
		{"a user without a name", "users: [{passwords: [hunter2]}]\n", `config.yaml:1: users[0].name: "" can't be a user's name: write one without spaces`},
		{"a user with two words for a name", "users: [{name: a b, passwords: [hunter2]}]\n", `config.yaml:1: users[0].name: "a b" can't be a user's name: write one without spaces`},
		{"a user who could not log in", "users:\n  - name: a\n", `config.yaml:2: users[0].passwords: is missing, and so are password_file and password_env: give one of them: nobody could log in`},
		{"a user with an empty password", "users: [{name: a, passwords: ['']}]\n", `config.yaml:1: users[0].passwords: has an empty one: remove it`},
		{"a digest that is none", "users: [{name: a, passwords: ['#hunter2" + strings.Repeat("0", 57) + "']}]\n", `config.yaml:1: users[0].passwords: has one that begins with # and 64 characters follow that are no SHA-256 in hex: write # and 64 digits, as in printf %s the-password | sha256sum`},
		{"a file with passwords that is not there", "users: [{name: a, password_file: nowhere}]\n", `config.yaml:1: users[0].password_file: can't be read: open nowhere: no such file or directory: check the path and its mode`},
		{"a variable with a password that is not there", "users: [{name: a, password_env: NOWHERE}]\n", `config.yaml:1: users[0].password_env: the variable that it names is not set: set it, or name another`},
		{"two users of a name", "users:\n  - {name: a, passwords: [hunter2]}\n  - {name: a, passwords: [hunter2]}\n", `config.yaml:3: users[1].name: "a" is the name of users[0] too: join the two: a user may have several passwords`},
		{"a user's unknown option", "users: [{name: a, password: hunter2, password_env: PATH}]\n", `config.yaml:1: users[0].password: is not an option: did you mean passwords?`},
		{"a user's password that is a number", "users: [{name: a, passwords: [1234]}]\n", `config.yaml:1: users[0].passwords[0]: is a number, not text: put it in quotes`},
		{"a user who is no admin and no other", "users: [{name: a, passwords: [hunter2], admin: perhaps}]\n", `config.yaml:1: users[0].admin: "perhaps" is neither true nor false: write true or false`},
		{"an unknown word for what clients see of a cluster", "upstream:\n  cluster: shown\n", `config.yaml:2: upstream.cluster: "shown" is not known: write hidden or passthrough`},
		{"Sentinels without a name", "upstream:\n  url: redis+sentinel://h,i\n", `config.yaml:2: upstream.url: does not name the primary: write redis+sentinel://host:26379,host2:26379/name, the name being what Sentinel calls the primary, as in /mymaster`},
		{"Sentinels with a port that is none", "upstream:\n  url: redis+sentinel://h,i:0/m\n", `config.yaml:2: upstream.url: "0" is not a port: write a number from 1 to 65535`},
		{"a Sentinel that is no address", "upstream:\n  url: redis+sentinel://h,,i/m\n", `config.yaml:2: upstream.url: has an address that is none among its servers: write them with commas between and IPv6 addresses in brackets, as in host:26379,[fd00::1]:26379`},
		{"Sentinels with another client's options", "upstream:\n  url: redis+sentinel://h/m?addr=i\n", `config.yaml:2: upstream.url: has options after the ? other than one db: write redis+sentinel://host:26379,host2:26379/name, the name being what Sentinel calls the primary, as in /mymaster?db=N`},
		{"a login for no Sentinels", "upstream:\n  url: redis://h\n  sentinel:\n    password: secret\n", `config.yaml:3: upstream.sentinel: is given, and upstream.url names no Sentinels: remove it, or write redis+sentinel://host:26379,host2:26379/name, the name being what Sentinel calls the primary, as in /mymaster`},
		{"a Sentinel user alone", "upstream:\n  url: redis+sentinel://h/m\n  sentinel:\n    username: u\n", `config.yaml:4: upstream.sentinel.username: is given without a password: give upstream.sentinel.password or upstream.sentinel.password_file as well`},
		{"a user beside the URL alone", "upstream:\n  url: redis://h\n  username: bob\n", `config.yaml:3: upstream.username: is given without a password: give upstream.password or upstream.password_file as well`},
		{"two passwords", "upstream:\n  url: redis://:hunter2@h\n  password: hunter2\n", `config.yaml:3: upstream.password: is given, and upstream.url has a password: leave one of them out`},
		{"a password for the embedded store", "upstream:\n  password: hunter2\n", `config.yaml:2: upstream.password: is given, and the embedded store asks for none: remove it, or name the Redis in upstream.url`},
		{"a password and its file", "upstream:\n  url: redis://h\n  password: hunter2\n  password_file: nowhere\n", `config.yaml:4: upstream.password_file: is given, and so is upstream.password: leave one of them out
config.yaml:4: upstream.password_file: can't be read: open nowhere: no such file or directory: check the path and its mode`},
		{"a password file without a password", "upstream:\n  url: redis://h\n  password_file: /dev/null\n", `config.yaml:3: upstream.password_file: can't be read: the file has no password in it: check the path and its mode`},
		{"no host", "upstream:\n  url: redis:///0\n", `config.yaml:2: upstream.url: names no host: write redis://host:6379`},
		{"port 0", "upstream:\n  url: redis://h:0\n", `config.yaml:2: upstream.url: "0" is not a port: write a number from 1 to 65535`},
		{"a user alone", "upstream:\n  url: redis://bob@h\n", `config.yaml:2: upstream.url: has a user but no password: redis://user:password@… logs in as a user, redis://:password@… as the default one; upstream.username and upstream.password_file do so as well`},
		{"a hash in the password", "upstream:\n  url: redis://:hunter2#@h\n", `config.yaml:2: upstream.url: cannot be parsed: percent-encode what is special in the password (# as %23, / as %2F, ? as %3F, % as %25) and put IPv6 addresses in brackets`},
		{"a database by name", "upstream:\n  url: redis://h/main\n", `config.yaml:2: upstream.url: "main" is not a database: write its number after the host, as in redis://host:6379/2`},
		{"options of another client", "upstream:\n  url: redis://h?protocol=3\n", `config.yaml:2: upstream.url: has options after a ?, and redis:// takes none: remove them`},
		{"a relative upstream socket", "upstream:\n  url: unix://redis.sock\n", `config.yaml:2: upstream.url: does not name a socket by its full path: write three slashes, as in unix:///run/redis.sock`},
		{"an unknown socket option", "upstream:\n  url: unix:///r.sock?d=1\n", `config.yaml:2: upstream.url: has options after the ? other than one db: write unix:///path?db=N`},
		{"itself for upstream", "listen: ':6379'\nupstream:\n  url: redis://localhost\n", `config.yaml:3: upstream.url: is where the proxy itself listens: name the Redis, or listen elsewhere`},
		{"its own socket for upstream", "listen: unix:///a.sock\nupstream:\n  url: unix:///a.sock\n", `config.yaml:3: upstream.url: is where the proxy itself listens: name the Redis, or listen elsewhere`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withKinds(t, vault)
			_, err := Load(write(t, tc.text), nil)
			if err == nil {
				t.Fatal("was accepted")
			}
			if err.Error() != tc.want {
				t.Errorf("got\n%s\nwant\n%s", err, tc.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("tells the password")
			}
		})
	}
}

func TestAFileThatCannotBeReadIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("conf/config.yaml", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("secret.yaml", nil, 0); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"nowhere/config.yaml": `nowhere/config.yaml: does not exist: check the path; it counts from the working directory unless it begins with /`,
		"conf/config.yaml/":   `conf/config.yaml/: is a directory: name the file in it, as in conf/config.yaml/config.yaml`,
		"secret.yaml":         `secret.yaml: may not be read by this user: change its mode or owner`,
	} {
		if path == "secret.yaml" && os.Getuid() == 0 {
			continue // root may read everything
		}
		if _, err := Load(path, nil); err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	}
}

func FuzzLoadOfAnyFileDoesNotPanic(f *testing.F) {
	sample, err := os.ReadFile("../../config.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample))
	f.Add("rules: &a [*a]\n")
	f.Add("a: &a\n  <<: *a\nrules: [{name: *a}]")
	f.Add("? [x]\n: !!binary '%%'\nname: !!binary '%%'")
	f.Fuzz(func(t *testing.T, text string) {
		path := t.TempDir() + "/config.yaml"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(path, nil)
		if (cfg == nil) == (err == nil) {
			t.Fatal(cfg, err)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, path) {
					t.Fatalf("a line without its file: %q", line)
				}
			}
			return
		}
		cfg.Notes()
	})
}
