package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

const statsLong = `Stats goes through the values of all tensors: least, greatest, mean, standard deviation
(of the population), how many are zero, NaN or infinite, and a histogram. NaNs and
infinities are counted, and left out of all the rest. Values are what the elements stand
for, in float32 (F64 and integers of 32 and 64 bits: in float64). A type without values,
such as F4, has a line that says so.

A histogram has bins of equal width from the least to the greatest finite value; each has
its lower edge, the last one both. A value on its own looks like a thin line ▁, an empty
bin like nothing. It takes a second pass over each tensor: --bins 0 goes without it.

--json writes one JSON object: file, bins and tensors, each with name, dtype, shape,
elements and stats: finite, zeros, nan, pos_inf, neg_inf, min, max, mean, std, histogram.
stats is null for a type without values; min, max, mean and std are null where nothing is
finite. A damaged tensor has error instead, and the exit status is 1.

Memory does not grow with the model, and nothing that is printed depends on N. The time
it took is on standard error.`

type surveyOptions struct {
	opener
	json   bool
	filter glob
	jobs   jobs
}

// addTo declares the flags that stats, hash and diff have in common.
func (o *surveyOptions) addTo(cmd *cobra.Command) {
	o.opener.addTo(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs")
	cmd.Flags().Var(&o.filter, "filter", "only tensors whose name matches `GLOB` (see tensormap help inspect)")
	complete(cmd, "filter", completeFilter)
	o.jobs.addTo(cmd)
}

func (o *surveyOptions) with(bar *progress) survey.Options {
	opts := survey.Options{Workers: int(o.jobs), Progress: bar.update}
	if o.filter.pattern != "" {
		opts.Filter = o.filter.match
	}
	return opts
}

type statsOptions struct {
	surveyOptions
	bins uint8
}

func statsCommand() *cobra.Command {
	var opts statsOptions
	cmd := &cobra.Command{
		Use:   "stats FILE [--filter GLOB] [--bins N] [--json] [-j N]",
		Short: "Show range, mean, deviation and histogram of every tensor",
		Long:  statsLong,
		Args:  operands("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return stats(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &opts)
		},
		DisableFlagsInUseLine: true,
	}
	opts.addTo(cmd)
	cmd.Flags().Uint8Var(&opts.bins, "bins", 16, "draw histograms of `N` bins; 0 draws none")
	return cmd
}

func stats(ctx context.Context, stdout, stderr io.Writer, path string, opts *statsOptions) error {
	m, done, err := opts.open(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	bar := newProgress(stderr, "reading")
	begun := time.Now()
	list, err := survey.Stats(ctx, m, &survey.StatsOptions{Options: opts.with(bar), Bins: int(opts.bins)})
	took := time.Since(begun)
	bar.clear()
	if err := cmp.Or(err, opts.filter.matched(path, len(list))); err != nil {
		return err
	}
	w := bufio.NewWriter(stdout)
	if opts.json {
		err = writeStatsJSON(w, path, list, opts)
	} else {
		statsGrid(list).write(w, screenOf(stdout))
	}
	err = cmp.Or(err, w.Flush())
	noteCodes(stderr, m, func(yield func(string) bool) {
		for i := range list {
			if list[i].Err == nil && !yield(list[i].Tensor.Name()) {
				return
			}
		}
	})
	damaged := false
	bytes := uint64(0)
	for i := range list {
		if damage(list[i].Err) {
			damaged = true
			printError(stderr, list[i].Err)
		}
		bytes += list[i].Tensor.RawBytes()
	}
	return closing(stderr, damaged, err, len(list), bytes, took)
}

// damage tells damaged tensors from those whose type has no values.
func damage(err error) bool { return err != nil && !errors.Is(err, loader.ErrUnsupported) }

// closing ends a verb that goes through tensors: with the time that it took, if all went well.
func closing(stderr io.Writer, damaged bool, err error, tensors int, bytes uint64, took time.Duration) error {
	if damaged && (err == nil || errors.As(err, new(readerGone))) {
		return errReported
	}
	if err == nil {
		fmt.Fprintf(stderr, "%s, %s in %s, %s\n", plural(tensors, "tensor"), size(bytes), duration(took), speed(bytes, took))
	}
	return err
}

// statsGrid has columns for NaNs, infinities and histograms only where there are some.
func statsGrid(list []survey.TensorStats) *grid {
	g := &grid{
		heading: []string{"name", "dtype", "shape", "min", "max", "mean", "std", "zeros"},
		numbers: []bool{false, false, true, true, true, true, true, true},
		spare:   []string{"zeros", "shape", "dtype"},
	}
	some := func(n func(*survey.TensorStats) bool) bool {
		return slices.ContainsFunc(list, func(s survey.TensorStats) bool { return n(&s) })
	}
	nan := some(func(s *survey.TensorStats) bool { return s.NaN > 0 })
	inf := some(func(s *survey.TensorStats) bool { return s.PosInf > 0 || s.NegInf > 0 })
	last := some(func(s *survey.TensorStats) bool { return s.Histogram != nil || s.Err != nil })
	if nan {
		g.heading, g.numbers = append(g.heading, "nan"), append(g.numbers, true)
	}
	if inf {
		g.heading, g.numbers = append(g.heading, "+inf", "-inf"), append(g.numbers, true, true)
	}
	if last {
		g.heading, g.numbers = append(g.heading, "histogram"), append(g.numbers, false)
	}
	g.rows = func(yield func([]string) bool) {
		for i := range list {
			s := &list[i]
			row := append(tensorCells(s.Tensor), statsCells(s)...)
			if nan {
				row = append(row, tally(s, s.NaN))
			}
			if inf {
				row = append(row, tally(s, s.PosInf), tally(s, s.NegInf))
			}
			if last {
				row = append(row, histogramCell(s))
			}
			if !yield(row) {
				return
			}
		}
	}
	return g
}

// tensorCells are name, dtype and shape.
func tensorCells(t loader.Tensor) []string {
	info := tensorInfo{Name: t.Name(), Shape: t.Shape()}
	return []string{info.name(), t.DType().String(), info.shape()}
}

func statsCells(s *survey.TensorStats) []string {
	if s.Err != nil {
		return []string{"–", "–", "–", "–", "–"}
	}
	return []string{real4(s.Min), real4(s.Max), real4(s.Mean), real4(s.Std), grouped(s.Zeros)}
}

func tally(s *survey.TensorStats, n uint64) string {
	if s.Err != nil {
		return "–"
	}
	return grouped(n)
}

func histogramCell(s *survey.TensorStats) string {
	switch {
	case damage(s.Err):
		return "damaged"
	case s.Err != nil:
		return "no values, only bytes"
	}
	return sparkline(s.Histogram)
}

// real4 is f with four digits, and a dash for NaN, which stands for no value.
func real4(f float64) string {
	if math.IsNaN(f) {
		return "–"
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}

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

// tensorHead is what stats, hash and diff say in JSON of a tensor itself.
type tensorHead struct {
	Name     string       `json:"name"`
	DType    layout.DType `json:"dtype"`
	Shape    []uint64     `json:"shape"`
	Elements uint64       `json:"elements"`
}

func newTensorHead(t loader.Tensor) tensorHead {
	return tensorHead{t.Name(), t.DType(), orEmpty(t.Shape()), t.Elements()}
}

// statsJSON is a tensor of stats --json. The names are a contract.
type statsJSON struct {
	tensorHead
	Stats *valuesJSON `json:"stats"`
	Error string      `json:"error,omitempty"`
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

func newStatsJSON(s *survey.TensorStats) *statsJSON {
	j := &statsJSON{tensorHead: newTensorHead(s.Tensor)}
	switch {
	case damage(s.Err):
		j.Error = explain(s.Err)
	case s.Err == nil:
		j.Stats = &valuesJSON{s.Finite, s.Zeros, s.NaN, s.PosInf, s.NegInf,
			real(s.Min), real(s.Max), real(s.Mean), real(s.Std), s.Histogram}
	}
	return j
}

func writeStatsJSON(w io.Writer, path string, list []survey.TensorStats, opts *statsOptions) error {
	j := jsonLines{w: w}
	j.field("{\n", "file", called(path))
	j.field(",\n", "bins", opts.bins)
	writeRows(&j, "tensors", len(list), func(i int) any { return newStatsJSON(&list[i]) })
	return j.err
}

// writeRows writes the last field of an object, an array with a line for each element, and
// closes the object.
func writeRows(j *jsonLines, name string, n int, row func(i int) any) {
	j.text(",\n  \"" + name + "\": [")
	for i := range n {
		if i > 0 {
			j.text(",")
		}
		j.text("\n    ")
		j.value(row(i))
	}
	if n > 0 {
		j.text("\n  ")
	}
	j.text("]\n}\n")
}
