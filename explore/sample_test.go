package explore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestSamplePlaces checks that blocks lie apart, are the same each time, and meet all columns.
func TestSamplePlaces(t *testing.T) {
	const columns = 1536
	for _, n := range []uint64{minBlocks*sampleBlock + 1, 1 << 20, 384 * columns, 4096 * columns, 1<<24 + 1, 1 << 34} {
		places, each := samplePlaces(n)
		if again, _ := samplePlaces(n); !slices.Equal(places, again) {
			t.Fatal("places differ from time to time")
		}
		met := make(map[uint64]bool)
		for i, p := range places {
			if p+each > n || i > 0 && p < places[i-1]+each {
				t.Fatalf("%d values: place %d of %d at %d", n, i, len(places), p)
			}
			for block := uint64(0); block < each; block += sampleBlock {
				met[(p+block)%columns] = true
			}
		}
		if len(met) != columns/sampleBlock {
			t.Errorf("%d values: %d columns of blocks are met", n, len(met))
		}
	}
	if places, _ := sampleSize(minBlocks * sampleBlock); places != 0 {
		t.Error("a small tensor is sampled")
	}
}

// sampledModel returns a handler over a model of a small tensor, a large one with an outlier and a NaN, and one of a type
// without values, and the values of the large one.
func sampledModel(t *testing.T) (*handler, []float32) {
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, 1024*1024)
	for i := range values {
		values[i] = float32(0.5 + 0.1*random.NormFloat64())
	}
	values[123456], values[777777] = 9, float32(math.NaN())
	path := modeltest.Write(t, "m.safetensors", modeltest.SafeTensors(
		modeltest.Tensor{Name: "layers.0.large.weight", DType: layout.F32, Shape: []int{1024, 1024}, Data: modeltest.Float32s(values...)},
		modeltest.Tensor{Name: "layers.0.small.weight", DType: layout.F32, Shape: []int{2}, Data: modeltest.Float32s(1, 3)},
	))
	m, err := loader.Open(path, nil)
	modeltest.Opened(t, m, err)
	return Handler(m.Acquire, nil).(*handler), values
}

// TestSample compares the figures of a sample with those of all values.
func TestSample(t *testing.T) {
	h, values := sampledModel(t)
	s, l, err := h.lease(theModel)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	var lines [2]answer.Line
	var stats [2][]*answer.TensorStat
	for _, which := range []int{firstStats, exactStats} {
		j, err := h.joinStats(s, which)
		if err != nil {
			t.Fatal(err)
		}
		err = j.listen(t.Context(), func(line answer.Line, _ []answer.TensorStat) error {
			lines[which] = line
			return nil
		})
		if err != nil || lines[which].Error != nil || !lines[which].Progress.Done || lines[which].Progress.Tensors != 2 {
			t.Fatalf("%+v %v", lines[which], err)
		}
		stats[which] = h.known(s)
		defer j.leave()
	}
	for which, line := range lines {
		p := line.Progress
		if share := float64(p.Values) / float64(p.AllValues); math.Abs(share-p.Share) > 1e-9 || (which == firstStats) != (share < 0.07) {
			t.Errorf("%+v", p)
		}
	}
	number := s.numbers["layers.0.large.weight"]
	sample, exact := stats[firstStats][number], stats[exactStats][number]
	if !sample.Sampled || exact.Sampled || sample.Finite != minBlocks*sampleBlock || exact.Finite != 1<<20-1 {
		t.Fatalf("%+v\n%+v", sample, exact)
	}
	near := func(what string, a, b answer.Real) {
		if math.Abs(float64(a-b)) > 0.005 {
			t.Errorf("%s: %v, of all values %v", what, a, b)
		}
	}
	near("mean", sample.Mean, exact.Mean)
	near("std", sample.Std, exact.Std)
	for _, p := range []string{"1", "50", "99"} {
		near(p, sample.Percentiles[p], exact.Percentiles[p])
	}
	if sample.Min < exact.Min || sample.Max > exact.Max || sample.NaN > exact.NaN || exact.MaxSigma < 80 {
		t.Errorf("%+v\n%+v", sample, exact)
	}
	at := sample.MaxSigmaAt[0]*1024 + sample.MaxSigmaAt[1]
	if got := math.Abs(float64(values[at])-float64(sample.Mean)) / float64(sample.Std); math.Abs(got-float64(sample.MaxSigma)) > 1e-6 {
		t.Errorf("%v σ at %v, where %v lies", sample.MaxSigma, sample.MaxSigmaAt, values[at])
	}
	small := s.numbers["layers.0.small.weight"]
	if a, b := stats[firstStats][small], stats[exactStats][small]; a.Sampled || fmt.Sprint(*a) != fmt.Sprint(*b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	for _, f := range lines[firstStats].Findings {
		if f.Severity == 0 {
			t.Errorf("a sample says %q", f.Text)
		}
	}
	if !slices.ContainsFunc(lines[exactStats].Findings, func(f answer.Finding) bool { return f.Rule == "outlier" && f.Severity == 2 }) {
		t.Errorf("%+v", lines[exactStats].Findings)
	}
}
