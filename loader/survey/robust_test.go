package survey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
)

// A tensor has the same digests however it is stored.
func TestHashOfEveryLayout(t *testing.T) {
	half := modeltest.Tensor{Name: "half", DType: layout.F16, Shape: []int{3, 40000}, Data: make([]byte, 240000)}
	for i := range half.Data {
		half.Data[i] = byte(i * i >> 3)
	}
	for i := 1; i < len(half.Data); i += 2 {
		half.Data[i] &= 0x7b // finite
	}
	want := digestsOf(t, openBytes(t, modeltest.SafeTensors(half)))
	if got := digestsOf(t, openBytes(t, compressed(t, half))); got != want {
		t.Errorf("compressed: %v, want %v", got, want)
	}
	// The same values in F32 have other bytes.
	m := openBytes(t, modeltest.SafeTensors(half))
	x, err := m.Tensor("half")
	if err != nil {
		t.Fatal(err)
	}
	v, err := x.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	got := digestsOf(t, openBytes(t, modeltest.SafeTensors(floats("half", v, 3, 40000))))
	if got[0] != want[0] || got[1] == want[1] || got[2] != want[2] || got[3] == want[3] {
		t.Errorf("F32: %v, F16: %v", got, want)
	}
	// Another shape is another model of the same elements, but for a dimension of 1.
	got = digestsOf(t, openBytes(t, modeltest.SafeTensors(modeltest.Tensor{Name: "half", DType: layout.F16, Shape: []int{3, 1, 40000}, Data: half.Data})))
	if got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] == want[3] {
		t.Errorf("3×1×40000: %v, 3×40000: %v", got, want)
	}
	got = digestsOf(t, openBytes(t, modeltest.SafeTensors(modeltest.Tensor{Name: "half", DType: layout.F16, Shape: []int{40000, 3}, Data: half.Data})))
	if got[0] != want[0] || got[1] != want[1] || got[2] == want[2] || got[3] == want[3] {
		t.Errorf("40000×3: %v, 3×40000: %v", got, want)
	}
}

// digestsOf are those of a model's only tensor, values and stored, and then those of the model.
func digestsOf(t *testing.T, m *loader.Model) [4]string {
	t.Helper()
	list, err := allDigests(context.Background(), m, &survey.HashOptions{Values: true, Stored: true})
	if err != nil || len(list) != 1 || list[0].Err != nil {
		t.Fatal(err, list)
	}
	values, ok1 := modelDigest(list).Values()
	stored, ok2 := modelDigest(list).Stored()
	if !ok1 || !ok2 {
		t.Fatal("no digest of the model")
	}
	return [4]string{text(list[0].Values), text(list[0].Stored), values.String(), stored.String()}
}

