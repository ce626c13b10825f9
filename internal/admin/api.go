package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/status"
)

const (
	// listMost is how many entries of a list are returned at once.
	listMost = 500
	// askTime bounds a question to the store.
	askTime = 2 * time.Second
	// orderMost bounds what is read of an order, in bytes.
	orderMost = 1 << 20
)

// api answers under /api/v1/.
type api struct {
	status    *status.Collector
	guard     Guard
	about     func() About
	config    func() (Config, error)
	token     func() (string, error)
	health    *health
	streaming context.Context
	streams   chan struct{} // holds one element for each
}

func (a *api) route(mux *http.ServeMux, g *gate) {
	a.streams = make(chan struct{}, streamsMost)
	get := func(path string, h func(*http.Request) (any, error)) {
		mux.Handle("GET /api/v1/"+path, g.reads(answering(h)))
	}
	get("overview", func(r *http.Request) (any, error) { return a.overview(r.Context()), nil })
	get("holds", a.holds)
	get("queues", a.queues)
	get("refusals", a.refusals)
	get("refusals/{number}", a.story)
	get("hot", a.hot)
	get("series", a.series)
	get("sessions/{id}", a.session)
	get("explain", a.explain)
	get("config", func(*http.Request) (any, error) { return a.config() })
	mux.Handle("GET /api/v1/stream", g.reads(http.HandlerFunc(a.stream)))
	mux.Handle("POST /api/v1/break", g.changes(answering(a.breakHold)))
	mux.Handle("/api/", g.reads(answering(func(*http.Request) (any, error) {
		return nil, problem{http.StatusNotFound, "there is no such thing: see docs/admin-api.md"}
	})))
}

// problem is why a request can't be answered.
type problem struct {
	status int
	text   string
}

func (p problem) Error() string { return p.text }

func bad(format string, args ...any) error {
	return problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// answering answers with what h returns, as JSON.
func answering(h func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := h(r)
		var p problem
		switch {
		case err == nil:
			write(w, http.StatusOK, answer)
		case errors.As(err, &p):
			refuse(w, p.status, p.text)
		default:
			refuse(w, http.StatusInternalServerError, err.Error())
		}
	})
}

func write(w http.ResponseWriter, status int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer can't be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

func refuse(w http.ResponseWriter, status int, text string) { write(w, status, failure{text}) }

func quote(text string) string { return strconv.Quote(text) }

func (a *api) overview(ctx context.Context) Overview {
	o := Overview{At: time.Now(), About: a.about(), Ready: true, Now: a.status.Now()}
	if err := a.health.lately(ctx); err != nil {
		o.Ready, o.WhyNot = false, err.Error()
	}
	token, err := a.token()
	o.CanBreak = err == nil && token != "" && a.guard != nil
	return o
}

// query reads which entries of a list are wanted.
func query(r *http.Request, known ...string) (status.Query, url.Values, error) {
	values := r.URL.Query()
	q := status.Query{Text: values.Get("q"), Rule: values.Get("rule"), Sort: values.Get("sort"), Limit: 50}
	known = append(known, "q", "rule", "offset", "limit")
	for name := range values {
		if !slices.Contains(known, name) {
			return q, nil, bad("%q is not known here: the parameters are %s", name, strings.Join(known, ", "))
		}
	}
	var err error
	if q.Offset, err = number(values, "offset", 0, 1<<30); err != nil {
		return q, nil, err
	}
	if q.Limit, err = number(values, "limit", q.Limit, listMost); err != nil {
		return q, nil, err
	}
	return q, values, nil
}

func number(values url.Values, name string, usual, most int) (int, error) {
	text := values.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, bad("%s is no number from 0 to %d", name, most)
	}
	return n, nil
}

func (a *api) holds(r *http.Request) (any, error) {
	q, values, err := query(r, "sort", "order")
	switch order := values.Get("order"); {
	case err != nil:
		return nil, err
	case q.Sort != "" && !slices.Contains(status.Sorts, q.Sort):
		return nil, bad("sort is not one of %s", strings.Join(status.Sorts, ", "))
	case order != "" && order != "asc" && order != "desc":
		return nil, bad("order is neither asc nor desc")
	default:
		q.Up = order == "asc"
	}
	return a.status.Holds(q), nil
}

func (a *api) queues(r *http.Request) (any, error) {
	q, _, err := query(r)
	if err != nil {
		return nil, err
	}
	return a.status.Queues(q), nil
}

func (a *api) refusals(r *http.Request) (any, error) {
	q, values, err := query(r, "error", "after")
	if err != nil {
		return nil, err
	}
	after, err := number(values, "after", 0, 1<<62)
	if err != nil {
		return nil, err
	}
	return a.status.Refusals(uint64(after), values.Get("error"), q), nil
}

