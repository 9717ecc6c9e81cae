package survey_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// expectations are NumPy's, by tensor: see testdata/gen_survey.py.
type expectations struct {
	Stats   map[string]*expectedStats `json:"stats"`
	Digests map[string]struct {
		Stored string  `json:"stored"`
		Values *string `json:"values"`
	} `json:"digests"`
	TotalValues string                     `json:"total_values"`
	TotalStored string                     `json:"total_stored"`
	Pairs       map[string]json.RawMessage `json:"pairs"`
}

type expectedStats struct {
	Finite    uint64   `json:"finite"`
	Zeros     uint64   `json:"zeros"`
	NaN       uint64   `json:"nan"`
	PosInf    uint64   `json:"pos_inf"`
	NegInf    uint64   `json:"neg_inf"`
	Min       *number  `json:"min"`
	Max       *number  `json:"max"`
	Mean      *number  `json:"mean"`
	Std       *number  `json:"std"`
	Histogram []uint64 `json:"histogram"`
}

// number is a float64 that may be written as "NaN", "Infinity" or "-Infinity".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"NaN"`:
		*n = number(math.NaN())
	case `"Infinity"`:
		*n = number(math.Inf(1))
	case `"-Infinity"`:
		*n = number(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
}

// or is the number, or NaN where there is none.
func (n *number) or() float64 {
	if n == nil {
		return math.NaN()
	}
	return float64(*n)
}

func expected(t *testing.T) (e expectations) {
	t.Helper()
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatal(err)
	}
	if len(e.Stats) < 25 || len(e.Digests) != len(e.Stats) || len(e.Pairs) != len(e.Stats)+1 {
		t.Fatal("expectations are missing")
	}
	return e
}

func open(t testing.TB, path string, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := loader.Open(path, opts)
	return modeltest.Opened(t, m, err)
}

func openBytes(t testing.TB, b []byte) *loader.Model {
	t.Helper()
	m, err := loader.OpenBytes(b, nil)
	return modeltest.Opened(t, m, err)
}

const modelA, modelB = "testdata/a.safetensors", "testdata/b.safetensors"

// near allows for a difference in the last digits, in units of scale: of a sum, what is
// summed.
func near(got, want, scale float64) bool {
	return got == want || math.IsNaN(got) && math.IsNaN(want) ||
		math.Abs(got-want) <= 1e-13*max(math.Abs(want), scale)
}

func TestStats(t *testing.T) {
	want := expected(t).Stats
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		stats, err := allStats(context.Background(), open(t, modelA, opts), &survey.StatsOptions{Bins: 16})
		if err != nil {
			t.Fatal(err)
		}
		if len(stats) != len(want) {
			t.Fatalf("%d tensors, want %d", len(stats), len(want))
		}
		for _, got := range stats {
			checkStats(t, got, want[got.Tensor.Name()])
		}
	}
}

func checkStats(t *testing.T, got survey.TensorStats, want *expectedStats) {
	t.Helper()
	if want == nil {
		if !isUnsupported(got.Err) || got.Histogram != nil || got.Finite != 0 {
			t.Errorf("%s: %+v, want no values", got.Tensor.Name(), got)
		}
		return
	}
	if got.Err != nil {
		t.Error(got.Err)
		return
	}
	if got.Finite != want.Finite || got.Zeros != want.Zeros || got.NaN != want.NaN || got.PosInf != want.PosInf ||
		got.NegInf != want.NegInf || !slices.Equal(got.Histogram, want.Histogram) {
		t.Errorf("%s: %+v, want %+v", got.Tensor.Name(), got, *want)
	}
	if !near(got.Min, want.Min.or(), 0) || !near(got.Max, want.Max.or(), 0) ||
		!near(got.Std, want.Std.or(), 0) || !near(got.Mean, want.Mean.or(), want.Std.or()) {
		t.Errorf("%s: min %v, max %v, mean %v, std %v; want %v, %v, %v, %v", got.Tensor.Name(), got.Min, got.Max, got.Mean, got.Std,
			want.Min.or(), want.Max.or(), want.Mean.or(), want.Std.or())
	}
}

func TestHash(t *testing.T) {
	want := expected(t)
	for _, asked := range []*survey.HashOptions{{Values: true, Stored: true}, {Values: true}, {Stored: true}, {}, nil} {
		digests, err := allDigests(context.Background(), open(t, modelA, nil), asked)
		if err != nil || len(digests) != len(want.Digests) {
			t.Fatalf("%d digests; %v", len(digests), err)
		}
		var opts survey.HashOptions
		if asked != nil {
			opts = *asked
		}
		opts.Values = opts.Values || !opts.Stored // the default
		for _, d := range digests {
			w := want.Digests[d.Tensor.Name()]
			values, stored := text(d.Values), text(d.Stored)
			wantValues, wantStored := "", ""
			if opts.Values && w.Values != nil {
				wantValues = *w.Values
			}
			if opts.Stored || wantValues == "" {
				wantStored = w.Stored
			}
			if d.Err != nil || values != wantValues || stored != wantStored {
				t.Errorf("%s, %+v: %v %q %q, want %q %q", d.Tensor.Name(), opts, d.Err, values, stored, wantValues, wantStored)
			}
		}
		if opts.Values {
			if total, ok := modelDigest(digests).Values(); !ok || total.String() != want.TotalValues {
				t.Errorf("values: %v %v, want %v", total, ok, want.TotalValues)
			}
		}
		total, ok := modelDigest(digests).Stored()
		if ok != opts.Stored || ok && total.String() != want.TotalStored {
			t.Errorf("stored: %v %v, want %v", total, ok, want.TotalStored)
		}
	}
}

