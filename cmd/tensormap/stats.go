package main

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/inspection"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

type statsOptions struct {
	listing[survey.TensorStats]
	bins    uint8
	bySigma bool // find histograms by σ, as is the default
}

// statsKeys are the values of --sort.
var statsKeys = []sortKey[survey.TensorStats]{
	{"max_sigma", func(s *survey.TensorStats) float64 { return scoreIf(s.Err == nil, s.MaxSigma) }},
	{"kurtosis", func(s *survey.TensorStats) float64 { return scoreIf(s.Err == nil, s.Kurtosis) }},
	{"std", func(s *survey.TensorStats) float64 { return scoreIf(s.Err == nil, s.Std) }},
	{"mean", func(s *survey.TensorStats) float64 { return scoreIf(s.Err == nil, s.Mean) }},
	{"min", func(s *survey.TensorStats) float64 { return scoreIf(s.Err == nil, s.Min) }},
	{"max", func(s *survey.TensorStats) float64 { return scoreIf(s.Err == nil, s.Max) }},
	{"zeros", func(s *survey.TensorStats) float64 { return float64(s.Zeros) / float64(s.Tensor.Elements()) }},
	{"nan", func(s *survey.TensorStats) float64 { return float64(s.NaN) }},
	{"size", func(s *survey.TensorStats) float64 { return float64(s.Tensor.StoredBytes()) }},
}

// statsCommand returns the verb stats.
func statsCommand() *cobra.Command {
	opts := statsOptions{listing: listing[survey.TensorStats]{keys: statsKeys, object: newStatsJSON, name: func(s *survey.TensorStats) string { return s.Tensor.Name() }}}
	cmd := verb("stats FILE [--sort KEY] [--top N] [--filter GLOB] [--bins N] [--json] [-j N]",
		"Show range, mean, deviation, outliers and histogram of every tensor",
		opts.run, "FILE")
	opts.listing.addTo(cmd)
	cmd.Flags().Uint8Var(&opts.bins, "bins", 0, "count values in `N` equal bins from least to greatest, by a second reading; 0 draws no histogram")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		opts.bySigma = opts.bins > 0 || !cmd.Flags().Changed("bins")
	}
	return cmd
}

// run writes statistics of each tensor of the model args[0]. It reports damaged tensors, and returns errReported then.
func (opts *statsOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	path := args[0]
	m, err := opts.openSelected(ctx, path, loader.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	o := opts.begin(s, "reading")
	var undecoded tensorReasons // rows of the table, which says no more than that
	opts.grid = func(rows []survey.TensorStats) *report.Grid {
		for _, t := range rows {
			if why := inspection.ProblemText(t.Tensor); why != "" && t.Err != nil {
				undecoded.add("not decoded", why, t.Tensor.Name())
			}
		}
		return statsGrid(rows)
	}
	if opts.asJSON {
		opts.json.Field("file", shownName(path))
		opts.json.Field("bins", opts.bins)
		opts.json.List("tensors")
	}
	so := survey.StatsOptions{Options: o, Bins: int(opts.bins), BySigma: opts.bySigma}
	err = survey.Stats(ctx, m, &so, func(t *survey.TensorStats) error {
		opts.add(t.Shown())
		return opts.count(t.Err, &t.Tensor)
	})
	if err == nil {
		opts.writeRest()
	}
	switch {
	case err != nil:
	case opts.asJSON:
		opts.json.Close()
	case opts.drawn == 0:
		opts.draw(nil)
	}
	err = opts.end(err)
	undecoded.write(s.Err)
	return err
}

// statsGrid returns a table with a row for each tensor. NaNs, infinities and histograms have columns if there are some.
func statsGrid(list []survey.TensorStats) *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", "dtype", ">shape", ">min", ">max", ">mean", ">std", ">max sigma", "at", ">kurtosis",
			">0.1%", ">1%", ">50%", ">99%", ">99.9%", ">zeros", ">nan", ">+inf", ">-inf", "histogram"},
		Spare: []string{"1%", "99%", "50%", "0.1%", "99.9%", "kurtosis", "zeros", "shape", "at", "dtype"},
		Last:  []string{"mean"},
	}
	some := func(n func(*survey.TensorStats) bool) bool {
		return slices.ContainsFunc(list, func(s survey.TensorStats) bool { return n(&s) })
	}
	if !some(func(s *survey.TensorStats) bool { return s.NaN > 0 }) {
		g.Hidden = append(g.Hidden, "nan")
	}
	if !some(func(s *survey.TensorStats) bool { return s.PosInf > 0 || s.NegInf > 0 }) {
		g.Hidden = append(g.Hidden, "+inf", "-inf")
	}
	if !some(func(s *survey.TensorStats) bool { return s.Histogram != nil || s.BySigma != nil || s.Err != nil }) {
		g.Hidden = append(g.Hidden, "histogram")
	}
	if !some(func(s *survey.TensorStats) bool { return s.Err != nil }) { // which stands there
		g.Last = append(g.Last, "histogram")
	}
	g.Last = append(g.Last, "min", "max")
	g.Rows = report.Rows(list, func(s *survey.TensorStats) []string {
		row := []string{report.Name(s.Tensor.Name()), report.Kind(s.Tensor), report.ShapeText(s.Tensor.Shape()),
			figure("%.4g", s.Min), figure("%.4g", s.Max), figure("%.4g", s.Mean), figure("%.4g", s.Std)}
		row = append(row, sigmaCells(s)...)
		row = append(row, report.Grouped(s.Zeros), report.Grouped(s.NaN), report.Grouped(s.PosInf), report.Grouped(s.NegInf))
		if s.Err != nil {
			row = append(row[:3], dashes(len(row)-3)...)
		}
		return append(row, histogramCell(s))
	})
	return g
}

