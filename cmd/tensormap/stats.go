package main

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/loader/survey"
)

type statsOptions struct {
	surveyOptions
	bins uint8
}

func statsCommand() *cobra.Command {
	var opts statsOptions
	cmd := verb("stats FILE [--filter GLOB] [--bins N] [--json] [-j N]",
		"Show range, mean, deviation and histogram of every tensor",
		opts.run, "FILE")
	opts.addTo(cmd)
	cmd.Flags().Uint8Var(&opts.bins, "bins", 16, "draw histograms of `N` bins; 0 draws none")
	return cmd
}

func (opts *statsOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	path := args[0]
	m, err := opts.openSelected(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, o := opts.begin(s, "reading")
	j := report.JSON{W: p.w}
	table := report.Pages[survey.TensorStats]{W: p.w, Draw: func(list []survey.TensorStats) { statsGrid(list).Write(p.w, terminal.ScreenOf(s.Out)) }}
	if opts.json {
		j.Field("file", called(path))
		j.Field("bins", opts.bins)
		j.List("tensors")
	}
	err = survey.Stats(ctx, m, &survey.StatsOptions{Options: o, Bins: int(opts.bins)}, func(t *survey.TensorStats) error {
		if opts.json {
			j.Row(newStatsJSON(t))
		} else {
			table.Add(*t)
		}
		return p.add(t.Err, &t.Tensor)
	})
	switch {
	case err != nil:
	case opts.json:
		j.Close()
	case table.Drawn == 0 || len(table.Rows) > 0:
		table.Flush()
	}
	return p.end(cmp.Or(err, j.Err))
}

// statsGrid returns a table with a row for each tensor. NaNs, infinities and histograms have columns only if there
// are some.
func statsGrid(list []survey.TensorStats) *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", "dtype", ">shape", ">min", ">max", ">mean", ">std", ">zeros"},
		Spare:   []string{"zeros", "shape", "dtype"},
	}
	some := func(n func(*survey.TensorStats) bool) bool {
		return slices.ContainsFunc(list, func(s survey.TensorStats) bool { return n(&s) })
	}
	nan := some(func(s *survey.TensorStats) bool { return s.NaN > 0 })
	inf := some(func(s *survey.TensorStats) bool { return s.PosInf > 0 || s.NegInf > 0 })
	last := some(func(s *survey.TensorStats) bool { return s.Histogram != nil || s.Err != nil })
	if nan {
		g.Heading = append(g.Heading, ">nan")
	}
	if inf {
		g.Heading = append(g.Heading, ">+inf", ">-inf")
	}
	if last {
		g.Heading = append(g.Heading, "histogram")
	}
	g.Rows = report.Rows(list, func(s *survey.TensorStats) []string {
		counts := []uint64{s.Zeros}
		if nan {
			counts = append(counts, s.NaN)
		}
		if inf {
			counts = append(counts, s.PosInf, s.NegInf)
		}
		t := s.Tensor
		row := []string{terminal.Name(t.Name()), report.Kind(t), report.ShapeText(t.Shape())}
		for _, f := range []float64{s.Min, s.Max, s.Mean, s.Std} {
			row = append(row, known(s.Err == nil, real4(f)))
		}
		for _, n := range counts {
			row = append(row, known(s.Err == nil, report.Grouped(n)))
		}
		if last {
			row = append(row, histogramCell(s))
		}
		return row
	})
	return g
}

// known returns cell if ok is true, and else a dash for an unknown value.
func known(ok bool, cell string) string {
	if !ok {
		return "–"
	}
	return cell
}

// histogramCell returns the histogram of a tensor, or why there is none.
func histogramCell(s *survey.TensorStats) string {
	switch {
	case s.Err != nil && s.Tensor.Problem() != nil:
		return "not decoded"
	case damage(s.Err):
		return "damaged"
	case s.Err != nil:
		return "no values, only bytes"
	}
	return sparkline(s.Histogram)
}

// real4 formats f with four digits. NaN stands for no value, and becomes a dash.
func real4(f float64) string { return known(!math.IsNaN(f), strconv.FormatFloat(f, 'g', 4, 64)) }

// sparkline draws counts: the highest as a full block, one at least as a thin line.
func sparkline(counts []uint64) string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	highest := slices.Max(append(counts, 1))
	var b strings.Builder
	for _, n := range counts {
		level := int(math.Round(float64(n) / float64(highest) * 8))
		if n > 0 {
			level = max(level, 1)
		}
		b.WriteRune(levels[level])
	}
	return b.String()
}

// real is a float64 in JSON: null for NaN, which stands for no value, and a string for an infinity.
type real float64

func (r real) MarshalJSON() ([]byte, error) {
	switch f := float64(r); {
	case math.IsNaN(f):
		return []byte("null"), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
}

// statsJSON is a tensor of stats --json. The names are a contract.
type statsJSON struct {
	tensorHead
	Stats   *valuesJSON `json:"stats"`
	Problem string      `json:"problem,omitempty"` // why codes are not decoded
	Error   string      `json:"error,omitempty"`
}

type valuesJSON struct {
	Finite    uint64   `json:"finite"`
	Zeros     uint64   `json:"zeros"`
	NaN       uint64   `json:"nan"`
	PosInf    uint64   `json:"pos_inf"`
	NegInf    uint64   `json:"neg_inf"`
	Min       real     `json:"min"`
	Max       real     `json:"max"`
	Mean      real     `json:"mean"`
	Std       real     `json:"std"`
	Histogram []uint64 `json:"histogram,omitempty"`
}

// newStatsJSON describes a tensor for stats --json.
func newStatsJSON(s *survey.TensorStats) *statsJSON {
	j := &statsJSON{tensorHead: newTensorHead(s.Tensor)}
	if err := s.Tensor.Problem(); err != nil && s.Err != nil {
		j.Problem = err.Error()
	}
	switch {
	case damage(s.Err):
		j.Error = explain(s.Err)
	case s.Err == nil:
		j.Stats = &valuesJSON{s.Finite, s.Zeros, s.NaN, s.PosInf, s.NegInf,
			real(s.Min), real(s.Max), real(s.Mean), real(s.Std), s.Histogram}
	}
	return j
}
