package bench

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	directName = "direct"
	fenceName  = "fence-proxy"
)

// Guarded are the keys of the cycle; redis-benchmark's are others.
const rules = `
rules:
  - name: bench
    prefix: "bench:"
    mode: lock
    owner: connection
`

// runner is one way from redis-benchmark to Redis, and what was measured on it.
type runner struct {
	name     string
	addr     string
	proxyPid int // 0 if there is no proxy
	redisPid int
	got      map[string]*passage // by command
}

// passage is what was measured of one command, round by round.
type passage struct {
	rate               series // requests per second
	p50                series // µs
	proxyCPU, redisCPU series // µs per request
}

// startRunners starts a Redis and all proxies in front of it. The first runner has none.
func startRunners(tb testing.TB) []*runner {
	tb.Helper()
	server := harness.StartRedis(tb)
	var runners []*runner
	add := func(name, addr string, proxyPid int) {
		runners = append(runners, newRunner(name, addr, proxyPid, server.Pid()))
	}
	add(directName, server.Addr, 0)
	for _, p := range peers {
		if process, addr := p.start(tb, server.Addr); process != nil {
			add(p.name, addr, process.Pid())
		}
	}
	proxy := harness.StartProxy(tb, harness.ProxyOptions{Redis: server, ConfigYAML: rules})
	add(fenceName, proxy.Addr, proxy.Pid())
	return runners
}

func newRunner(name, addr string, proxyPid, redisPid int) *runner {
	r := &runner{name: name, addr: addr, proxyPid: proxyPid, redisPid: redisPid, got: map[string]*passage{}}
	for _, command := range commands {
		r.got[command] = &passage{}
	}
	return r
}

// turn measures n requests of a command.
func (r *runner) turn(tb testing.TB, l load, command string, n int) {
	tb.Helper()
	got, proxyCPU, redisCPU := r.got[command], cpuTime(r.proxyPid), cpuTime(r.redisPid)
	o := l.run(tb, r.addr, command, n)
	got.rate = append(got.rate, o.rate)
	got.p50 = append(got.p50, o.p50)
	got.proxyCPU = append(got.proxyCPU, micros(cpuTime(r.proxyPid)-proxyCPU, n))
	got.redisCPU = append(got.redisCPU, micros(cpuTime(r.redisPid)-redisCPU, n))
}

// mean is the mean over all commands of a figure's median.
func (r *runner) mean(figure func(command string) series) float64 {
	sum := 0.0
	for _, command := range commands {
		sum += figure(command).median()
	}
	return sum / float64(len(commands))
}

// over is the rate over another's.
func (r *runner) over(base *runner) float64 {
	return r.mean(func(command string) series { return r.got[command].rate.over(base.got[command].rate) })
}

// cpuOver is the CPU time, the proxy's and Redis's, over another's.
func (r *runner) cpuOver(base *runner) float64 {
	return r.mean(func(command string) series { return r.got[command].cpu().over(base.got[command].cpu()) })
}

// slower is how many µs longer than another's half of the replies take.
func (r *runner) slower(base *runner) float64 {
	return r.mean(func(command string) series { return r.got[command].p50.minus(base.got[command].p50) })
}

func (r *runner) p50() float64 {
	return r.mean(func(command string) series { return r.got[command].p50 })
}

func (r *runner) proxyCPU() float64 {
	return r.mean(func(command string) series { return r.got[command].proxyCPU })
}

func (r *runner) redisCPU() float64 {
	return r.mean(func(command string) series { return r.got[command].redisCPU })
}

// cpu is the proxy's and Redis's together.
func (p *passage) cpu() series { return p.proxyCPU.plus(p.redisCPU) }
