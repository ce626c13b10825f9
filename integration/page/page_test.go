//go:build integration

package page

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

var looks = []look{{1280, "light"}, {1280, "dark"}, {390, "light"}, {390, "dark"}}

func startProxy(t testing.TB, server *harness.Redis, env ...string) *harness.Proxy {
	t.Helper()
	return harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: rules, Env: env})
}

func page(p *harness.Proxy) string { return "http://" + p.Admin + "/" }

// The page is open before anything happens, and is not loaded again.
func TestARefusalIsFollowedFromTheEventToItsStory(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	browser := startBrowser(t)
	var windows []*window
	for _, l := range looks {
		w := browser.open(page(proxy), l)
		w.shows("#ready", "ready")
		w.shows("#refusals-empty", "Nothing was refused.")
		windows = append(windows, w)
	}

	a, b, c := connect(t, proxy, "worker-a"), connect(t, proxy, "worker-b"), connect(t, proxy, "worker-c")
	superseded(t, server, a, b, "ctx:42:history", "42")
	a.says("-FENCED", "SET", "ctx:42:history", "a")
	b.says("$-1", "GET", "now:s")
	c.says("-LOCKED", "GET", "now:s")

	for i, w := range windows {
		w.shows("#refusals-rows li", "worker-c") // the newest is the first
		w.shows("#refusals-rows li:nth-child(2)", "SET of worker-a: superseded by worker-b")
		w.shows("#f-refused", "2")
		w.shows("#f-refused-more", "1 unsafe · 1 in vain")
		if wide := w.number("document.documentElement.scrollWidth"); int(wide) != looks[i].width {
			t.Errorf("%+v: the page is %v wide", looks[i], wide)
		}
		w.isAccessible()
		w.click("#refusals-rows button:has-text('FENCED')")
		w.shows("#detail[open] #detail-title", "FENCED 42")
		story := w.shows("#detail .tale", "nothing was written")
		for _, part := range []string{
			"worker-a read the session at ", ", under grant ", "worker-b was granted the session at ", ", and wrote it at ",
			"The SET of worker-a came at ", "under a grant that was no longer the newest.",
		} {
			if !strings.Contains(story, part) {
				t.Errorf("there is no %q in the story\n%s", part, story)
			}
		}
		at := -1
		timeline := w.shows("#detail .steps", "was refused with FENCED (superseded)")
		for _, step := range []string{
			"worker-a was granted the session", "worker-a read", "worker-b was granted the session", "worker-b read", "worker-b SET was applied",
			"worker-b gave the session back", "worker-a SET was refused with FENCED",
		} {
			next := strings.Index(timeline, step)
			if next <= at {
				t.Errorf("%q is not where it belongs in the timeline\n%s", step, timeline)
			}
			at = next
		}
		if i == 0 || i == len(windows)-1 {
			w.isAccessible()
		}
		w.press("Escape")
		w.gone("#detail")
		w.ranWell()
		w.close()
	}
}

func TestHoldsAndQueuesAreLive(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	w := startBrowser(t).open(page(proxy), looks[0])
	w.shows("#holds-empty", "Nothing is held.")

	a, b := connect(t, proxy, "worker-a"), connect(t, proxy, "worker-b")
	a.says("$-1", "GET", "ctx:42:history")
	row := w.shows("#holds-rows tr", "worker-a")
	for _, part := range []string{"42", "chat", "GET"} {
		if !strings.Contains(row, part) {
			t.Errorf("there is no %q in %q", part, row)
		}
	}
	b.Send(harness.Encode("GET", "ctx:42:history"))
	w.shows("#queues-rows tr", "worker-b")
	w.shows("#queues-rows tr td:nth-child(2)", "worker-a")
	w.shows("#f-waiting", "1")

	a.says("+OK", "SET", "ctx:42:history", "a")
	b.ReadReply()
	w.shows("#holds-rows tr", "worker-b")
	w.shows("#queues-empty", "Nobody waits.")
	w.shows("#hot-rows tr", "42")
	b.says("+OK", "SET", "ctx:42:history", "b")
	w.shows("#holds-empty", "Nothing is held.")
	w.until("document.querySelector('#chart-waits p.unseen').textContent.startsWith('1 waits')")

	w.click("#pause")
	w.shows("#live", "paused")
	a.says("$1", "GET", "ctx:42:history")
	w.click("#pause")
	w.shows("#holds-rows tr", "worker-a")
	w.ranWell()
}

