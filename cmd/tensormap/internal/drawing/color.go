package drawing

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
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

// shades are opacities of a colour. All parts of a quantized weight have one, and those of the next weight
// another.
var shades = [...]string{"1", ".8", ".62", ".45"}

// look is the number of a colour and a texture, by which a picture shows a dtype.
type look int

const numLooks = look(len(colors) * len(textures)) // there are fewer dtypes

// class returns the class that elements of the look have in a picture.
func (f look) class() string { return "d" + strconv.Itoa(int(f)) }

func (f look) color() string   { return colors[int(f)%len(colors)] }
func (f look) texture() string { return textures[int(f)/len(colors)] }

// paint returns the value that a style has for f.
func (f look) paint() string {
	if f.texture() == "" {
		return f.color()
	}
	return fmt.Sprintf("url(#f%d)", f)
}

// pattern returns the definition that paint refers to, or "".
func (f look) pattern() string {
	if f.texture() == "" {
		return ""
	}
	return fmt.Sprintf(`<pattern id="f%d" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" fill="%s"/>`+
		`<path d="%s" stroke="#141a24" stroke-opacity=".55"/></pattern>`+"\n", f, f.color(), f.texture())
}

// commonLooks are the looks of frequent kinds, so that they are the same in all pictures.
var commonLooks = map[string]look{
	"F32": 0, "Q8_0": 1, "Q4_K": 2, "BF16": 3, "F16": 4, "Q6_K": 5, "Q5_K": 6, "I32": 7, "I8": 8,
	"Q4_0": 9, "F8_E4M3": 10, "F64": 11, "Q3_K": 12, "U8": 13, "I64": 14, "Q2_K": 15, "MXFP4": 16,
}

// looksOf returns a look for each kind: its common one, or the first that no other kind has.
func looksOf(lists ...[]report.Total) map[string]look {
	kinds := slices.Concat(lists...)
	looks := make(map[string]look, len(kinds))
	var taken [numLooks]bool
	for _, t := range kinds {
		if f, ok := commonLooks[t.Kind]; ok {
			looks[t.Kind], taken[f] = f, true
		}
	}
	for _, t := range kinds {
		if _, ok := looks[t.Kind]; !ok {
			f := look(slices.Index(taken[:], false))
			looks[t.Kind], taken[f] = f, true
		}
	}
	return looks
}
