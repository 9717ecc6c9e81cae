package explore

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"

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
func (h *handler) maps(w http.ResponseWriter, r *http.Request) error {
	s, l, err := h.leaseFor(w, theModel)
	if err != nil {
		return err
	}
	defer l.Release()
	a := MapAnswer{Bys: []string{byPart, byType, bySigma, byMemory}}
	if len(s.answer.Types) < 2 {
		a.Bys = slices.DeleteFunc(a.Bys, func(by string) bool { return by == byType })
	}
	by := cmp.Or(r.URL.Query().Get("by"), byPart)
	if !slices.Contains(a.Bys, by) {
		return failed(http.StatusBadRequest, "A map of this model cannot be coloured by %q.", by)
	}
	err = h.tensors.do(r, func() (err error) {
		a.SVG, a.Note, err = h.drawing(s, by)
		return err
	})
	if err != nil {
		return err
	}
	return writeJSON(w, &a)
}

// drawing returns a map of s, coloured by a key of MapAnswer.Bys, and a note if there are no figures for it. It fails if what is in
// memory cannot be asked.
func (h *handler) drawing(s *shown, by string) (svg, note string, err error) {
	mm := drawing.New(s.model, s.answer.Title)
	mm.Number(func(name string) int { return s.numbers[name] })
	switch by {
	case byPart:
		mm.Color(s.coloring(byPart, partKinds(s.answer.Parts), s.partOf()))
	case bySigma:
		stats := h.known(s)
		if stats == nil {
			note = "The figures are not computed yet: open the overview first."
		}
		mm.Color(s.coloring("max in σ", sigmaKinds, func(number int) int { return sigmaKind(stats, number) }))
	case byType:
		// as the command draws it
	case byMemory:
		mm.Color(s.coloring("tensors", []drawing.Kind{{Name: "tensors", Color: "#a0c7de"}}, func(int) int { return 0 }))
		if err := mm.Measure(s.model); err != nil {
			return "", "", err
		}
	}
	var picture bytes.Buffer
	buf := bufio.NewWriter(&picture)
	drawing.WriteSVG(buf, mm)
	buf.Flush()
	return picture.String(), note, nil
}

// MapOptions tune WriteMap.
type MapOptions struct {
	Title    string
	Resident bool // show what is in memory now
}

// WriteMap writes a picture of where the bytes of the model that l holds are, as SVG. Types are the colours;
// or parts of the network, with brackets over layers, if a type has nearly all bytes. It reads no tensor. It fails if w does, or
// if what is in memory cannot be asked.
func WriteMap(w io.Writer, l *loader.Lease, opts MapOptions) error {
	mm := drawing.New(l.Model(), opts.Title)
	if s := newShown(l, "", ""); s.hasOneType() && len(s.answer.Parts) > 1 {
		mm.Color(s.coloring(byPart, partKinds(s.answer.Parts), s.partOf()))
	}
	if opts.Resident {
		if err := mm.Measure(l.Model()); err != nil {
			return err
		}
	}
	buf := bufio.NewWriter(w)
	drawing.WriteSVG(buf, mm)
	return buf.Flush()
}

// hasOneType reports whether a type has 99 % of the bytes of the tensors of s, so that colours for types would say nothing.
func (s *shown) hasOneType() bool {
	all := uint64(0)
	for _, t := range s.answer.Types {
		all += t.Bytes
	}
	return all > 0 && s.answer.Types[0].Bytes >= all-all/100
}

// coloring returns how a map shows the tensors of s: kinds by kindOf, brackets for layers, and roles in the cells of layers.
func (s *shown) coloring(heading string, kinds []drawing.Kind, kindOf func(number int) int) *drawing.Coloring {
	return &drawing.Coloring{Heading: heading, Kinds: kinds,
		Of: func(name string) int { return kindOf(s.numbers[name]) },
		Group: func(name string) string {
			if row := &s.rows[s.numbers[name]]; row.Layer >= 0 && row.Role != "" {
				return fmt.Sprintf("layer %d", row.Layer)
			}
			return ""
		},
		Label: func(name string) string {
			if row := &s.rows[s.numbers[name]]; row.Role != "" && row.Expert < 0 {
				return row.Role
			}
			return name
		},
	}
}

// partColors are the colours of parts of the network, the largest part first.
var partColors = []string{"#477db1", "#7cafd2", "#c5deeb", "#a0c7de", "#34649c", "#ebf5fa", "#5b96c6", "#254b87"}

// partKinds returns a kind for each part of the network.
func partKinds(parts []PartTotal) (kinds []drawing.Kind) {
	for i, p := range parts {
		kinds = append(kinds, drawing.Kind{Name: p.Part, Color: partColors[i%len(partColors)]})
	}
	return kinds
}

// partOf returns the function from tensors to the position of their part in the answer.
func (s *shown) partOf() func(number int) int {
	at := make(map[string]int)
	for i, p := range s.answer.Parts {
		at[p.Part] = i
	}
	return func(number int) int { return at[s.rows[number].Part] }
}

// sigmaKinds are the kinds of tensors by their largest distance from the mean.
var sigmaKinds = []drawing.Kind{
	{Name: "128 σ and more", Color: "#722040"}, {Name: "64 to 128 σ", Color: "#923842"}, {Name: "32 to 64 σ", Color: "#af5241"},
	{Name: "16 to 32 σ", Color: "#d89359"}, {Name: "8 to 16 σ", Color: "#e1b784"}, {Name: "below 8 σ", Color: "#faf6e6"},
	{Name: "no figure", Color: "#d5dae2"},
}

// sigmaKind returns the position in sigmaKinds of a tensor.
func sigmaKind(stats []*TensorStat, number int) int {
	const noFigure = 6
	if number >= len(stats) || stats[number] == nil {
		return noFigure
	}
	for i, least := range []Real{128, 64, 32, 16, 8, 0} {
		if stats[number].MaxSigma >= least {
			return i
		}
	}
	return noFigure
}
