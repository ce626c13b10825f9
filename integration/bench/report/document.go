package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Document is what one run has measured: all its sections, and on what.
type Document struct {
	Command  string // that makes it
	Rounds   int
	Only     string // the sections that are of this run, where the others are of runs before; "" if all are
	Took     time.Duration
	Machine  Machine // as it was at the start
	Versions []Version
	Chapters []Chapter
}

// Chapter is a section, and the command that shows its tables alone.
type Chapter struct {
	*Section
	Command string
}

// busy is the load, for each core, from which on a document says that the machine had other work.
const busy = 0.3

// fewRounds is how many rounds are fewer than figures to be believed take.
const fewRounds = 3

// Write writes the document's file, its plots beside it, and its short tables into another document, the README.
func (d *Document) Write(file, readme string) error {
	front, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	shown, err := Replace(string(front), d.shorts())
	if err != nil {
		return fmt.Errorf("%s: %w", readme, err)
	}
	for _, c := range d.Chapters {
		for _, p := range c.Plots {
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), p.File), []byte(p.SVG), 0o644); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(file, []byte(d.Markdown()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(readme, []byte(shown), 0o644)
}

// shorts are the tables for the README, by name.
func (d *Document) shorts() map[string]string {
	texts := map[string]string{}
	for _, c := range d.Chapters {
		for _, s := range c.Short {
			texts[s.Name] = s.Table.Markdown()
		}
	}
	return texts
}

// Markdown is the document.
func (d *Document) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nWritten by `%s`, which measures everything here in one run; don't edit it. ", d.Command)
	b.WriteString("Clients, proxies, Redis and lock servers share one machine, so compare what stands in one table: everybody in it has a turn in each round, " +
		"and a figure is the median of its rounds. CPU times are the processes' own, in microseconds, and are steadier than rates.\n\n")
	if warning := d.warning(); warning != "" {
		fmt.Fprintf(&b, "**%s**\n\n", warning)
	}
	d.facts(&b)
	d.short(&b)
	for _, c := range d.Chapters {
		c.write(&b)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// warning says why the figures are not to be believed; "" if they are.
func (d *Document) warning() string {
	var why []string
	if d.Rounds < fewRounds {
		why = append(why, fmt.Sprintf("it had %d round(s)", d.Rounds))
	}
	var load float64
	if _, err := fmt.Sscan(d.Machine.Load, &load); err == nil && load > busy*float64(d.Machine.Cores) {
		why = append(why, fmt.Sprintf("the machine was busy when it began (load %.1f on %d cores)", load, d.Machine.Cores))
	}
	var warnings []string
	if len(why) > 0 {
		warnings = append(warnings, "A trial run, whose figures say little: "+strings.Join(why, ", and ")+".")
	}
	if d.Only != "" {
		warnings = append(warnings, "Measured in more than one go: of the last one are "+d.Only+", the other sections are of earlier ones.")
	}
	return strings.Join(warnings, " ")
}

func (d *Document) facts(b *strings.Builder) {
	t := &Table{}
	t.Add("what", "")
	for _, fact := range [][2]string{
		{"date", d.Machine.At.Format("2006-01-02 15:04 MST")},
		{"rounds", fmt.Sprint(d.Rounds)},
		{"took", d.Took.Round(time.Second).String()},
		{"cores", fmt.Sprint(d.Machine.Cores)},
		{"CPU", d.Machine.CPU},
		{"memory", d.Machine.Memory},
		{"kernel", d.Machine.Kernel},
		{"load at start (1, 5, 15 minutes)", d.Machine.Load},
	} {
		t.Add(fact[0], fact[1])
	}
	for _, v := range d.Versions {
		t.Add(v.Name, v.Version)
	}
	fmt.Fprintf(b, "%s\n", t.Markdown())
}

// short has the tables that the README shows.
func (d *Document) short(b *strings.Builder) {
	b.WriteString("## In short\n\n")
	for _, c := range d.Chapters {
		for _, s := range c.Short {
			fmt.Fprintf(b, "%s\n\n%s\n\n", s.Table.Title, Excerpt(s.Name, s.Table.Markdown()))
		}
	}
}

func (c *Chapter) write(b *strings.Builder) {
	fmt.Fprintf(b, "## %s\n\n%s\n\nAlone: `%s`\n\n", c.Heading, c.Says, c.Command)
	for _, t := range c.Tables {
		fmt.Fprintf(b, "### %s\n\n%s\n", t.Title, t.Markdown())
	}
	for _, p := range c.Plots {
		fmt.Fprintf(b, "![%s](%s)\n\n", p.Alt, p.File)
	}
}
