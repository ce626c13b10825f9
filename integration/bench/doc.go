// Package bench measures what the guard costs, next to what others cost that do less, and how that grows.
//
//	make bench
//	go test -run '^$' -bench 'Cycle/rtt=1ms' -benchtime 3x ./integration/bench
//
// Each benchmark publishes a section (package report); make bench-all has package all run every one of them, and writes docs/benchmarks.md and
// the figures in the README.
//
// # Rounds
//
// An operation of these benchmarks is a round: everybody in the comparison has one turn, and the
// order changes from round to round. -benchtime says how many rounds there are. A figure is the
// median of its rounds, and a ratio is the median of the ratios within each round, so that
// what else the machine does meanwhile falls on all alike. Believe the ratios; the absolute
// figures are those of one machine that runs clients, proxy, network and Redis together.
//
// # The cycle
//
// BenchmarkCycle is the read-modify-write of a session: GET a value of 1 KiB, count one up
// inside it, SET it. The ways to do it (way.go):
//
//	bare           GET and SET, no lock: 2 round trips, loses updates
//	redsync        Lock, GET, SET, Unlock straight at one Redis: 4 round trips
//	redislock      Obtain, GET, SET, Release straight at Redis: 4 round trips
//	rueidislock    a context that is the lock; waiters hear of a release by client-side caching
//	redis-py Lock  in Python, a thread a client (programs/redispy.py)
//	node redlock   in Node.js, with ioredis (programs/redlock.js)
//	etcd Mutex     etcd's own, around GET and SET at Redis; a session a client
//	fence-proxy    GET and SET through the proxy, whose rule guards the key: 2 round trips
//
// A client is one connection with go-redis's defaults, but for the two programs. Servers are on loopback, or 1 ms away; the
// proxy always is beside its client:
//
//	client ────────── relay, 1 ms ──▶ Redis
//	client ──▶ proxy ─ relay, 1 ms ──▶ Redis
//
// One client has the key to itself, eight want the same one, and 32 want four. "max/min" is the cycles of the client that
// did most for each of the one that did least. The libraries try again as they do by
// default: redsync after 50 to 250 ms at random, 32 times; redlock after 200 to 300 ms, 10 times; redis-py after 100 ms; redislock has no
// default, and gets the 100 ms of its documentation's example. They hold, and try, for 8 s at most,
// which is redsync's default lease. The proxy has its own defaults. Who gives up begins again. A
// library's rate among eight may be that of one that goes on while seven sleep: "longest ms" is
// the cycle that took longest, waiting included; a turn, of a second, bounds it.
//
// The count in the value must be that of the SETs that were acknowledged. "lost" is what is
// missing; for everything but bare a loss fails the benchmark.
//
// # Passing through
//
// BenchmarkPass is unguarded SET and GET by redis-benchmark: few and many connections, with and without
// a pipeline, small and large values (load.go). One Redis serves all of these, each with its
// defaults (peer.go):
//
//	direct        redis-benchmark straight at Redis
//	haproxy       mode tcp: passes bytes on and knows nothing of Redis
//	twemproxy     Debian's nutcracker: shares one connection to Redis
//	predixy       likewise, if there is a predixy on the PATH or in .bin
//	fence-proxy   with a rule that guards other keys
//
// predixy comes as source, https://github.com/joyieldInc/predixy; with a compiler of today:
// make CXX='g++ -include ctime'.
//
// "x direct" and "x twemproxy" are ratios of requests per second. "p50" is from request to reply
// for a lone client, and "added" what it has more than a client straight at Redis. A slice has the same
// number of requests for all.
//
// # Growth
//
// BenchmarkGrowth has one thing grow at a time (growth.go): clients, sessions, rules, the value, waiters. Each size has a Redis and a proxy of its own, all at
// once, and a swarm (swarm.go) of bare connections works there in turn, which is thousands where clients grow: a process may have to open 10,000 files, and
// Redis and the proxy as many. BenchmarkMemory is what connections and sessions take.
//
// # CPU
//
// The CPU columns are what the proxy's and the servers' own processes used for one cycle or command,
// in microseconds (Linux only). On a busy machine they are steadier than rates.
package bench
