package explore

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/drawing"
	"github.com/tensormap/tensormap/loader"
)

// Ways to colour a map.
const (
	byPart   = "part"
	byType   = "dtype"
	bySigma  = "sigma"
	byMemory = "memory"
)

// maps answers data/map.
func (h *handler) maps(r *request) (any, error) {
	a := answer.MapAnswer{Bys: []string{byPart, byType, bySigma, byMemory}}
	if len(r.shown.answer.Types) < 2 {
		a.Bys = slices.DeleteFunc(a.Bys, func(by string) bool { return by == byType })
	}
	by, format := cmp.Or(r.query.Get("by"), byPart), drawing.Wide
	if r.query.Has("narrow") {
		format = drawing.Narrow
	}
	if !slices.Contains(a.Bys, by) {
		return nil, failed(http.StatusBadRequest, "A map of this model cannot be coloured by %q.", by)
	}
	return inTurn(r.ctx, h.tensors, func() (_ any, err error) {
		a.SVG, a.Note, err = h.drawing(r.shown, by, format)
		return &a, err
	})
}

// drawing returns a map of s in a format, coloured by a key of MapAnswer.Bys, and a note if there are no figures for it. It fails if
// what is in memory cannot be asked.
func (h *handler) drawing(s *shown, by string, format *drawing.Format) (svg, note string, err error) {
	opts := &drawing.Options{Format: format, Title: s.answer.Title, NumberOf: func(name string) int { return s.numbers[name] }, Resident: by == byMemory}
	switch by {
	case byPart:
		opts.Coloring = s.byParts()
	case bySigma:
		stats := h.known(s)
		if stats == nil {
			note = "The figures are not computed yet: open the overview first."
		}
		opts.Coloring = s.coloring("max in σ", sigmaKinds, func(number int) int { return sigmaKind(stats, number) })
	case byType:
		kinds, at := []drawing.Kind{}, make(map[string]int)
		for i, t := range s.answer.Types {
			kinds, at[t.Type] = append(kinds, toned(t.Type, t.Tone)), i
		}
		opts.Coloring = s.coloring(byType, kinds, func(number int) int { return at[s.rows[number].Type] })
	case byMemory:
		opts.Coloring = s.coloring("tensors", []drawing.Kind{toned("tensors", 0.25)}, func(int) int { return 0 })
	}
	var picture bytes.Buffer
	buf := bufio.NewWriter(&picture)
	err = drawing.WriteSVG(buf, s.model, opts)
	buf.Flush()
	return picture.String(), note, err
}

// MapOptions tune WriteMap.
type MapOptions struct {
	Title    string
	Resident bool // show what is in memory now
}

// WriteMap writes a picture of where the bytes of the model that l holds are, as SVG. Colours stand for dtypes. If one dtype has
// nearly all bytes, they stand for parts of the network, with brackets over layers. WriteMap reads no tensor. It fails if w
// does, or if opts.Resident is set and what is in memory cannot be told.
func WriteMap(w io.Writer, l *loader.Lease, opts MapOptions) error {
	do := &drawing.Options{Format: drawing.Wide, Title: opts.Title, Resident: opts.Resident}
	s := newShown(l, "", "")
	hasOneType := s.stored > 0 && s.answer.Types[0].Bytes >= s.stored-s.stored/100 // so that colours for types would say nothing
	if hasOneType && len(s.answer.Parts) > 1 {
		do.Coloring = s.byParts()
	}
	buf := bufio.NewWriter(w)
	err := drawing.WriteSVG(buf, l.Model(), do)
	return cmp.Or(err, buf.Flush())
}

