//go:build integration

package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// patience is how long the browser waits for what is to be seen. A busy machine draws slowly.
const patience = 2 * time.Minute

// browser is a Chromium that does what it is told.
type browser struct {
	t       testing.TB
	in      io.Writer
	answers *json.Decoder
	pages   int
}

// startBrowser starts one, which ends with the test.
func startBrowser(t testing.TB) *browser {
	t.Helper()
	harness.InstallNodePackages(t, "browser")
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("no Chromium: apt-get install chromium")
	}
	node := exec.Command("node", "browser.js")
	node.Dir = "browser"
	node.Env = append(os.Environ(), "CHROMIUM="+chromium, fmt.Sprintf("PATIENCE=%d", patience.Milliseconds()))
	node.Stderr = os.Stderr
	in, inErr := node.StdinPipe()
	out, outErr := node.StdoutPipe()
	if err := errors.Join(inErr, outErr, node.Start()); err != nil {
		t.Fatalf("start the browser's driver: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it closes the browser then
		if err := node.Wait(); err != nil {
			t.Errorf("the browser's driver: %v", err)
		}
	})
	return &browser{t: t, in: in, answers: json.NewDecoder(out)}
}

// window is a browser's window on one page, in a profile of its own.
type window struct {
	*browser
	id string
}

// look is how a window looks.
type look struct {
	width  int
	scheme string // light or dark
}

func (b *browser) open(url string, l look) *window {
	b.t.Helper()
	b.pages++
	w := &window{b, fmt.Sprint(b.pages)}
	w.order("open", map[string]any{"url": url, "width": l.width, "height": 900, "scheme": l.scheme}, nil)
	return w
}

// order has the browser do something.
func (w *window) order(do string, with map[string]any, into any) {
	w.t.Helper()
	if err := w.try(do, with, into); err != nil {
		w.t.Fatalf("%s %v: %v", do, with, err)
	}
}

func (w *window) try(do string, with map[string]any, into any) error {
	order := map[string]any{"do": do, "page": w.id}
	for name, value := range with {
		order[name] = value
	}
	if err := json.NewEncoder(w.in).Encode(order); err != nil {
		return err
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := w.answers.Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, into)
}

// shows waits until an element shows a text, and returns all that it shows.
func (w *window) shows(selector, text string) string {
	w.t.Helper()
	var all string
	w.order("text", map[string]any{"selector": selector, "has": text}, &all)
	return all
}

func (w *window) gone(selector string) {
	w.t.Helper()
	w.order("gone", map[string]any{"selector": selector}, nil)
}

func (w *window) click(selector string) {
	w.t.Helper()
	w.order("click", map[string]any{"selector": selector}, nil)
}

func (w *window) press(key string) { w.t.Helper(); w.order("press", map[string]any{"key": key}, nil) }

func (w *window) fill(selector, text string) {
	w.t.Helper()
	w.order("fill", map[string]any{"selector": selector, "text": text}, nil)
}

func (w *window) count(selector string) (n int) {
	w.t.Helper()
	w.order("count", map[string]any{"selector": selector}, &n)
	return n
}

// until waits until an expression is true in the page.
func (w *window) until(expression string) {
	w.t.Helper()
	w.order("until", map[string]any{"expression": expression}, nil)
}

func (w *window) number(expression string) (n float64) {
	w.t.Helper()
	w.order("evaluate", map[string]any{"expression": expression}, &n)
	return n
}

func (w *window) screenshot(path string, full bool) {
	w.t.Helper()
	w.order("screenshot", map[string]any{"path": path, "full": full}, nil)
}

// isAccessible fails the test for what axe-core calls serious or critical.
func (w *window) isAccessible() {
	w.t.Helper()
	var found []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	w.order("axe", nil, &found)
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			w.t.Errorf("%s (%s): %s\n%s", v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n"))
		}
	}
}

// ranWell fails the test for errors in the page, for what it asked of other servers, and if it was loaded again.
func (w *window) ranWell() {
	w.t.Helper()
	var wrong []string
	if w.order("wrong", nil, &wrong); len(wrong) > 0 {
		w.t.Errorf("in the page: %q", wrong)
	}
	var loads int
	if w.order("loads", nil, &loads); loads != 1 {
		w.t.Errorf("the page was loaded %d times", loads)
	}
}

func (w *window) close() { w.t.Helper(); w.order("close", nil, nil) }