// dashes returns n cells of figures that are not known.
func dashes(n int) []string { return slices.Repeat([]string{"–"}, n) }

// orDash returns cell if isKnown is true, and else a dash.
func orDash(isKnown bool, cell string) string {
	if !isKnown {
		return "–"
	}
	return cell
}

// histogramCell returns a drawing of the histogram of a tensor, or why there is none.
func histogramCell(s *survey.TensorStats) string {
	switch {
	case s.Err != nil && s.Tensor.Problem() != nil:
		return "not decoded"
	case isDamage(s.Err):
		return "damaged"
	case s.Err != nil:
		return "no values, only bytes"
	}
	if s.Histogram != nil {
		return sparkline(s.Histogram)
	}
	return sigmaSparkline(s.BySigma)
}

// sigmaCells returns the largest distance from the mean, its place, kurtosis and percentiles.
func sigmaCells(s *survey.TensorStats) []string {
	cells := dashes(3)
	if s.Err == nil && !math.IsNaN(s.MaxSigma) {
		cells = []string{figure("%.3g", s.MaxSigma), indexCell(s.MaxSigmaAt, s.Tensor.Shape()), figure("%.3g", s.Kurtosis)}
	}
	for _, p := range s.Percentiles {
		cells = append(cells, figure("%.3g", p))
	}
	return cells
}

// indexCell returns the coordinates of the element with the row-major number at, as dump takes them: [99, 856].
func indexCell(at uint64, shape []int) string {
	return report.IndexText(survey.Coordinates(at, shape))
}

// sigmaSparkline returns a bar of text for every three bins of a histogram by σ. Heights are logarithms, so that single values show too.
func sigmaSparkline(bins []uint64) string {
	var counts []uint64
	for group := range slices.Chunk(bins, 3) {
		n := uint64(0)
		for _, count := range group {
			n += count
		}
		counts = append(counts, uint64(math.Round(1000*math.Log2(float64(n+1)))))
	}
	return sparkline(counts)
}

// sparkline returns a bar of text for each count: a full block for the highest, a thin line at least for one that is not 0.
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

// newStatsJSON describes a tensor for stats --json. The names are a contract.
func newStatsJSON(s *survey.TensorStats) any {
	o := tensorObject(s.Tensor)
	o.Set("stats", nil)
	if s.Err == nil {
		o.Set("stats", newFiguresJSON(s))
	}
	if why := s.Tensor.Problem(); why != nil && s.Err != nil {
		o.Set("problem", why.Error())
	}
	if isDamage(s.Err) {
		o.Set("error", explain(s.Err))
	}
	return o
}

// newFiguresJSON describes what stats finds of the values of a tensor, which has some.
func newFiguresJSON(s *survey.TensorStats) layout.Metadata {
	percentiles := make(map[string]report.Real) // by percentage
	for i, percent := range survey.Percents {
		percentiles[strconv.FormatFloat(percent, 'g', -1, 64)] = report.Real(s.Percentiles[i])
	}
	o := report.Object("finite", s.Finite, "zeros", s.Zeros, "zero_rows", s.ZeroRows, "nan", s.NaN, "pos_inf", s.PosInf, "neg_inf", s.NegInf,
		"min", report.Real(s.Min), "max", report.Real(s.Max), "mean", report.Real(s.Mean), "std", report.Real(s.Std),
		"percentiles", percentiles, "max_sigma", report.Real(s.MaxSigma))
	if !math.IsNaN(s.MaxSigma) {
		addPlace(&o, "max_sigma_at", s.MaxSigmaAt, s.Tensor.Shape())
	}
	o.Set("kurtosis", report.Real(s.Kurtosis))
	if len(s.BySigma) > 0 {
		o.Set("sigma_histogram", s.BySigma)
	}
	if len(s.Histogram) > 0 {
		o.Set("histogram", s.Histogram)
	}
	return o
}

// addPlace adds to o the coordinates of the element with the row-major number at. A scalar has none.
func addPlace(o *layout.Metadata, key string, at uint64, shape []int) {
	if len(shape) > 0 {
		o.Set(key, survey.Coordinates(at, shape))
	}
}
