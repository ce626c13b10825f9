package bench

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

// plot is a picture of bars: panels one below the other, in each the same groups of bars. It
// is drawn as SVG that follows the reader's light or dark theme.
//
//	title            ■ series ■ series
//	panel    │  ▂     ▂
//	         │ ▂█ ▂  ▂█ ▂
//	         └ group ─ group ─
type plot struct {
	title  string
	note   string // below everything
	series []string
	panels []panel
}

type panel struct {
	title  string
	line   string // names the line at 1; none if empty
	groups []group
}

// group has one bar for each series of the plot, in that order.
type group struct {
	name string
	bars []bar
}

// bar is made of parts, from below. Without parts, or where a part is no number, nothing is drawn.
type bar []float64

func (b bar) height() float64 {
	sum := 0.0
	for _, part := range b {
		sum += part
	}
	return sum
}

func (b bar) drawn() bool { return len(b) > 0 && !math.IsNaN(b.height()) }

// Sizes in SVG's units, some of a pixel.
const (
	plotWidth   = 840.0
	plotMargin  = 44.0
	headHeight  = 64.0
	panelHeight = 240.0
	panelTop    = 40.0 // from a panel's top to where its highest bar may end,
	panelFoot   = 34.0 // and from its bottom to where bars begin
	noteHeight  = 30.0
	gapShare    = 0.22 // of a group's width
)

// Colours by series: the last is what the plot is about.
const plotStyle = `
text { font: 12px system-ui, sans-serif; fill: #3d444d }
.title { font-size: 16px; font-weight: 600; fill: #1f2328 }
.panel { font-weight: 600 }
.figure { font-size: 10px; text-anchor: middle }
.group { text-anchor: middle }
.tick { text-anchor: end; font-size: 10px }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.line { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 5 4 }
.part0 { fill-opacity: 1 } .part1 { fill-opacity: .55 }
.s0 { fill: #8c959f } .s1 { fill: #c77b29 } .s2 { fill: #3f9a6b } .s3 { fill: #9a6fd0 }
.s4 { fill: #b8524a } .s5 { fill: #3a8f9e } .s6 { fill: #a38b2d } .last { fill: #2f6fdf }
@media (prefers-color-scheme: dark) {
  text { fill: #b7bfc8 } .title { fill: #f0f6fc }
  .grid { stroke: #30363d } .line { stroke: #9198a1 }
  .s0 { fill: #7d8590 } .s1 { fill: #d99a4e } .s2 { fill: #56b886 } .s3 { fill: #b392e0 }
  .s4 { fill: #d97a72 } .s5 { fill: #5fb4c4 } .s6 { fill: #c4ac52 } .last { fill: #5b93f5 }
}
`

// canvas collects elements.
type canvas struct{ strings.Builder }

func (c *canvas) text(class string, x, y float64, text string) {
	fmt.Fprintf(c, "<text class=%q x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, escape(text))
}

func (c *canvas) rect(class string, x, y, width, height float64) {
	fmt.Fprintf(c, "<rect class=%q x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class, x, y, width, height)
}

func (c *canvas) horizontal(class string, y float64) {
	fmt.Fprintf(c, "<line class=%q x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, plotMargin, y, plotWidth, y)
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// svg draws the plot.
func (p *plot) svg() string {
	height := headHeight + panelHeight*float64(len(p.panels)) + noteHeight
	c := &canvas{}
	fmt.Fprintf(c, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n", plotWidth, height)
	fmt.Fprintf(c, "<title>%s</title>\n<style>%s</style>\n", escape(p.title), plotStyle)
	c.text("title", 0, 20, p.title)
	p.legend(c)
	for i := range p.panels {
		p.panel(c, &p.panels[i], headHeight+panelHeight*float64(i))
	}
	c.text("note", 0, height-8, p.note)
	c.WriteString("</svg>\n")
	return c.String()
}

func (p *plot) legend(c *canvas) {
	x := plotMargin
	for i, name := range p.series {
		c.rect(p.class(i), x, 36, 11, 11)
		c.text("legend", x+16, 46, name)
		x += 40 + 7*float64(len(name))
	}
}

// class gives a series its colour.
func (p *plot) class(series int) string {
	if series == len(p.series)-1 {
		return "last"
	}
	return fmt.Sprint("s", series)
}

func (p *plot) panel(c *canvas, panel *panel, top float64) {
	bottom := top + panelHeight - panelFoot
	step, end := scale(panel.highest())
	y := func(value float64) float64 { return bottom - value/end*(bottom-top-panelTop) }

	c.text("panel", 0, top+16, panel.title)
	for tick := 0; float64(tick)*step <= end; tick++ {
		value := float64(tick) * step
		c.horizontal("grid", y(value))
		c.text("tick", plotMargin-6, y(value)+4, fmt.Sprintf("%.4g", value))
	}
	width := (plotWidth - plotMargin) / float64(len(panel.groups))
	each := width * (1 - gapShare) / float64(len(p.series))
	for i, g := range panel.groups {
		left := plotMargin + width*float64(i)
		c.text("group", left+width/2, bottom+18, g.name)
		for s, b := range g.bars {
			if b.drawn() {
				p.bar(c, s, b, left+width*gapShare/2+each*float64(s), each, y)
			}
		}
	}
	if panel.line != "" {
		c.horizontal("line", y(1))
		c.text("figure", plotWidth-20, y(1)-5, panel.line)
	}
}

func (p *plot) bar(c *canvas, series int, b bar, x, width float64, y func(float64) float64) {
	below := 0.0
	for i, part := range b {
		class := fmt.Sprintf("%s part%d", p.class(series), i)
		c.rect(class, x+1, y(below+part), width-2, y(below)-y(below+part))
		below += part
	}
	c.text("figure", x+width/2, y(below)-3, report.Digits(below))
}

func (p *panel) highest() float64 {
	highest := 0.0
	for _, g := range p.groups {
		for _, b := range g.bars {
			if b.drawn() {
				highest = max(highest, b.height())
			}
		}
	}
	return highest
}

// scale divides an axis that reaches a value: into steps of 1, 2 or 5 times a power of ten,
// at most 6 of them, the last of which is the end.
func scale(highest float64) (step, end float64) {
	if highest <= 0 {
		return 1, 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest))-1)
	for _, factor := range []float64{1, 2, 5, 10, 20} {
		step = factor * power
		if steps := math.Ceil(highest/step - 1e-9); steps <= 6 {
			return step, steps * step
		}
	}
	return step, math.Ceil(highest/step) * step
}
