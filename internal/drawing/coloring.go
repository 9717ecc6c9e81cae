package drawing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
)

// colors carry dark text. The first eight are Paul Tol's scheme "light"; each of the others is
// the one farthest from the colours before it and from the backgrounds, as people of any colour
// vision see them.
var colors = [...]string{
	"#77aadd", "#ee8866", "#eedd88", "#99ddff", "#44bb99", "#ffaabb", "#bbcc33", "#aaaa00", "#a264f6",
	"#a57a43", "#cc5ab5", "#5f8f7c", "#9b8df5", "#fa4c72", "#8acf89", "#84ffb7", "#5290d3",
}

// textures are lines upon a colour, for dtypes that none is left for.
var textures = [...]string{"", "M0 2h5", "M2 0v5", "M0 2h5M2 0v5", "M1 2h2M2 1v2"}

// shades are opacities of a colour. All parts of a quantized weight have one, and the parts of the next weight another.
var shades = [...]string{"1", ".8", ".62", ".45"}

// fill is a colour and a texture upon it, by which a picture shows a kind of tensors. Its number counts all of colors plain, then all
// with the first of textures that has lines, and so on.
type fill int

// class returns the CSS class of the elements that have fill f.
func (f fill) class() string { return "d" + strconv.Itoa(int(f)) }

// look returns the colour of f, as #rrggbb, and the lines upon it as a path of SVG, or "" if it has none.
func (f fill) look() (color, texture string) {
	return colors[int(f)%len(colors)], textures[int(f)/len(colors)]
}

// commonFills are the fills of frequent dtypes, so that they are the same in all pictures.
var commonFills = map[string]fill{
	"F32": 0, "Q8_0": 1, "Q4_K": 2, "BF16": 3, "F16": 4, "Q6_K": 5, "Q5_K": 6, "I32": 7, "I8": 8,
	"Q4_0": 9, "F8_E4M3": 10, "F64": 11, "Q3_K": 12, "U8": 13, "I64": 14, "Q2_K": 15, "MXFP4": 16,
}

// fillsOf returns a fill for each kind in lists: the fill in commonFills, or the first that no other kind has.
func fillsOf(lists ...[]report.Total) map[string]fill {
	kinds, fills := slices.Concat(lists...), make(map[string]fill)
	var taken [len(colors) * len(textures)]bool // there are fewer dtypes
	for _, t := range kinds {
		if f, ok := commonFills[t.Kind]; ok {
			fills[t.Kind], taken[f] = f, true
		}
	}
	for _, t := range kinds {
		if _, ok := fills[t.Kind]; !ok {
			f := fill(slices.Index(taken[:], false))
			fills[t.Kind], taken[f] = f, true
		}
	}
	return fills
}

// Coloring says how a map shows tensors, in place of a colour for each dtype.
type Coloring struct {
	Heading string                   // of the legend
	Kinds   []Kind                   // in the order of the legend
	Of      func(name string) int    // the kind of a tensor, as a position in Kinds
	Group   func(name string) string // the heading of a bracket over neighbours; "" for none
	// Label returns what stands in a cell in place of the name, and the end of that which a short label has at least.
	Label func(name string) (whole, end string)
}

// Kind is a kind of tensors. Its colours, in light and on dark screens, are #rrggbb.
type Kind struct{ Name, Color, Dark string }

// weightName returns the name of the tensor that t belongs to: the name of a quantized weight for its part p, else its own.
func weightName(t *layout.Tensor, p *part) string {
	if p != nil {
		return p.weight
	}
	return string(t.Name)
}

// kindOf returns the kind by which a tensor is coloured: the kind in the Coloring, or its scheme or dtype.
func (p *picture) kindOf(r *fileRange) string {
	switch {
	case p.Coloring != nil:
		return p.Coloring.Kinds[p.Coloring.Of(weightName(r.tensor, r.part))].Name
	case r.part != nil:
		return r.part.scheme
	}
	return r.tensor.DType.String()
}

