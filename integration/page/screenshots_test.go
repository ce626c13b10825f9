//go:build integration

package page

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

var (
	screenshots = flag.String("screenshots", "", "where BenchmarkScreenshots writes them")
	play        = flag.Duration("play", 4*time.Minute, "for how long agents work before the screenshots are made")
)

// BenchmarkScreenshots writes the pictures of the documentation: agents contend on a real Redis, and one of them now and then thinks
// for longer than its lease. Where the configuration is is shown as it usually would be. It measures nothing; make screenshots runs it.
func BenchmarkScreenshots(b *testing.B) {
	if *screenshots == "" {
		b.Fatal("say where to: -screenshots DIR")
	}
	server := harness.StartRedis(b)
	proxy := harness.StartProxy(b, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: `name: agents-1
admin_token: "` + token + `"
rules:
  - {name: chat, prefix: "agent:ctx:", session: "agent:ctx:<session>:*", mode: lock, wait: 1500ms, max_hold: 2m}
  - {name: board, prefix: "board:", mode: lock, wait: 1500ms}
`})
	done := make(chan struct{})
	var crew sync.WaitGroup
	for i, name := range []string{"planner", "coder-1", "coder-2", "coder-3", "reviewer", "summarizer", "tester", "router", "scribe-1", "scribe-2"} {
		crew.Go(func() { work(b, server, proxy.Addr, name, i, done) })
	}
	browser := startBrowser(b)
	time.Sleep(*play)
	for name, l := range map[string]look{"status-page": looks[0], "status-page-dark": looks[1], "status-page-phone": looks[2]} {
		w := browser.open(page(proxy), l)
		w.shows("#holds-rows tr", "")
		w.until("document.querySelectorAll('#chart-refusals rect').length > 0 && document.querySelectorAll('#config-rules tr').length > 1")
		w.until("document.querySelectorAll('#queues-rows tr').length > 0")
		w.number(`(e => { e.textContent = e.textContent.replace(/^.*(?=, since)/, "/etc/fence-proxy/config.yaml"); return 0 })(document.getElementById("config-from"))`)
		w.screenshot(filepath.Join(*screenshots, name+".png"), l.width > 1000)
		if name == "status-page" {
			w.click("#refusals-rows button:has-text('FENCED')")
			w.shows("#detail .steps", "was refused")
			w.screenshot(filepath.Join(*screenshots, "status-page-story.png"), false)
		}
		w.close()
	}
	close(done)
	crew.Wait()
}

// work is an agent that reads, thinks and writes until it is done.
func work(b *testing.B, server *harness.Redis, addr, name string, number int, done <-chan struct{}) {
	b.Helper()
	c, err := harness.Connect(addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = c.Close() }()
	do := func(args ...string) string {
		if _, err := c.Write([]byte(harness.Encode(args...))); err != nil {
			return err.Error()
		}
		reply, err := c.Read()
		if err != nil {
			return err.Error()
		}
		return string(reply)
	}
	do("CLIENT", "SETNAME", name)
	direct := server.Client()
	for turn := 0; ; turn++ {
		session := fmt.Sprintf("conv-%d", 1+rand.IntN(4*(number+1)))
		key, record := "agent:ctx:"+session+":history", "fence-proxy:{chat:"+session+"}:h"
		if turn%4 == 3 {
			key, record = "board:tasks", "fence-proxy:{board:board:tasks}:h"
		}
		think := time.Duration(rand.ExpFloat64() * float64(350*time.Millisecond))
		read := do("GET", key)
		if rand.IntN(60) == 0 { // frozen, and its lease is over when it comes back
			direct.Del(b.Context(), record)
			think += 4 * time.Second
		}
		select {
		case <-done:
			return
		case <-time.After(min(think, 6*time.Second)):
		}
		if len(read) > 0 && read[0] != '-' {
			do("SET", key, fmt.Sprint(name, turn))
		}
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(500*time.Millisecond)))
	}
}