// coloring returns how a map shows the tensors of s: kinds by kindOf, brackets for layers, and roles in the cells of layers.
func (s *shown) coloring(heading string, kinds []drawing.Kind, kindOf func(number int) int) *drawing.Coloring {
	roles := s.rolesByEnd()
	endOf := func(whole string, others int) string { // the shortest one that stands for no other role
		least := whole
		for end, ok := whole, true; ok && roles[end] <= others; _, end, ok = strings.Cut(end, ".") {
			least = end
		}
		return least
	}
	return &drawing.Coloring{Heading: heading, Kinds: kinds,
		Of: func(name string) int { return kindOf(s.numbers[name]) },
		Group: func(name string) string {
			if row := &s.rows[s.numbers[name]]; row.Layer >= 0 && row.Role != "" {
				return fmt.Sprintf("layer %d", row.Layer)
			}
			return ""
		},
		Label: func(name string) (whole, end string) {
			row := &s.rows[s.numbers[name]]
			switch {
			case row.Expert >= 0:
				return name, ""
			case row.Role == "":
				return name, endOf(strings.TrimSuffix(name, ".weight"), 0)
			}
			return row.Role, endOf(row.Role, 1)
		},
	}
}

// rolesByEnd counts the roles of s by each of their ends behind a dot, and by their whole.
func (s *shown) rolesByEnd() map[string]int {
	counts, seen := make(map[string]int), make(map[string]bool)
	for i := range s.rows {
		role := s.rows[i].Role
		for end, ok := role, role != "" && !seen[role]; ok; _, end, ok = strings.Cut(end, ".") {
			counts[end]++
		}
		seen[role] = true
	}
	return counts
}

// Stops of the page's scale of amounts, from low to high, in light and on dark screens: see scale.js.
var (
	amounts     = strings.Fields("#ebf5fa #c5deeb #a0c7de #7cafd2 #5b96c6 #477db1 #34649c #254b87 #183372")
	darkAmounts = strings.Fields("#1f2532 #2a3a50 #34506f #3b6890 #3e82b1 #569bc5 #6fb5d9 #8ad0ed #aee9fe")
)

// toneOf returns the place on the scale of amounts of the i-th largest part or type. The largest differ most, in grey as well.
func toneOf(i int) answer.Real {
	tones := [...]answer.Real{0.75, 0.5, 0.25, 1, 0.625, 0.375, 0.875, 0.125}
	return tones[min(i, len(tones)-1)]
}

// toned returns a kind of tensors whose colour is a stop of the scale of amounts.
func toned(name string, tone answer.Real) drawing.Kind {
	return drawing.Kind{Name: name, Color: amounts[int(8*tone)], Dark: darkAmounts[int(8*tone)]}
}

// byParts returns the colouring by parts of the network.
func (s *shown) byParts() *drawing.Coloring {
	kinds, at := []drawing.Kind{}, make(map[string]int)
	for i, p := range s.answer.Parts {
		kinds, at[p.Part] = append(kinds, toned(p.Part, p.Tone)), i
	}
	return s.coloring(byPart, kinds, func(number int) int { return at[s.rows[number].Part] })
}

// sigmaKinds are the kinds of tensors by their largest distance from the mean, in stops of the page's scale of what is odd.
var sigmaKinds = []drawing.Kind{
	{Name: "128 σ and more", Color: "#722040", Dark: "#f1c170"}, {Name: "64 to 128 σ", Color: "#923842", Dark: "#e2a159"},
	{Name: "32 to 64 σ", Color: "#af5241", Dark: "#cf8148"}, {Name: "16 to 32 σ", Color: "#d89359", Dark: "#984d45"},
	{Name: "8 to 16 σ", Color: "#e1b784", Dark: "#743c43"}, {Name: "below 8 σ", Color: "#faf6e6", Dark: "#301f29"},
	{Name: "no figure", Color: "#d5dae2", Dark: "#2b343f"},
}

// sigmaKind returns the position in sigmaKinds of a tensor.
func sigmaKind(stats []*answer.TensorStat, number int) int {
	const noFigure = 6
	if number >= len(stats) || stats[number] == nil {
		return noFigure
	}
	for i, least := range []answer.Real{128, 64, 32, 16, 8, 0} {
		if stats[number].MaxSigma >= least {
			return i
		}
	}
	return noFigure
}
