package survey_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// TestPercentiles holds percentiles to sorted values: off by at most 0.1 % in rank, and 2⁻¹⁹ of the distance from zero, or from a
// mean that is far from zero.
func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	normal := func() float64 { return rng.NormFloat64() }
	var tensors []modeltest.Tensor
	values := make(map[string][]float32)
	add := func(name string, n int, value func() float64) {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(value())
		}
		tensors, values[name] = append(tensors, floats(name, v)), v
	}
	const n = 200_001
	add("gaussian", n, normal)
	add("off zero", n, func() float64 { return 2 + normal() })
	add("far off", n, func() float64 { return 1 + 0.02*normal() })
	add("uniform", n, rng.Float64)
	add("heavy", n, func() float64 { return normal() / math.Abs(normal()) })
	add("embeddings", n, func() float64 { return 0.05*normal() - 0.002 })
	add("steps", n, func() float64 { return 0.0037 * float64(rng.IntN(16)-8) })
	add("steps far off", n, func() float64 { return 1 + 0.0037*float64(rng.IntN(4)) })
	add("ternary", n, func() float64 { return 0.0123 * float64(rng.IntN(3)-1) })
	add("equal", n, func() float64 { return 0.3 })
	for _, few := range []int{1, 2, 5, 384, 1537} {
		add(fmt.Sprint(few, " values"), few, normal)
	}
	stats, err := allStats(t.Context(), openBytes(t, modeltest.SafeTensors(tensors...)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		v := values[s.Tensor.Name()]
		slices.Sort(v)
		center := 0.0
		if math.Abs(s.Mean) > 4*s.Std {
			center = s.Mean
		}
		near := func(x float64) float64 { return 0x1p-19*math.Abs(x-center) + 1e-12*math.Abs(x) }
		for i, p := range survey.Percents {
			got, at := s.Percentiles[i], p/100*float64(len(v)-1)
			below, _ := slices.BinarySearchFunc(v, got-near(got), func(x float32, y float64) int { return cmp.Compare(float64(x), y) })
			upTo, _ := slices.BinarySearchFunc(v, math.Nextafter(got+near(got), math.Inf(1)), func(x float32, y float64) int { return cmp.Compare(float64(x), y) })
			off := max(float64(below-1)-at, at-float64(upTo), 0) / float64(len(v))
			if off > 0.001 {
				t.Errorf("%s: percentile %v is %v, off by %.2f %% in rank", s.Tensor.Name(), p, got, 100*off)
			}
		}
	}
}

// TestFewAreExact: of few values all are known.
func TestFewAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	v := make([]float32, 1536)
	for i := range v {
		v[i] = float32(0.3 + 0.01*rng.NormFloat64())
	}
	v[7], v[8], v[9] = -1, float32(math.Inf(1)), float32(math.NaN())
	stats, err := allStats(t.Context(), openBytes(t, modeltest.SafeTensors(floats("few", v))), &survey.StatsOptions{BySigma: true})
	if err != nil {
		t.Fatal(err)
	}
	s := stats[0]
	v = append(v[:8], v[10:]...)
	slices.Sort(v)
	for i, p := range survey.Percents {
		at, toNext := math.Modf(p / 100 * float64(len(v)-1))
		x, next := float64(v[int(at)]), float64(v[int(at)+1])
		if want := x + toNext*(next-x); s.Percentiles[i] != want {
			t.Errorf("percentile %v is %v, want %v", p, s.Percentiles[i], want)
		}
	}
	want := make([]uint64, survey.SigmaBins)
	for _, x := range v {
		bin := sort.Search(survey.SigmaBins-1, func(i int) bool { return float64(x) < s.Mean+s.Std*survey.SigmaEdge(i+1) })
		want[bin]++
	}
	if !slices.Equal(s.BySigma, want) {
		t.Errorf("by σ %v, want %v", s.BySigma, want)
	}
}

