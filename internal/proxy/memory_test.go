package proxy

import (
	"runtime"
	"strings"
	"testing"
)

// live is what the heap holds, in bytes.
func live() int64 {
	runtime.GC()
	runtime.GC() // what the first has only found
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAClientKeepsNothingOfALargeCommandThatIsDone(t *testing.T) {
	to := serve(t)
	const size = 32 << 20
	value := strings.Repeat("v", size)
	for name, does := range map[string]func(*agent){
		"a large value": func(a *agent) { a.does("SET plain "+value, "+OK\r\n"); a.does("DEL plain", ":1\r\n") },
		"a large value of a guarded key": func(a *agent) {
			a.does("GET agent:s1:k", "$-1\r\n")
			a.does("SET agent:s1:k "+value, "+OK\r\n")
			a.does("DEL agent:s1:k", ":1\r\n")
		},
		"a large argument of a guarded read": func(a *agent) {
			a.does("EXISTS agent:s1:k agent:s1:"+value, ":0\r\n")
			a.does("SET agent:s1:k v", "+OK\r\n")
			a.does("DEL agent:s1:k", ":1\r\n")
		},
		"very many keys": func(a *agent) { a.does("DEL"+strings.Repeat(" k", 1<<20), ":0\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			a := dial(t, to)
			a.does("PING", "+PONG\r\n")
			before := live()
			does(a)
			a.does("PING", "+PONG\r\n") // the next command lets go of the last
			a.does("PING", "+PONG\r\n")
			if kept := live() - before; kept > size/4 {
				t.Errorf("%d MB are kept", kept>>20)
			}
			a.does("PING", "+PONG\r\n")
		})
	}
}