// The shards of a model are one model, to digests and to Compare.
func TestShards(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/shards/*/*.index.json")
	if err != nil || len(paths) == 0 {
		t.Skip("no sharded fixtures", err)
	}
	for _, path := range paths {
		m, err := loader.Open(path, nil)
		if err != nil {
			continue // made to be refused
		}
		defer m.Close()
		pairs, err := allPairs(context.Background(), m, m, nil)
		if err != nil || len(pairs) != m.Len() {
			t.Fatalf("%s: %d pairs, %v", path, len(pairs), err)
		}
		for _, p := range pairs {
			if !p.Identical() || !p.Within(0) {
				t.Errorf("%s: %+v", path, p)
			}
		}
	}
}

// A damaged tensor is named, and does not keep others from being looked at.
func TestDamaged(t *testing.T) {
	good := floats("good", []float32{1, 2, 3})
	noise := floats("bad", make([]float32, 50000))
	file := compressed(t, noise, good)
	m := openBytes(t, file)
	bad, err := m.Tensor("bad")
	if err != nil {
		t.Fatal(err)
	}
	for i := range bad.StoredBytes() - 4 {
		file[bad.Offset()+4+i] = 0xff // behind the length of the first block
	}
	names := func(err error) bool { return err != nil && strings.Contains(err.Error(), `tensor "bad"`) }

	stats, err := allStats(context.Background(), m, &survey.StatsOptions{Bins: 4})
	if err != nil || !names(stats[0].Err) || stats[0].Finite != 0 || stats[1].Err != nil || stats[1].Mean != 2 {
		t.Errorf("%v %+v", err, stats)
	}
	digests, err := allDigests(context.Background(), m, &survey.HashOptions{Values: true, Stored: true})
	if err != nil || !names(digests[0].Err) || digests[0].Values != nil || digests[1].Values == nil {
		t.Errorf("%v %+v", err, digests)
	}
	if _, ok := modelDigest(digests).Values(); ok {
		t.Error("a digest of a damaged model")
	}
	pairs, err := allPairs(context.Background(), m, openBytes(t, modeltest.SafeTensors(noise, good)), nil)
	if err != nil || !names(pairs[0].Err) || pairs[0].Within(math.Inf(1)) || pairs[0].Identical() || !pairs[1].Identical() {
		t.Errorf("%v %+v", err, pairs)
	}
}

// TestDamagedInPart: if only some batches of a tensor can be read, a pair has no figures of the others.
func TestDamagedInPart(t *testing.T) {
	file := compressed(t, floats("bad", make([]float32, 1<<20+50000)))
	a := openBytes(t, file)
	bad, err := a.Tensor("bad")
	if err != nil {
		t.Fatal(err)
	}
	end := bad.Offset() + bad.StoredBytes()
	for i := range file[end-16 : end] {
		file[end-16+uint64(i)] = 0xff // of the last block
	}
	ones := modeltest.Tensor{Name: "bad", DType: layout.U8, Shape: []int{1<<20 + 50000}, Data: bytes.Repeat([]byte{1}, 1<<20+50000)}
	pairs, err := allPairs(t.Context(), a, openBytes(t, modeltest.SafeTensors(ones)), &survey.Options{Workers: 1})
	if err != nil || pairs[0].Err == nil || pairs[0].Distance != (survey.Distance{}) {
		t.Errorf("%v %+v", err, pairs)
	}
}

// flickering has other bytes from the n-th read of the tensor on.
type flickering struct {
	file  []byte
	at    int64 // of the tensor
	calm  atomic.Int64
	after []byte
}

func (f *flickering) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.at && f.calm.Add(-1) < 0 {
		copy(p, f.after[off-f.at:])
		return len(p), nil
	}
	return bytes.NewReader(f.file).ReadAt(p, off)
}

// TestChangesBetweenPasses: a file that is written to while its values are counted is an error,
// not a histogram of something else and no endless search for the bin.
func TestChangesBetweenPasses(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, later := range [][]float32{{-9, 2, 3, 4}, {1, 2, 3, 9}, {1, 2, 3, inf}, {1, 2, 3, -inf}} {
		file := modeltest.SafeTensors(floats("x", []float32{1, 2, 3, 4}))
		f := &flickering{file: file, at: int64(len(file) - 16), after: floats("", later).Data}
		f.calm.Store(1)
		m, err := loader.OpenReaderAt(t.Context(), f, int64(len(file)), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		stats, err := allStats(t.Context(), m, &survey.StatsOptions{Bins: 4})
		if err != nil || !errors.Is(stats[0].Err, mmapio.ErrChanged) || !strings.Contains(stats[0].Err.Error(), `tensor "x"`) || stats[0].Histogram != nil {
			t.Errorf("%v: %v, %+v", later, err, stats)
		}
	}
}

// TestLost: elements that have gone from the file are an error of their tensor, whether they are read in place, or for a quantized
// weight, where it was said that its bytes are out of range.
func TestLost(t *testing.T) {
	testmode.ChangesMapped(t)
	for _, d := range []layout.DType{layout.F32, layout.BF16, layout.F8_E4M3} {
		tensors := []modeltest.Tensor{modeltest.Random("w.weight", d, 1<<8, 1<<8)}
		if d == layout.F8_E4M3 {
			tensors = append(tensors, modeltest.Random("w.weight_scale_inv", layout.F32, 2, 2))
		}
		path := modeltest.Write(t, "lost.safetensors", modeltest.SafeTensors(tensors...))
		m := open(t, path, nil)
		if x, err := m.Tensor("w.weight"); err != nil || !x.ZeroCopy() && x.Scheme() == nil {
			t.Skip("files are not mapped", err)
		}
		lose := func(loader.Tensor) ([]uint64, uint64) { os.Truncate(path, int64(os.Getpagesize())); return nil, 0 } // no sample: all is read
		err := survey.Stats(t.Context(), m, &survey.StatsOptions{Sample: lose}, func(s *survey.TensorStats) error { return s.Err })
		if !errors.Is(err, mmapio.ErrFault) || !strings.HasPrefix(err.Error(), path+`: tensor "w.weight`) || strings.Contains(err.Error()[1:], path) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

// The heap that a large tensor takes is that of the workers, whatever its size.
func TestMemory(t *testing.T) {
	if runtime.GOARCH == "wasm" {
		t.Skip("what is not mapped is read into memory of its own, time and again")
	}
	const elements = 16 << 20
	head := modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.F32, Shape: []int{elements}, Data: nil})
	text := strings.Replace(string(head), `"data_offsets":[0,0]`, `"data_offsets":[0,67108864]`, 1)
	text = string(rune(len(text)-8)) + text[1:] // a short header: one byte of length
	if len(text)-8 > 127 {
		t.Fatal("the header is too long")
	}
	path := filepath.Join(t.TempDir(), "sparse.safetensors")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(text))+4*elements); err != nil {
		t.Skip(err)
	}
	m := open(t, path, nil)
	for name, work := range map[string]func(o survey.Options) error{
		"stats": func(o survey.Options) error {
			s, err := allStats(context.Background(), m, &survey.StatsOptions{Options: o, Bins: 16})
			if err == nil && (s[0].Err != nil || s[0].Zeros != elements || s[0].Histogram[0] != elements) {
				t.Errorf("%+v", s)
			}
			return err
		},
		"hash": func(o survey.Options) error {
			d, err := allDigests(context.Background(), m, &survey.HashOptions{Options: o, Values: true})
			// head -c 67108864 /dev/zero | sha256sum
			if err == nil && text64(d[0]) != "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351" {
				t.Errorf("%+v", d)
			}
			return err
		},
		"compare": func(o survey.Options) error {
			_, err := allPairs(context.Background(), m, m, &o)
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := work(survey.Options{Workers: 2}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if testmode.ChecksPointers() && name == "stats" {
			continue // checkptr moves every float32 whose bits are asked for to the heap
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 6<<20 {
			t.Errorf("%s: %d bytes of heap for a tensor of %d", name, took, 4*elements)
		}
	}
}

func text64(d survey.TensorDigest) string { return text(d.Values) }

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := largeModel(t)
	o := survey.Options{Progress: func(done, total uint64) { cancel() }}
	if _, err := allStats(ctx, m, &survey.StatsOptions{Options: o, Bins: 16}); !errors.Is(err, context.Canceled) {
		t.Errorf("Stats: %v", err)
	}
	if _, err := allDigests(ctx, m, &survey.HashOptions{Options: o, Values: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("Hash: %v", err)
	}
	if _, err := allPairs(ctx, m, m, &o); !errors.Is(err, context.Canceled) {
		t.Errorf("Compare: %v", err)
	}
	// No lease has stayed: Close lets the memory go at once, and everything is an error.
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := allStats(context.Background(), m, nil); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := allDigests(context.Background(), m, nil); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := allPairs(context.Background(), largeModel(t), m, nil); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Progress never falls, and ends at the total.
func TestProgress(t *testing.T) {
	a, b := open(t, modelA, nil), open(t, modelB, nil)
	var last, all uint64
	o := survey.Options{Workers: 3, Progress: func(done, total uint64) {
		if done < last || done > total || all != 0 && total != all {
			t.Errorf("%d of %d after %d of %d", done, total, last, all)
		}
		last, all = done, total
	}}
	for name, work := range map[string]func() error{
		"stats": func() error {
			_, err := allStats(context.Background(), a, &survey.StatsOptions{Options: o, Bins: 3})
			return err
		},
		"hash": func() error {
			_, err := allDigests(context.Background(), a, &survey.HashOptions{Options: o, Values: true, Stored: true})
			return err
		},
		"compare": func() error { _, err := allPairs(context.Background(), a, b, &o); return err },
	} {
		last, all = 0, 0
		if err := work(); err != nil || last != all || all == 0 {
			t.Errorf("%s: %d of %d, %v", name, last, all, err)
		}
	}
}

func TestFilter(t *testing.T) {
	a, b := open(t, modelA, nil), open(t, modelB, nil)
	o := survey.Options{Filter: func(name string) bool { return name == "new" || name == "i8" }}
	stats, err := allStats(context.Background(), a, &survey.StatsOptions{Options: o})
	if err != nil || len(stats) != 1 || stats[0].Histogram != nil || stats[0].Min != -128 {
		t.Errorf("%+v, %v", stats, err)
	}
	digests, err := allDigests(context.Background(), a, &survey.HashOptions{Options: o})
	if err != nil || len(digests) != 1 || digests[0].Values == nil || digests[0].Stored != nil {
		t.Errorf("%+v, %v", digests, err)
	}
	pairs, err := allPairs(context.Background(), a, b, &o)
	if err != nil || len(pairs) != 2 || pairs[0].Name != "i8" || pairs[1].A != nil {
		t.Errorf("%+v, %v", pairs, err)
	}
}

// Values that float64 has to round are not taken for equal because of it.
func TestRounded(t *testing.T) {
	i64 := func(low byte) *loader.Model {
		return openBytes(t, modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.I64, Shape: []int{1}, Data: []byte{low, 0, 0, 0, 0, 0, 0, 0x40}}))
	}
	pairs, err := allPairs(context.Background(), i64(1), i64(2), nil)
	if err != nil || pairs[0].Differing != 0 || pairs[0].Within(0) || pairs[0].Identical() {
		t.Errorf("%+v, %v", pairs, err)
	}
}

// TestFindingsAreBounded: of a hundred alike the rest is counted, and a tensor of zeros is not invalid.
func TestFindingsAreBounded(t *testing.T) {
	var tensors []modeltest.Tensor
	for i := range 130 {
		tensors = append(tensors, floats(fmt.Sprint(i), []float32{0, 0}))
	}
	m := openBytes(t, modeltest.SafeTensors(tensors...))
	found := survey.NewFindings(m)
	if err := survey.Stats(t.Context(), m, nil, found.Add); err != nil {
		t.Fatal(err)
	}
	all := found.All()
	if len(all) != 101 || !all[0].Warning || !strings.HasSuffix(all[0].Error(), `tensor "0", all 2 values are zero`) ||
		!strings.HasSuffix(all[100].Error(), "30 more like the 100 listed") {
		t.Errorf("%d findings, the last %v", len(all), all[len(all)-1])
	}
}
