package report

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// bar is one figure of a plot.
type bar struct {
	label string
	value float64
	color string
}

// group are bars that are compared with each other: one scenario.
type group struct {
	label string
	bars  []bar
}

// plot is a chart of horizontal bars. Each group has its own scale, since figures
// of different scenarios differ by orders of magnitude.
type plot struct {
	title, unit string
	groups      []group
}

const (
	barHeight  = 16
	groupSpace = 12
	titleSpace = 44
	left       = 210 // of the bars; labels are before
	longestBar = 380
	width      = left + longestBar + 130
)

// svg draws the plot. Colours are readable on light and dark pages.
func (p plot) svg() string {
	var b strings.Builder
	y := titleSpace
	for _, g := range p.groups {
		y = g.draw(&b, y, p.unit)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="10" y="24" font-size="15" font-weight="bold">%s</text>
%s</svg>
`, width, y, html.EscapeString(p.title), b.String())
}

func (g group) draw(b *strings.Builder, y int, unit string) int {
	longest := 0.0
	for _, x := range g.bars {
		longest = max(longest, x.value)
	}
	fmt.Fprintf(b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", y+12, html.EscapeString(g.label))
	for _, x := range g.bars {
		w := 1.0
		if longest > 0 {
			w = max(w, x.value/longest*longestBar)
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-6, y+12, html.EscapeString(x.label))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, y+1, w, barHeight-2, x.color)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s %s</text>`+"\n", left+w+6, y+12, figure(x.value), html.EscapeString(unit))
		y += barHeight
	}
	return y + groupSpace
}

var colors = map[string]string{"waypoint": "#2a7f62", "envoy": "#b0482f", "base": "#777"}

// chart makes a plot of what of reads, in every scenario that has it.
func (r *Report) chart(title, unit string, of value) plot {
	p := plot{title: title, unit: unit}
	for _, x := range r.Results {
		v, ok := of(&x)
		if !ok || v == 0 {
			continue
		}
		if n := len(p.groups); n == 0 || p.groups[n-1].label != x.Scenario {
			p.groups = append(p.groups, group{label: x.Scenario})
		}
		g := &p.groups[len(p.groups)-1]
		g.bars = append(g.bars, bar{x.name(), v, colors[x.Target]})
	}
	return p
}

// WritePlots writes the plots into dir.
func (r *Report) WritePlots(dir string) error {
	for name, p := range map[string]plot{
		"cpu.svg":     r.chart("CPU time per request, least of all rounds (shorter is better)", "us", cpu),
		"bulk.svg":    r.chart("CPU time per GB (shorter is better)", "ms", perGB),
		"latency.svg": r.chart("Latency, 99th percentile (shorter is better)", "ms", p99),
		"rate.svg":    r.chart("Requests a second, load tool and node proxy on the same cores (longer is better)", "/s", rate),
		"memory.svg":  r.chart("Resident memory, peak under load (shorter is better)", "MiB", peak),
		"streams.svg": r.chart("Memory per idle inner connection that has carried a request (shorter is better)", "KiB", usedStream),
	} {
		if len(p.groups) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.svg()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