// A row stays while others come and go, so that whoever works by keyboard stays where he is.
func TestThePageWorksByKeyboard(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	w := startBrowser(t).open(page(proxy), looks[0])
	a, b := connect(t, proxy, "worker-a"), connect(t, proxy, "worker-b")
	a.says("$-1", "GET", "ctx:first:h")
	b.says("$-1", "GET", "ctx:kept:h")
	w.shows("#holds-rows tr:nth-child(2)", "kept")
	const focused = "document.activeElement.textContent"
	w.until("document.querySelector('#holds-rows tr:nth-child(2) a').focus() || true")
	a.says("+OK", "SET", "ctx:first:h", "v")
	a.says("$-1", "GET", "ctx:zlast:h")
	w.shows("#holds-rows tr:nth-child(2)", "zlast")
	w.until(focused + " === 'kept'")
	w.press("Enter")
	w.shows("#detail[open] #detail-title", "kept")
	w.shows("#detail-body", "worker-b")
	w.until("document.getElementById('detail').contains(document.activeElement)")
	w.press("Escape")
	w.gone("#detail")
	w.until(focused + " === 'kept'")

	b.says("+OK", "SET", "ctx:kept:h", "v") // its row goes, and the focus goes to the list
	w.until("document.querySelectorAll('#holds-rows tr').length === 1")
	w.until("document.getElementById('holds').contains(document.activeElement)")
	w.ranWell()
}

func TestTenThousandSessionsAreUsable(t *testing.T) {
	const sessions, conns = 10_000, 4
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	w := startBrowser(t).open(page(proxy), looks[0])
	for i := range conns {
		var b strings.Builder
		for s := i; s < sessions; s += conns {
			b.WriteString(harness.Encode("GET", fmt.Sprintf("ctx:session-%05d:h", s)))
		}
		a := connect(t, proxy, fmt.Sprintf("worker-%d", i))
		sent := make(chan struct{})
		go func() { defer close(sent); _, _ = io.WriteString(a.Conn, b.String()) }()
		for range sessions / conns {
			a.ReadReply()
		}
		<-sent
	}
	w.shows("#holds-count", "10,000")
	w.shows("#f-holds", "10,000")
	w.shows("#holds-range", "1–50 of 10,000")
	if n := w.count("#holds-rows tr"); n != 50 {
		t.Errorf("%d rows are in the page", n)
	}
	w.click("th[data-sort=session] button")
	w.shows("#holds-rows tr", "session-00000")
	w.click("#holds-pager button[data-go='1']")
	w.shows("#holds-rows tr", "session-00050")
	w.click("th[data-sort=session] button")
	w.shows("#holds-rows tr", "session-09999")
	w.shows("th[data-sort=session][aria-sort=descending]", "Session")
	w.fill("#holds-q", "session-07777")
	w.shows("#holds-count", "1")
	w.shows("#holds-rows tr", "worker-1")
	w.fill("#holds-q", "no such")
	w.shows("#holds-empty", "No hold fits the filter.")
	w.ranWell()

	code, list := harness.RunProxy(t, "holds", "--admin", proxy.Admin, "--filter", "session-00042", "--json")
	if code != 0 || !strings.Contains(list, `"session": "session-00042"`) || !strings.Contains(list, `"total": 1`) {
		t.Errorf("%d %s", code, list)
	}
}

func TestAHoldIsBrokenWithTheTokenAndNotWithout(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := startProxy(t, server, "FENCE_ADMIN_TOKEN="+token)
	a := connect(t, proxy, "worker-a")
	a.says("$-1", "GET", "ctx:42:history")
	w := startBrowser(t).open(page(proxy), looks[0])
	w.click("#holds-rows button:has-text('Break')")
	w.shows("#break[open] #break-what", "42 of rule chat, held by worker-a")
	w.isAccessible()
	w.fill("#break-token", "not the right token")
	w.press("Enter")
	w.shows("#break-error", "not the right one")
	if n := server.Client().Exists(t.Context(), "fence-proxy:{chat:42}:h").Val(); n != 1 {
		t.Fatal("the hold was broken without the token")
	}
	w.fill("#break-token", token)
	w.click("#break button.danger")
	w.gone("#break")
	w.shows("#holds-empty", "Nothing is held.")
	w.until("document.getElementById('news').textContent === 'The hold on 42 was broken.'")
	a.says("-FENCED", "SET", "ctx:42:history", "stale")
	proxy.WaitLog(t, "hold broken at the admin address")
	if strings.Contains(proxy.Logs(), token) {
		t.Error("the token is in the log")
	}
}

func TestWithoutATokenThePageIsReadOnly(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	a := connect(t, proxy, "worker-a")
	a.says("$-1", "GET", "ctx:42:history")
	w := startBrowser(t).open(page(proxy), looks[0])
	w.shows("#holds-rows tr", "worker-a")
	w.shows("#ready", "ready")
	w.gone("#holds-rows button")
	for _, bearer := range []string{"", "Bearer ", "Bearer " + token} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page(proxy)+"api/v1/break", strings.NewReader(`{"key":"ctx:42:history"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", bearer)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("with %q: %s", bearer, answer.Status)
		}
	}
	a.says("+OK", "SET", "ctx:42:history", "good")
}

// The page says that the proxy can't serve, and that it is gone, and goes on when it is back.
func TestThePageOutlivesTheProxy(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	w := startBrowser(t).open(page(proxy), looks[0])
	w.shows("#ready", "ready")
	server.Stop()
	w.shows("#ready", "not ready")
	w.shows("#trouble", "Clients can't be served")
	server.Restart()
	w.until("document.getElementById('ready').textContent === 'ready'")
	proxy.Kill()
	w.shows("#ready", "no answer")
	proxy.Start()
	w.until("document.getElementById('ready').textContent === 'ready'")
}
