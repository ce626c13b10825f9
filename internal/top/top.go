// Package top shows in a terminal what the status page shows: a few figures, the open holds, and the last refusals.
package top

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fence-proxy/fence-proxy/internal/admin"
	"github.com/fence-proxy/fence-proxy/internal/status"
)

// refusalRows is how many refusals are shown.
const refusalRows = 5

// Frame is what is shown at a time.
type Frame struct {
	Overview admin.Overview
	Holds    status.Page[status.Hold]
	Refusals status.Page[status.Refusal]
}

// Ask asks a proxy for a frame with so many holds; query is that of /api/v1/holds.
func Ask(ctx context.Context, c *admin.Client, query url.Values, holds int) (f Frame, err error) {
	if f.Overview, err = c.Overview(ctx); err != nil {
		return f, err
	}
	query.Set("limit", strconv.Itoa(holds))
	if f.Holds, err = c.Holds(ctx, query); err != nil {
		return f, err
	}
	f.Refusals, err = c.Refusals(ctx, url.Values{"limit": {strconv.Itoa(refusalRows)}})
	return f, err
}

// Style is how a terminal marks text. The zero Style marks nothing.
type Style struct{ Bold, Dim, Plain string }

// Marked is the style of terminals.
var Marked = Style{Bold: "\x1b[1m", Dim: "\x1b[2m", Plain: "\x1b[0m"}

// Lines are a frame's, each of at most width characters; 0 is as many as they need.
func (f *Frame) Lines(width int, style Style) []string {
	o := &f.Overview
	lines := []string{
		style.Bold + cut("fence-proxy "+o.About.Name+"  "+f.state(), width) + style.Plain,
		style.Dim + cut(fmt.Sprintf("%s → %s  locks %s  %d clients  up %s  %s", o.About.Listen, o.About.Upstream, o.About.Provider,
			o.About.Clients, status.Span(status.Millis(o.At.Sub(o.About.Started))), o.About.Version), width) + style.Plain,
		cut(f.figures(), width),
		"",
	}
	head, rows := f.holdRows()
	for i, line := range table(head, rows, width, 0) {
		if i == 0 {
			line = style.Bold + line + style.Plain
		}
		lines = append(lines, line)
	}
	if len(rows) == 0 {
		lines = append(lines, style.Dim+"nothing is held"+style.Plain)
	} else if more := f.Holds.Total - len(rows); more > 0 {
		lines = append(lines, style.Dim+fmt.Sprintf("and %d more", more)+style.Plain)
	}
	if len(f.Refusals.Items) == 0 {
		return lines
	}
	lines = append(lines, "", style.Bold+"REFUSED LATELY"+style.Plain)
	for i := range f.Refusals.Items {
		r := &f.Refusals.Items[i]
		lines = append(lines, cut(fmt.Sprintf("%s  %s  %s  %s of %s: %s", r.At.UTC().Format("15:04:05"), cmp.Or(r.Error, "nil"), r.Session.Session, r.Command, caller(r.Who), r.Summary), width))
	}
	return lines
}

func (f *Frame) state() string {
	switch o := &f.Overview; {
	case o.About.Draining:
		return "draining"
	case o.Ready:
		return "ready"
	default:
		return "not ready: " + o.WhyNot
	}
}

func (f *Frame) figures() string {
	now := &f.Overview.Now
	parts := []string{
		fmt.Sprintf("holds %d", max(f.Overview.About.Holds, now.Holding)),
		fmt.Sprintf("waiting %d", now.Waiting),
		fmt.Sprintf("refused in 1 h %d (%d in vain)", now.Hour.Fenced+now.Hour.Locked, now.Hour.Locked),
	}
	if now.Hour.Waits.Count > 0 {
		parts = append(parts, "wait p99 "+status.Span(now.Hour.Waits.P99))
	}
	if now.Hour.Holds.Count > 0 {
		parts = append(parts, "hold p99 "+status.Span(now.Hour.Holds.P99))
	}
	return strings.Join(append(parts, fmt.Sprintf("commits %.1f/s", float64(now.Minute.Commits)/60)), "   ")
}

func (f *Frame) holdRows() (head []string, rows [][]string) {
	for i := range f.Holds.Items {
		h := &f.Holds.Items[i]
		left := "-"
		if h.LeaseLeft != nil {
			left = status.Span(*h.LeaseLeft)
		}
		rows = append(rows, []string{
			h.Session.Session, h.Rule, caller(h.Holder), status.Span(h.Age), left, strconv.Itoa(h.Waiting), strconv.FormatUint(h.Grant, 10),
		})
	}
	return []string{"SESSION", "RULE", "HOLDER", "AGE", "LEASE", "WAITING", "GRANT"}, rows
}

// caller names somebody.
func caller(p status.Party) string {
	if p.Name == "" {
		return cmp.Or(p.Client, p.Owner, "somebody")
	}
	if p.Client == "" {
		return p.Name
	}
	return p.Name + " (" + p.Client + ")"
}

// gap is what is between two columns.
const gap = "  "

// table lays rows out in columns. If they need more than width, the column that gives way is cut.
func table(head []string, rows [][]string, width, givesWay int) []string {
	wide := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	total := len(gap) * (len(head) - 1)
	for _, w := range wide {
		total += w
	}
	if width > 0 && total > width {
		wide[givesWay] = max(wide[givesWay]-(total-width), len(head[givesWay]))
	}
	var lines []string
	for _, row := range append([][]string{head}, rows...) {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteString(gap)
			}
			cell = cut(cell, wide[i])
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", wide[i]-utf8.RuneCountInString(cell)))
			}
		}
		lines = append(lines, cut(b.String(), width))
	}
	return lines
}

// cut shortens a text to so many characters, if width is not 0.
func cut(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Table prints the holds of a frame alone, for scripts.
func (f *Frame) Table() []string {
	head, rows := f.holdRows()
	return table(head, rows, 0, 0)
}
