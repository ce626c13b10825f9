package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/status"
)

const (
	// streamsMost is how many may watch at a time.
	streamsMost = 32
	// overviewEvery and refusalsEvery are how often a watcher hears.
	overviewEvery = time.Second
	refusalsEvery = 200 * time.Millisecond
	// refusalsAtOnce is how many refusals are told one by one; of more the newest are.
	refusalsAtOnce = 20
	// writeTimeout is how long a watcher may take nothing.
	writeTimeout = 10 * time.Second
)

// stream sends what happens, as server-sent events: "overview" each second, "refusal" as they come. Nothing is
// kept for a watcher; who comes back with Last-Event-ID hears of the refusals since, as far as they are kept.
func (a *api) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		refuse(w, http.StatusServiceUnavailable, "too many watch already")
		return
	}
	last := a.status.LastRefusal()
	if n, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64); err == nil && n <= last {
		last = n
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := watcher{w, http.NewResponseController(w)}
	overviews, refusals := time.NewTicker(overviewEvery), time.NewTicker(refusalsEvery)
	defer overviews.Stop()
	defer refusals.Stop()
	err := out.send("retry: 1000\n\n")
	for due := true; err == nil; {
		if due {
			err = out.event("overview", 0, a.overview(r.Context()))
		}
		news := a.since(&last)
		for i := range news {
			if err == nil {
				err = out.event("refusal", news[i].Number, &news[i])
			}
		}
		if err != nil {
			return
		}
		due = false
		select {
		case <-r.Context().Done():
			return
		case <-a.streaming.Done():
			return
		case <-overviews.C:
			due = true
		case <-refusals.C:
		}
	}
}

// since returns the newest refusals since the last one, oldest first.
func (a *api) since(last *uint64) []status.Refusal {
	if a.status.LastRefusal() == *last {
		return nil
	}
	items := a.status.Refusals(*last, "", status.Query{Limit: refusalsAtOnce}).Items
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	if len(items) > 0 {
		*last = items[len(items)-1].Number
	}
	return items
}

// watcher is one stream's client.
type watcher struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w watcher) send(text string) error {
	if err := w.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return w.control.Flush()
}

func (w watcher) event(name string, id uint64, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	head := "event: " + name + "\n"
	if id > 0 {
		head += fmt.Sprintf("id: %d\n", id)
	}
	return w.send(head + "data: " + string(text) + "\n\n")
}
