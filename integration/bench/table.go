package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// table is what a benchmark prints at its end, for people.
type table struct {
	title string
	rows  [][]string // the first has the columns' names
}

// add appends a row: a figure has as many digits as it can claim, a nil or a figure that
// was not measured is "-".
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		switch cell := cell.(type) {
		case nil:
			row[i] = "-"
		case float64:
			row[i] = digits(cell)
		case time.Duration:
			row[i] = digits(float64(cell) / float64(time.Millisecond))
		default:
			row[i] = fmt.Sprint(cell)
		}
	}
	t.rows = append(t.rows, row)
}

func digits(figure float64) string {
	switch size := math.Abs(figure); {
	case math.IsNaN(figure):
		return "-"
	case size >= 100:
		return fmt.Sprintf("%.0f", figure)
	case size >= 10:
		return fmt.Sprintf("%.1f", figure)
	default:
		return fmt.Sprintf("%.2f", figure)
	}
}

// print writes the table; a cell that repeats the one above it stays empty as long as all
// to its left do.
func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n\n", t.title)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, row := range t.rows {
		shown := append([]string(nil), row...)
		for c := 0; i > 0 && c < len(row) && row[c] == t.rows[i-1][c]; c++ {
			shown[c] = ""
		}
		fmt.Fprintln(columns, "  "+strings.Join(shown, "\t"))
	}
	_ = columns.Flush()
	fmt.Fprintln(w)
}