// TestSampleStats: a sample has the figures of a tensor of its values, in all ways that values are counted.
func TestSampleStats(t *testing.T) {
	const runs, each, apart = 10, 512, 1000
	values := largeValues()[:runs*apart]
	values[3*apart+7] = 12345
	doubles := func(v []float32) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(x)))
		}
		return b
	}
	halves := func(v []float32) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
		}
		return b
	}
	var places []uint64
	var sample []float32
	for i := range uint64(runs) {
		places = append(places, i*apart)
		sample = append(sample, values[i*apart:][:each]...)
	}
	model := func(v []float32) *loader.Model {
		return openBytes(t, modeltest.SafeTensors(
			modeltest.Tensor{Name: "f32", DType: layout.F32, Shape: []int{len(v) / 2, 2}, Data: modeltest.Float32s(v...)},
			modeltest.Tensor{Name: "f64", DType: layout.F64, Shape: []int{len(v) / 2, 2}, Data: doubles(v)},
			modeltest.Tensor{Name: "bf16", DType: layout.BF16, Shape: []int{len(v) / 2, 2}, Data: halves(v)}))
	}
	all, err := allStats(t.Context(), model(sample), &survey.StatsOptions{BySigma: true})
	if err != nil {
		t.Fatal(err)
	}
	opts := survey.StatsOptions{BySigma: true, Sample: func(loader.Tensor) ([]uint64, uint64) { return places, each }}
	sampled, err := allStats(t.Context(), model(values), &opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range sampled {
		want := all[i]
		if !got.Sampled || want.Sampled || got.Finite != want.Finite || got.NaN != want.NaN || got.PosInf != want.PosInf || got.Zeros != want.Zeros ||
			got.Min != want.Min || got.Max != want.Max || !near(got.Mean, want.Mean, 1) || !near(got.Std, want.Std, 1) || !near(got.Kurtosis, want.Kurtosis, 1) ||
			got.MaxSigmaAt != 3*apart+7 || !slices.Equal(got.BySigma, want.BySigma) {
			t.Errorf("%s, want %s", describe(got), describe(want))
		}
		for k, p := range got.Percentiles {
			if !near(p, want.Percentiles[k], 1) {
				t.Errorf("%s: percentile %v is %v, want %v", got.Tensor.Name(), survey.Percents[k], p, want.Percentiles[k])
			}
		}
	}
}

// TestSampleOfFew samples a tensor that would be sorted as a whole.
func TestSampleOfFew(t *testing.T) {
	v := make([]float32, 600)
	for i := range v {
		v[i] = float32(i)
	}
	opts := survey.StatsOptions{Sample: func(loader.Tensor) ([]uint64, uint64) { return []uint64{100, 400}, 101 }}
	stats, err := allStats(t.Context(), openBytes(t, modeltest.SafeTensors(floats("few", v))), &opts)
	if err != nil {
		t.Fatal(err)
	}
	if s := stats[0]; s.Finite != 202 || s.Min != 100 || s.Max != 500 || s.Mean != 300 || math.Abs(s.Percentiles[1]-102) > 1 || math.Abs(s.Percentiles[3]-498) > 3 {
		t.Error(describe(s))
	}
}

// TestSampleOutOfRange: a sample that the tensor does not have is an error of the tensor.
func TestSampleOutOfRange(t *testing.T) {
	const n = 1 << 17
	for _, d := range []layout.DType{layout.BF16, layout.F32, layout.F64} {
		m := openBytes(t, modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: d, Shape: []int{n}, Data: make([]byte, n*d.BlockBytes())}))
		for _, runs := range [][]uint64{{1, n}, {10, n - 9}, {10, 1 << 61}, {10, 1 << 63}, {1<<16 + 1, 0}, {math.MaxUint64, 0}, {5, 9, 3}, {5, 9, 13}} {
			opts := survey.StatsOptions{Sample: func(loader.Tensor) ([]uint64, uint64) { return runs[1:], runs[0] }}
			stats, err := allStats(t.Context(), m, &opts)
			if err != nil || !errors.Is(stats[0].Err, loader.ErrRange) || !strings.Contains(stats[0].Err.Error(), `: tensor "w": `) {
				t.Errorf("%v, %d from %v: %v, %+v", d, runs[0], runs[1:], err, stats)
			}
		}
	}
}

// TestPercentilesBeyondFloat32: what lies among values that float32 cannot hold is not defined, all else is.
func TestPercentilesBeyondFloat32(t *testing.T) {
	var b []byte
	for i := range 2000 {
		x := float64(i)
		if i >= 1900 {
			x *= 1e100
		}
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	stats, err := allStats(t.Context(), openBytes(t, modeltest.SafeTensors(modeltest.Tensor{Name: "wide", DType: layout.F64, Shape: []int{2000}, Data: b})), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := stats[0].Percentiles
	if math.Abs(p[1]-19.99) > 2 || math.Abs(p[2]-999.5) > 2 || !math.IsNaN(p[3]) || !math.IsNaN(p[4]) {
		t.Error(p)
	}
}