func (a *api) story(r *http.Request) (any, error) {
	n, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil {
		return nil, bad("%q is no refusal's number", r.PathValue("number"))
	}
	story, ok := a.status.Story(n)
	if !ok {
		return nil, problem{http.StatusNotFound, fmt.Sprintf("refusal %d is not kept any more", n)}
	}
	return story, nil
}

func (a *api) hot(r *http.Request) (any, error) {
	n, err := number(r.URL.Query(), "limit", 10, 100)
	if err != nil {
		return nil, err
	}
	return map[string]any{"items": append([]status.Hot{}, a.status.Hottest(n)...)}, nil
}

func (a *api) series(r *http.Request) (any, error) {
	step, err := number(r.URL.Query(), "step", 60, 3600)
	if err != nil || step == 0 || step%10 != 0 {
		return nil, bad("step is no multiple of 10 seconds up to 3600")
	}
	return map[string]any{"step": step, "points": a.status.Series(time.Duration(step) * time.Second)}, nil
}

// SessionNow is what is known of a session here, and at the store.
type SessionNow struct {
	status.Known
	Record  *Record `json:"record"`       // null if it could not be asked for
	Trouble string  `json:"record_error"` // why not
}

func (a *api) session(r *http.Request) (any, error) {
	id, name, err := a.named(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	var s SessionNow
	s.Known, _ = a.status.Session(id)
	s.Record, s.Trouble = a.record(r.Context(), name)
	return s, nil
}

func (a *api) named(text string) (status.ID, status.Name, error) {
	var id status.ID
	if err := id.UnmarshalText([]byte(text)); err != nil {
		return id, status.Name{}, bad("%v", err)
	}
	name, ok := a.status.Find(id)
	if !ok {
		return id, name, problem{http.StatusNotFound, "nothing has been heard of this session lately"}
	}
	return id, name, nil
}

// record asks the store for a session's record, or says why it can't.
func (a *api) record(ctx context.Context, name status.Name) (record *Record, trouble string) {
	switch {
	case a.guard == nil:
		return nil, "this proxy only observes"
	case name.Clipped:
		return nil, "the session's name is too long to be kept here: use fence-proxy explain --admin, with a key"
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found, err := a.guard.Record(ctx, name)
	if err != nil {
		return nil, err.Error()
	}
	return &found, ""
}

func (a *api) explain(r *http.Request) (any, error) {
	values := r.URL.Query()
	db, err := number(values, "db", 0, 1<<20)
	switch {
	case err != nil:
		return nil, err
	case !values.Has("key"):
		return nil, bad("key is missing")
	case a.guard == nil:
		return nil, problem{http.StatusNotFound, "this proxy only observes"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	e, err := a.guard.Explain(ctx, db, values.Get("key"))
	if err != nil {
		return nil, err
	}
	if known, ok := a.status.Named(db, e.Rule, e.Session); ok {
		e.Known = &known
	}
	return e, nil
}

func (a *api) breakHold(r *http.Request) (any, error) {
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return nil, problem{http.StatusUnsupportedMediaType, "send application/json"}
	}
	var order breakOrder
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, orderMost))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&order); err != nil {
		return nil, bad("what is to be broken can't be read: %v", err)
	}
	if a.guard == nil {
		return nil, problem{http.StatusNotFound, "this proxy only observes"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	name, err := a.subject(ctx, order)
	if err != nil {
		return nil, err
	}
	broken, err := a.guard.Break(ctx, name, order.Grant, r.RemoteAddr)
	if errors.Is(err, ErrOther) {
		return nil, problem{http.StatusConflict, err.Error()}
	}
	return broken, err
}

// subject is the session that an order is about.
func (a *api) subject(ctx context.Context, order breakOrder) (status.Name, error) {
	switch {
	case (order.ID == nil) == (order.Key == nil):
		return status.Name{}, bad("name the session by id, or by key and db")
	case order.Key != nil:
		e, err := a.guard.Explain(ctx, order.DB, *order.Key)
		if err == nil && e.Rule == "" {
			err = bad("%s", e.Why)
		}
		return status.Name{DB: order.DB, Rule: e.Rule, Session: e.Session}, err
	}
	_, name, err := a.named(order.ID.String())
	if err == nil && name.Clipped {
		err = bad("the session's name is too long to be kept here: name it by a key")
	}
	return name, err
}

func (a *api) configFile(w http.ResponseWriter, _ *http.Request) {
	c, err := a.config()
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	from := c.File
	if from == "" {
		from = "no file"
	}
	_, _ = fmt.Fprintf(w, "# In force since %s, from %s; secrets are masked.\n", c.Loaded.UTC().Format(time.RFC3339), from)
	for _, key := range c.Restart {
		_, _ = fmt.Fprintf(w, "# The file has another %s, which counts from the next start on.\n", key)
	}
	if c.Failed != "" {
		_, _ = fmt.Fprintf(w, "# The file as it is now was not taken over: %s\n", strings.ReplaceAll(c.Failed, "\n", "; "))
	}
	_, _ = w.Write(c.YAML)
}