// stylesOf returns the styles of cells that have fill f, and the styles of labels upon a Kind, in both of its colours. pattern is an element of
// SVG that the styles refer to, or "".
func (p *picture) stylesOf(f fill) (styles, pattern string) {
	if p.Coloring == nil {
		color, texture := f.look()
		if texture != "" {
			pattern = fmt.Sprintf(`<pattern id="f%d" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" fill="%s"/>`+
				`<path d="%s" stroke="#141a24" stroke-opacity=".55"/></pattern>`+"\n", f, color, texture)
			color = fmt.Sprintf("url(#f%d)", f)
		}
		return fmt.Sprintf("svg .d%d{fill:%s}", f, color), pattern
	}
	k := &p.Coloring.Kinds[f]
	upon := func(color string) string {
		return fmt.Sprintf("svg .d%d{fill:%s}svg .t%[1]d{fill:%[3]s}", f, color, inkUpon(color))
	}
	return upon(k.Color) + "@media (prefers-color-scheme:dark){" + upon(k.Dark) + "}", ""
}

// inkUpon returns black or white, whichever contrasts more with a colour.
func inkUpon(color string) string {
	var rgb [3]float64
	for i := range rgb {
		var c uint8
		fmt.Sscanf(color[1+2*i:], "%02x", &c)
		rgb[i] = math.Pow((float64(c)/255+0.055)/1.055, 2.4)
	}
	const middle = 0.179 // of equal contrast
	if 0.2126*rgb[0]+0.7152*rgb[1]+0.0722*rgb[2] < middle {
		return "#fff"
	}
	return "#000"
}

// Measures of brackets, in pixels.
const (
	bracketSpace = 12 // that brackets need above a row
	bracketAbove = 4  // above the row's top
	bracketFront = 8  // before a label
	bracketBack  = 4  // behind it
)

// bracketHeight returns what brackets add to the height of a row.
func (p *picture) bracketHeight() int {
	if p.Coloring == nil || p.Coloring.Group == nil {
		return 0
	}
	return bracketSpace
}

// groupOf returns the heading of the bracket over a cell: the heading of all its tensors, or "".
func (p *picture) groupOf(c *cell) string {
	group := ""
	for _, r := range c.ranges {
		if r.tensor == nil {
			continue
		}
		g := p.Coloring.Group(weightName(r.tensor, r.part))
		if g == "" || group != "" && g != group {
			return ""
		}
		group = g
	}
	return group
}

// brackets draws a bracket over each run of neighbours of one group.
func (f *fileMap) brackets() {
	if f.bracketHeight() == 0 {
		return
	}
	var path strings.Builder
	cells := f.cells
	for i := 0; i < len(cells); {
		group, first := f.groupOf(&cells[i]), i
		for i++; i < len(cells) && f.groupOf(&cells[i]) == group; i++ {
		}
		if group != "" {
			f.bracket(&path, group, cells[first].off(), cells[i-1].end())
		}
	}
	if path.Len() > 0 {
		fmt.Fprintf(f.w, `<path class="r" d="%s"/>`+"\n", path.String())
	}
}

// bracket draws the bracket over the bytes from off to end: a line in each row, its ends turned down where the group begins and
// ends. Where group does not fit, its last word stands: the number of a layer.
func (f *fileMap) bracket(path *strings.Builder, group string, off, end uint64) {
	for _, s := range f.segments(off, end) {
		y := s.y - bracketAbove
		if s.width < 3 {
			continue
		}
		line := s.x
		for _, label := range []string{group, group[strings.LastIndexByte(group, ' ')+1:]} {
			if width := bracketFront + letter*float64(widthInLetters(label)) + bracketBack; s.width >= width {
				f.text("j", s.x+bracketFront, y+2, label)
				line += width
				break
			}
		}
		fmt.Fprintf(path, "M%s %sv-3.5h%s", px(s.x+.5), px(y+3.5), px(min(5, s.width)))
		if s.x+s.width > line {
			fmt.Fprintf(path, "M%s %sH%sv3.5", px(line), px(y), px(s.x+s.width-.5))
		}
	}
}
