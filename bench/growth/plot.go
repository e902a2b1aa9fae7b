package main

import (
	"bytes"
	"image/color"
	"math"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// goal is the minimum ratio of a rate to that of the smallest size.
const goal = 0.85

// palette has colors that people with color blindness can tell apart, on white (P. Tol,
// "Colour schemes", muted).
var palette = []color.Color{
	rgb(0x332288), rgb(0x117733), rgb(0xcc6677), rgb(0x44aa99), rgb(0x882255),
	rgb(0xaa4499), rgb(0x999933), rgb(0x0077bb), rgb(0xee7733), rgb(0x555555),
}

func rgb(hex uint32) color.Color {
	return color.NRGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}
}

var gray = rgb(0x999999)

// newPlot returns a plot whose x axis is the number of entries.
func (r *results) newPlot(title string, fontSize vg.Length, label func(int) string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // picture draws it
	for _, style := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		style.Variant, style.Size = "Sans", fontSize
	}
	p.Title.Text = title
	p.Title.Padding = fontSize / 2
	p.X.Scale = plot.LogScale{}
	ticks := make(plot.ConstantTicks, len(r.Sizes))
	for i, s := range r.Sizes {
		ticks[i] = plot.Tick{Value: float64(s.Entries), Label: label(s.Entries)}
	}
	p.X.Tick.Marker = ticks
	return p
}

func (r *results) points(y func(size int) float64) (all plotter.XYs) {
	for i, s := range r.Sizes {
		all = append(all, plotter.XY{X: float64(s.Entries), Y: y(i)})
	}
	return all
}

// relative plots the rates of each request relative to the smallest size.
func (r *results) relative() ([]byte, error) {
	p := r.newPlot("Rate, relative to the smallest database ("+r.title()+")", 12, short)
	p.X.Label.Text, p.Y.Label.Text = "entries", "rate / rate at "+short(r.Sizes[0].Entries)+" entries"
	least, greatest := 0.5, 1.2
	dashed := plotter.NewFunction(func(float64) float64 { return goal })
	dashed.Color, dashed.Dashes, dashed.Width = gray, []vg.Length{4, 4}, 1
	p.Add(plotter.NewGrid(), dashed)
	legend := plot.NewLegend()
	legend.TextStyle, legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = p.Legend.TextStyle, true, true, 4, 24
	for i, row := range r.Rows {
		line, marks, err := plotter.NewLinePoints(r.points(row.ofSmallest))
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = palette[i%len(palette)], 2
		marks.Color, marks.Shape, marks.Radius = line.Color, shapes[i%len(shapes)], 3.5
		p.Add(line, marks)
		legend.Add(row.Name, line, marks)
		for n := range r.Sizes {
			least, greatest = min(least, row.ofSmallest(n)), max(greatest, row.ofSmallest(n))
		}
	}
	legend.Add("goal at the largest: 0.85", dashed)
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = least, greatest, tenths(least, greatest)
	return picture(820, 420, func(c draw.Canvas) {
		p.Draw(draw.Crop(c, 0, -220, 0, 0))
		legend.Draw(draw.Crop(c, 820-210, 0, 0, -30))
	}), nil
}

var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}}

// latencies plots the median and the 99th percentile of each request, one panel each, with
// a common scale.
func (r *results) latencies() ([]byte, error) {
	least, greatest := 1.0, 1.0 // in milliseconds
	for _, row := range r.Rows {
		for i := range r.Sizes {
			least, greatest = min(least, row.p50(i).Seconds()*1000), max(greatest, row.p99(i).Seconds()*1000)
		}
	}
	const across = 5
	panels := [][]*plot.Plot{}
	for i, row := range r.Rows {
		p := r.newPlot(row.Name, 9, shortest)
		p.Y.Scale, p.Y.Tick.Marker, p.Y.Min, p.Y.Max = plot.LogScale{}, decades(least, greatest), least, greatest
		p.Add(plotter.NewGrid())
		for n, value := range []func(int) float64{
			func(size int) float64 { return row.p50(size).Seconds() * 1000 },
			func(size int) float64 { return row.p99(size).Seconds() * 1000 },
		} {
			line, marks, err := plotter.NewLinePoints(r.points(value))
			if err != nil {
				return nil, err
			}
			line.Color, line.Width = palette[2*n], 2
			marks.Color, marks.Shape, marks.Radius = line.Color, shapes[n], 3
			p.Add(line, marks)
			if i == 0 {
				p.Legend.Add([]string{"median", "99th percentile"}[n], line, marks)
			}
		}
		p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, 2
		if i%across == 0 {
			p.Y.Label.Text = "milliseconds"
			panels = append(panels, nil)
		}
		panels[len(panels)-1] = append(panels[len(panels)-1], p)
	}
	if len(panels) == 0 {
		return nil, nil
	}
	for len(panels[len(panels)-1]) < len(panels[0]) {
		panels[len(panels)-1] = append(panels[len(panels)-1], nil)
	}
	return picture(1000, vg.Length(210*len(panels)), func(c draw.Canvas) {
		tiles := draw.Tiles{Rows: len(panels), Cols: len(panels[0]), PadX: 10, PadY: 14}
		for y, canvases := range plot.Align(panels, tiles, c) {
			for x, canvas := range canvases {
				if panels[y][x] != nil {
					panels[y][x].Draw(canvas)
				}
			}
		}
	}), nil
}

// tenths returns the ticks of a range of ratios.
func tenths(least, greatest float64) (ticks plot.ConstantTicks) {
	for n := int(math.Ceil(least * 10)); float64(n) <= greatest*10; n++ {
		ticks = append(ticks, plot.Tick{Value: float64(n) / 10, Label: strconv.FormatFloat(float64(n)/10, 'f', 1, 64)})
	}
	return ticks
}

// shortest formats a number in thousands or millions if it is a multiple.
func shortest(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}

// decades returns the ticks of a range of milliseconds.
func decades(least, greatest float64) (ticks plot.ConstantTicks) {
	for _, t := range []struct {
		value float64
		label string
	}{{0.1, "0.1"}, {0.3, "0.3"}, {1, "1"}, {3, "3"}, {10, "10"}, {30, "30"}, {100, "100"}, {300, "300"}, {1000, "1000"}} {
		if t.value >= least && t.value <= greatest {
			ticks = append(ticks, plot.Tick{Value: t.value, Label: t.label})
		}
	}
	return ticks
}

// picture returns an SVG with a white background, which stays legible on a dark page.
func picture(width, height vg.Length, f func(draw.Canvas)) []byte {
	svg := vgsvg.New(width, height)
	whole := draw.New(svg)
	whole.FillPolygon(color.White, whole.ClipPolygonXY([]vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}}))
	f(draw.Crop(whole, 12, -12, 10, -10))
	var b bytes.Buffer
	_, _ = svg.WriteTo(&b) // a bytes.Buffer never fails
	// A fallback font of the same width, for machines without this one.
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}

// draw writes the plots into a directory and returns their file names.
func (r *results) draw(dir string) (names []string, err error) {
	r.order()
	for _, p := range []struct {
		name string
		draw func() ([]byte, error)
	}{{r.name() + ".svg", r.relative}, {r.name() + "-latency.svg", r.latencies}} {
		text, err := p.draw()
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(dir+"/"+p.name, text, 0o644); err != nil {
			return nil, err
		}
		names = append(names, p.name)
	}
	return slices.Clip(names), nil
}

func (r *results) title() string {
	if r.Each > 0 {
		return r.Engine + ", " + short(r.Each) + " entries a tenant"
	}
	return r.Engine + ", one tenant"
}
