package drawing

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
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

// fill is how a dtype looks: a colour and a texture.
type fill int

const numFills = fill(len(colors) * len(textures)) // there are fewer dtypes

func (f fill) class() string { return "d" + strconv.Itoa(int(f)) }

func (f fill) color() string   { return colors[int(f)%len(colors)] }
func (f fill) texture() string { return textures[int(f)/len(colors)] }

// paint returns the value that a style has for f.
func (f fill) paint() string {
	if f.texture() == "" {
		return f.color()
	}
	return fmt.Sprintf("url(#f%d)", f)
}

// pattern defines what paint refers to, if it does.
func (f fill) pattern() string {
	if f.texture() == "" {
		return ""
	}
	return fmt.Sprintf(`<pattern id="f%d" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" fill="%s"/>`+
		`<path d="%s" stroke="#141a24" stroke-opacity=".55"/></pattern>`+"\n", f, f.color(), f.texture())
}

// usualFills are those of frequent dtypes, which look the same in two pictures then.
var usualFills = map[layout.DType]fill{
	layout.F32: 0, layout.Q8_0: 1, layout.Q4_K: 2, layout.BF16: 3, layout.F16: 4, layout.Q6_K: 5, layout.Q5_K: 6, layout.I32: 7, layout.I8: 8,
	layout.Q4_0: 9, layout.F8_E4M3: 10, layout.F64: 11, layout.Q3_K: 12, layout.U8: 13, layout.I64: 14, layout.Q2_K: 15, layout.MXFP4: 16,
}

// fillsOf hands out a fill to each dtype: its usual one, or the first that is free.
func fillsOf(lists ...[]report.Total) map[layout.DType]fill {
	dtypes := slices.Concat(lists...)
	fills := make(map[layout.DType]fill, len(dtypes))
	var taken [numFills]bool
	for _, t := range dtypes {
		if f, ok := usualFills[t.DType]; ok {
			fills[t.DType], taken[f] = f, true
		}
	}
	for _, t := range dtypes {
		if _, ok := fills[t.DType]; !ok {
			f := fill(slices.Index(taken[:], false))
			fills[t.DType], taken[f] = f, true
		}
	}
	return fills
}