// Without options the digests are those of the values.
func TestHashDefault(t *testing.T) {
	m := open(t, modelA, nil)
	want, err := allDigests(context.Background(), m, &survey.HashOptions{Values: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := allDigests(context.Background(), m, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func text(d *survey.Digest) string {
	if d == nil {
		return ""
	}
	return d.String()
}

type expectedPair struct {
	Only        string `json:"only"`
	Shape       bool   `json:"shape"`
	Same        *bool  `json:"same"`
	Differing   *uint64
	Unmatched   uint64
	UnmatchedAt uint64 `json:"unmatched_at"`
	MaxAbs      number `json:"max_abs"`
	MaxAbsAt    uint64 `json:"max_abs_at"`
	MaxRel      number `json:"max_rel"`
	MaxRelAt    uint64 `json:"max_rel_at"`
	RMSE        number
	Cosine      number
}

func TestCompare(t *testing.T) {
	pairs, err := allPairs(context.Background(), open(t, modelA, nil), open(t, modelB, &loader.Options{NoMap: true}), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := expected(t)
	if len(pairs) != len(e.Pairs) {
		t.Fatalf("%d pairs, want %d", len(pairs), len(e.Pairs))
	}
	for _, p := range pairs {
		var want expectedPair
		if err := json.Unmarshal(e.Pairs[p.Name], &want); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		checkPair(t, p, &want)
	}
}

func checkPair(t *testing.T, p survey.Pair, want *expectedPair) {
	t.Helper()
	if p.Err != nil || (p.A == nil) != (want.Only == "B") || (p.B == nil) != (want.Only == "A") || p.SameShape != want.Shape ||
		want.Same != nil && p.SameElements != *want.Same {
		t.Errorf("%+v, want %+v", p, want)
		return
	}
	if want.Differing == nil {
		compared := want.Same != nil && *want.Same
		if p.Compared != compared || p.Differing != 0 || compared == math.IsNaN(p.Cosine()) || compared && (p.Cosine() != 1 || p.Identical() != slices.Equal(p.A.Shape(), p.B.Shape())) {
			t.Errorf("%+v, want %+v", p, want)
		}
		return
	}
	if !p.Compared || p.Differing != *want.Differing || p.Unmatched != want.Unmatched || p.UnmatchedAt != want.UnmatchedAt ||
		p.MaxAbs != float64(want.MaxAbs) || p.MaxAbsAt != want.MaxAbsAt || p.MaxRel != float64(want.MaxRel) || p.MaxRelAt != want.MaxRelAt {
		t.Errorf("%s: %+v, want %+v with %d", p.Name, p, want, *want.Differing)
	}
	if !near(p.RMSE(), float64(want.RMSE), 0) || !near(p.Cosine(), float64(want.Cosine), 0) {
		t.Errorf("%s: RMSE %v, cosine %v; want %v, %v", p.Name, p.RMSE(), p.Cosine(), want.RMSE, want.Cosine)
	}
	if p.Identical() || p.Within(float64(want.MaxAbs)) != (want.Unmatched == 0) || want.MaxAbs > 0 && p.Within(float64(want.MaxAbs)*0.999) {
		t.Errorf("%s: identical %v", p.Name, p.Identical())
	}
}

// The number of workers shows nowhere, to the last bit.
func TestWorkers(t *testing.T) {
	a, b := open(t, modelA, nil), open(t, modelB, nil)
	large := largeModel(t)
	all := func(workers int) string {
		o := survey.Options{Workers: workers}
		var lines []string
		for _, m := range []*loader.Model{a, large} {
			stats, err := allStats(context.Background(), m, &survey.StatsOptions{Options: o, Bins: 20})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range stats {
				s.Tensor = loader.Tensor{}
				lines = append(lines, describe(s))
			}
		}
		for _, m := range [][2]*loader.Model{{a, b}, {large, openBytes(t, changed(t))}} {
			pairs, err := allPairs(context.Background(), m[0], m[1], &o)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range pairs {
				p.A, p.B = nil, nil
				lines = append(lines, describe(p))
			}
		}
		digests, err := allDigests(context.Background(), a, &survey.HashOptions{Options: o, Values: true, Stored: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range digests {
			lines = append(lines, d.Tensor.Name()+text(d.Values)+text(d.Stored))
		}
		return strings.Join(lines, "\n")
	}
	want := all(1)
	for _, workers := range []int{0, 3} {
		if got := all(workers); got != want {
			t.Errorf("%d workers:\n%s\n%s", workers, got, want)
		}
	}
}
