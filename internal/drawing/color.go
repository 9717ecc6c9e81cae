package drawing

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/internal/report"
)

// colors carry dark text. The first eight are Paul Tol's scheme "light"; each of the others is
// the one farthest from those before it and from the backgrounds, as people of any colour
// vision see them.
var colors = [...]string{
	"#77aadd", "#ee8866", "#eedd88", "#99ddff", "#44bb99", "#ffaabb", "#bbcc33", "#aaaa00", "#a264f6",
	"#a57a43", "#cc5ab5", "#5f8f7c", "#9b8df5", "#fa4c72", "#8acf89", "#84ffb7", "#5290d3",
}

// textures are lines upon a colour, for dtypes that none is left for.
var textures = [...]string{"", "M0 2h5", "M2 0v5", "M0 2h5M2 0v5", "M1 2h2M2 1v2"}

// shades are opacities of a colour. All parts of a quantized weight have one, and those of the next weight another.
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

// css returns the value of the CSS property fill for f: its colour, or a reference to pattern, an element of SVG.
func (f fill) css() (value, pattern string) {
	color, texture := f.look()
	if texture == "" {
		return color, ""
	}
	return fmt.Sprintf("url(#f%d)", f), fmt.Sprintf(`<pattern id="f%d" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" fill="%s"/>`+
		`<path d="%s" stroke="#141a24" stroke-opacity=".55"/></pattern>`+"\n", f, color, texture)
}

// commonFills are the fills of frequent dtypes, so that they are the same in all pictures.
var commonFills = map[string]fill{
	"F32": 0, "Q8_0": 1, "Q4_K": 2, "BF16": 3, "F16": 4, "Q6_K": 5, "Q5_K": 6, "I32": 7, "I8": 8,
	"Q4_0": 9, "F8_E4M3": 10, "F64": 11, "Q3_K": 12, "U8": 13, "I64": 14, "Q2_K": 15, "MXFP4": 16,
}

// fillsOf returns a fill for each kind in lists: that of commonFills, or the first that no other kind has.
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
