package survey_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/survey"
)

// figures are NumPy's, by tensor: see testdata/gen_figures.py.
type figures struct {
	Stats map[string]struct {
		Percentiles [len(survey.Percents)]float64
		MaxSigma    float64 `json:"max_sigma"`
		MaxSigmaAt  uint64  `json:"max_sigma_at"`
		Kurtosis    float64
		BySigma     []uint64 `json:"by_sigma"`
	}
	Pairs map[string]struct {
		DB          *number
		RelativeRMS *number `json:"relative_rms"`
		Cosine      *number
	}
}

func expectedFigures(t *testing.T) (f figures) {
	t.Helper()
	text, err := os.ReadFile("testdata/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Stats) < 20 || len(f.Pairs) < 5 {
		t.Fatal("expectations are missing")
	}
	return f
}

// TestFigures holds figures to NumPy's, within the bounds that TensorStats states.
func TestFigures(t *testing.T) {
	want := expectedFigures(t).Stats
	stats, err := allStats(context.Background(), open(t, modelA, nil), &survey.StatsOptions{BySigma: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, got := range stats {
		name := got.Tensor.Name()
		w, ok := want[name]
		if !ok {
			continue
		}
		seen++
		for i, p := range w.Percentiles {
			from := 0.0
			if math.Abs(got.Mean) > 4*got.Std {
				from = got.Mean
			}
			bound := math.Abs(p-from)/128 + 1e-12*math.Abs(p) + 0x1p-133
			if got.Tensor.DType() == layout.BF16 {
				bound = 1e-12 * math.Abs(p)
			}
			if math.Abs(got.Percentiles[i]-p) > bound {
				t.Errorf("%s: percentile %v is %v, want %v within %v", name, survey.Percents[i], got.Percentiles[i], p, bound)
			}
		}
		if w.BySigma == nil {
			if !math.IsNaN(got.MaxSigma) || !math.IsNaN(got.Kurtosis) || got.BySigma != nil {
				t.Errorf("%s: %v σ, kurtosis %v, want none", name, got.MaxSigma, got.Kurtosis)
			}
			continue
		}
		if math.Abs(got.MaxSigma-w.MaxSigma) > 1e-12*w.MaxSigma || got.MaxSigmaAt != w.MaxSigmaAt {
			t.Errorf("%s: %v σ at %d, want %v at %d", name, got.MaxSigma, got.MaxSigmaAt, w.MaxSigma, w.MaxSigmaAt)
		}
		if math.Abs(got.Kurtosis-w.Kurtosis) > 1e-9*(3+math.Abs(w.Kurtosis)) {
			t.Errorf("%s: kurtosis %v, want %v", name, got.Kurtosis, w.Kurtosis)
		}
		if name == "cancel" || name == "subnormal" {
			continue // many values lie within 1/128 of an edge
		}
		// At each edge no more values may have gone astray than lie within 1/128 of it.
		var sum, wanted, off uint64
		for i, n := range got.BySigma {
			sum, wanted = sum+n, wanted+w.BySigma[i]
			off = max(off, max(sum, wanted)-min(sum, wanted))
		}
		if sum != got.Finite || off > 2+got.Finite/50 {
			t.Errorf("%s: by σ %d of %d values, %d on the other side of an edge", name, sum, got.Finite, off)
		}
	}
	if seen != len(want) {
		t.Errorf("%d tensors, want %d", seen, len(want))
	}
}

// TestErrors holds errors to NumPy's.
func TestErrors(t *testing.T) {
	want := expectedFigures(t).Pairs
	pairs, err := allPairs(context.Background(), open(t, modelA, nil), open(t, modelB, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		w, ok := want[p.Name]
		if !ok {
			continue
		}
		for what, f := range map[string][2]float64{
			"dB": {p.DB(), w.DB.or()}, "relative RMS": {p.RelativeRMS(), w.RelativeRMS.or()}, "cosine": {p.Cosine(), w.Cosine.or()},
		} {
			if got, want := f[0], f[1]; !math.IsInf(got, 0) && !near(got, want, 1) {
				t.Errorf("%s: %s %v, want %v", p.Name, what, got, want)
			}
		}
	}
}

// TestBrainStats: BF16s have the figures of the same values as F32.
func TestBrainStats(t *testing.T) {
	values := largeValues()
	halves := make([]byte, 0, 2*len(values))
	for i, x := range values {
		bits := math.Float32bits(x) &^ 0xffff
		values[i] = math.Float32frombits(bits)
		halves = append(halves, byte(bits>>16), byte(bits>>24))
	}
	m := openBytes(t, modeltest.SafeTensors(floats("f32", values),
		modeltest.Tensor{Name: "bf16", DType: layout.BF16, Shape: []int{len(values)}, Data: halves}))
	stats, err := allStats(context.Background(), m, &survey.StatsOptions{Bins: 16})
	if err != nil {
		t.Fatal(err)
	}
	a, b := stats[0], stats[1]
	if a.Err != nil || b.Err != nil || a.Finite != b.Finite || a.NaN != b.NaN || a.PosInf != b.PosInf || a.Min != b.Min || a.Max != b.Max ||
		!near(a.Mean, b.Mean, 0) || !near(a.Std, b.Std, a.Mean/a.Std) || math.Abs(a.MaxSigma-b.MaxSigma) > 1e-9 || a.MaxSigmaAt != b.MaxSigmaAt ||
		math.Abs(a.Kurtosis-b.Kurtosis) > 1e-9 || !slices.Equal(a.Histogram, b.Histogram) {
		t.Errorf("%s\n%s", describe(a), describe(b))
	}
}

// TestErrorsOf leaves out what is not finite, on either side.
func TestErrorsOf(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	got := survey.ErrorsOf([]float32{1, nan, inf, 2, 3}, []float32{1.5, 1, inf, 2, nan})
	if want := (survey.Errors{Values: 2, AA: 5, BB: 6.25, AB: 5.5, DD: 0.25}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestFarthestOfBatches: the first of the BF16s that are farthest from the mean is found, in whatever batch it is.
func TestFarthestOfBatches(t *testing.T) {
	const n = 1<<20 + 10
	for _, at := range [][]int{{n - 1}, {5, n - 1}, {n - 2, n - 1}, {1 << 19}} {
		for _, sign := range []float32{1, -1} {
			data := make([]byte, 2*n)
			for i, place := range at { // +3 and -3 by turns
				binary.LittleEndian.PutUint16(data[2*place:], uint16(math.Float32bits(3*sign*float32(1-2*(i%2)))>>16))
			}
			stats, err := allStats(t.Context(), openBytes(t, modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.BF16, Shape: []int{n}, Data: data})), nil)
			if err != nil || stats[0].Err != nil || stats[0].MaxSigmaAt != uint64(at[0]) {
				t.Errorf("%v, sign %v: %v, %s", at, sign, err, describe(stats[0]))
			}
		}
	}
}
