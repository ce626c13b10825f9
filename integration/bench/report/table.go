package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is what a benchmark shows at its end, for people.
type Table struct {
	Title string
	Rows  [][]string // the first has the columns' names
}

// Add appends a row: a figure has as many digits as it can claim, a time is in milliseconds, a nil or a figure that
// was not measured is "-".
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		switch cell := cell.(type) {
		case nil:
			row[i] = "-"
		case float64:
			row[i] = Digits(cell)
		case time.Duration:
			row[i] = Digits(float64(cell) / float64(time.Millisecond))
		default:
			row[i] = fmt.Sprint(cell)
		}
	}
	t.Rows = append(t.Rows, row)
}

// Digits is a figure with as many digits as it can claim, "-" if it was not measured.
func Digits(figure float64) string {
	switch size := math.Abs(figure); {
	case math.IsNaN(figure):
		return "-"
	case size >= 99.95:
		return fmt.Sprintf("%.0f", figure)
	case size >= 9.995:
		return fmt.Sprintf("%.1f", figure)
	default:
		return fmt.Sprintf("%.2f", figure)
	}
}

// Print writes the table as text.
func (t *Table) Print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n\n", t.Title)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.sparse() {
		fmt.Fprintln(columns, "  "+strings.Join(row, "\t"))
	}
	_ = columns.Flush()
	fmt.Fprintln(w)
}

// Markdown is the table in Markdown, without its title.
func (t *Table) Markdown() string {
	var b strings.Builder
	for i, row := range t.sparse() {
		for c, cell := range row {
			row[c] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}

// sparse are the rows, in which a cell that repeats the one above it is empty as long as all to its left are, and another follows.
func (t *Table) sparse() [][]string {
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = append([]string(nil), row...)
		for c := 0; i > 1 && c < len(row)-1 && row[c] == t.Rows[i-1][c]; c++ {
			rows[i][c] = ""
		}
	}
	return rows
}
