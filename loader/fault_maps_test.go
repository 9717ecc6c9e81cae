//go:build unix || windows

package loader_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
)

// inOwnProcess runs the calling test again in a process of its own, whose end is a failure like
// any other. Goroutines begin there with the smallest stack, and the garbage collector does not
// rest: both look at the frames above a fault. It returns true in that process.
func inOwnProcess(t *testing.T) bool {
	const mark = "LOADER_TEST_PROCESS"
	if os.Getenv(mark) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), mark+"=1", "GODEBUG=adaptivestackstart=0")
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("an emulator runs this process, and does not tell where a page was lost")
		}
		if err != nil {
			t.Errorf("%v\n%.20000s", err, out)
		}
		t.Logf("%.20000s", out)
		return false
	}
	var collector sync.WaitGroup
	collector.Go(func() {
		for t.Context().Err() == nil {
			runtime.GC()
			time.Sleep(2 * time.Millisecond)
		}
	})
	t.Cleanup(collector.Wait)
	return true
}

// inNewGoroutine calls f so many frames deep in a goroutine of its own.
func inNewGoroutine(depth int, f func() error) (err error) {
	var deeper func(n int) byte
	deeper = func(n int) byte {
		var frame [40]byte
		frame[n%len(frame)] = 1
		if n == 0 {
			err = f()
			return frame[1]
		}
		return deeper(n-1) + frame[n%len(frame)]
	}
	var wg sync.WaitGroup
	wg.Go(func() { deeper(depth) })
	wg.Wait()
	return err
}

// faultCalls are all methods of Tensor that read elements. What they have the caller read, is read.
var faultCalls = func() map[string]func(x loader.Tensor) error {
	touched := func(b []byte, err error) error { // err, or that of code which reads a view: the standard library's, in assembly, and a loop
		if err != nil {
			return err
		}
		for _, read := range []func() byte{
			func() byte { return sha256.New().Sum(b[:len(b):len(b)])[0] },
			func() byte { sum := sha256.Sum256(b); return sum[0] },
			func() byte { return byte(crc32.ChecksumIEEE(b)) },
			func() byte { return byte(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))) },
			func() byte { return byte(bytes.Count(b, []byte{7})) },
			func() byte { return byte(bytes.Compare(b, make([]byte, len(b)))) },
			func() byte { return string(b)[0] },
			func() (sum byte) {
				for _, c := range b {
					sum += c
				}
				return sum
			},
		} {
			err = mmapio.Guard(func() error { runtime.KeepAlive(read()); return nil })
			if err != nil && !errors.Is(err, mmapio.ErrFault) {
				return err
			}
		}
		return err
	}
	calls := maps.Clone(tensorCalls)
	delete(calls, "Scale")
	calls["Bytes"] = func(x loader.Tensor) error { return touched(x.Bytes()) }
	calls["View"] = func(x loader.Tensor) error { return touched(loader.View[byte](x)) }
	calls["WriteTo"] = func(x loader.Tensor) error { _, err := x.WriteTo(new(bytes.Buffer)); return err }
	calls["WriteDecrypted"] = func(x loader.Tensor) error { _, err := x.WriteDecrypted(new(bytes.Buffer)); return err }
	calls["WriteAs"] = func(x loader.Tensor) error {
		_, err := x.WriteAs(context.Background(), new(bytes.Buffer), layout.BF16)
		return err
	}
	calls["Float32s"] = func(x loader.Tensor) error {
		values, err := x.Float32s()
		if err != nil {
			return err
		}
		return mmapio.Guard(func() error { _ = fmt.Sprint(values[len(values)-1]); return nil })
	}
	return calls
}()

// TestFaultsOfEveryMethod cuts files off before and within a tensor, and has every method read it
// in new goroutines, whose stacks have to grow at other moments each time.
func TestFaultsOfEveryMethod(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	page := uint64(os.Getpagesize())
	rng, calls, faults := rand.New(rand.NewPCG(5, 6)), faultCalls, 0
	depths, dtypes := 6, expandable
	large := []layout.DType{layout.Q8_0, layout.F16, layout.F32} // for all cores
	if testmode.Brief() {
		depths, dtypes, large = 3, []layout.DType{layout.F32, layout.F16, layout.Q8_0, layout.Q2_K, layout.IQ3_S}, large[:1]
	}
	try := func(kind string, file []byte, opts *loader.Options, tries int) {
		x := tensor(t, openBytes(t, file, opts), "x")
		before := (x.Offset() - 1) / page * page // where "pad" is
		within := (x.Offset() + x.StoredBytes()/2) / page * page
		for _, left := range []uint64{before, max(before, within)} {
			m := openTruncated(t, file, int64(left), opts)
			x := tensor(t, m, "x").Stored()
			for name, call := range calls {
				for range tries {
					err := inNewGoroutine(rng.IntN(100), func() error { return call(x) })
					switch {
					case errors.Is(err, mmapio.ErrFault):
						faults++
					case err != nil || left == before:
						t.Errorf("%s, %d of %d bytes left: %s: %v", kind, left, len(file), name, err)
					}
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	pad := modeltest.Random("pad", layout.U8, int(3*page))
	for _, d := range dtypes {
		c := compressible("x", d, 80, 256)
		raw := modeltest.APR2Model(t, nil, pad, c)
		try("raw "+d.String(), raw, nil, depths)
		try("misaligned "+d.String(), shifted(raw, 3), nil, depths)
		try("LZ4 "+d.String(), lz4Model(t, pad, c), nil, depths)
		try("encrypted "+d.String(), converted(t, raw, &convert.Options{Encrypter: encrypter}), withKey, depths)
	}
	for _, d := range large {
		c := compressible("x", d, 1024, 1024)
		raw := modeltest.APR2Model(t, nil, pad, c)
		try("large "+d.String(), raw, nil, depths/3)
		try("large LZ4 "+d.String(), lz4Model(t, pad, c), nil, depths/3)
		try("large encrypted "+d.String(), converted(t, raw, &convert.Options{Encrypter: encrypter}), withKey, depths/3)
	}
	t.Logf("%d faults", faults)
}

// TestFaultsOfLogicalTensors cuts files off before a quantized weight's codes and within them, and before its other
// parts, under every method that reads values.
func TestFaultsOfLogicalTensors(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	const rows, cols, groups = 64, 256, 8
	page := uint64(os.Getpagesize())
	rng, calls, faults, depths := rand.New(rand.NewPCG(9, 10)), maps.Clone(faultCalls), 0, 4
	for _, name := range []string{"Bytes", "View", "ReadAt", "WriteTo", "WriteDecrypted"} {
		delete(calls, name) // which are ErrUnsupported
	}
	if testmode.Brief() {
		depths = 2
	}
	index := modeltest.Tensor{Name: "x.g_idx", DType: layout.I32, Shape: []int{cols}, Data: make([]byte, 4*cols)}
	for i := range cols {
		index.Data[4*i] = byte(rng.IntN(groups))
	}
	state := fmt.Appendf(nil, `{"quant_type":"nf4","blocksize":64,"shape":[%d,%d]}`, rows, cols)
	pad, between := modeltest.Random("pad", layout.U8, int(3*page)), modeltest.Random("between", layout.U8, int(2*page))
	for name, parts := range map[string][]modeltest.Tensor{ // the codes last
		"fp8":       {modeltest.Random("x.weight_scale_inv", layout.F32, 1, 2), modeltest.Random("x.weight", layout.F8_E4M3, rows, cols)},
		"int8":      {modeltest.Random("x.SCB", layout.F32, rows), modeltest.Random("x.weight", layout.I8, rows, cols)},
		"nvfp4":     {modeltest.Random("x.weight_scale_2", layout.F32), modeltest.Random("x.weight_scale", layout.F8_E4M3, rows, cols/16), modeltest.Random("x.weight", layout.U8, rows, cols/2)},
		"awq":       {modeltest.Random("x.qzeros", layout.I32, groups, rows/8), modeltest.Random("x.scales", layout.F16, groups, rows), modeltest.Random("x.qweight", layout.I32, cols, rows/8)},
		"gptq":      {modeltest.Random("x.qzeros", layout.I32, groups, rows/8), modeltest.Random("x.scales", layout.F16, groups, rows), modeltest.Random("x.qweight", layout.I32, cols/8, rows)},
		"act-order": {index, modeltest.Random("x.qzeros", layout.I32, groups, rows/8), modeltest.Random("x.scales", layout.F16, groups, rows), modeltest.Random("x.qweight", layout.I32, cols/8, rows)},
		"bnb": {{Name: "x.weight.quant_state.bitsandbytes__nf4", DType: layout.U8, Shape: []int{len(state)}, Data: state}, modeltest.Random("x.weight.absmax", layout.F32, rows*cols/64),
			modeltest.Random("x.weight", layout.U8, rows*cols/2, 1)},
	} {
		last := len(parts) - 1
		metadata := ""
		if name == "gptq" || name == "act-order" {
			metadata = fmt.Sprintf(`{"apr2.quantization":%q}`, `{"quant_method":"gptq","checkpoint_format":"gptq_v2","sym":false}`)
		}
		file := modeltest.SafeTensorsAt(0, metadata, slices.Concat([]modeltest.Tensor{pad}, parts[:last], []modeltest.Tensor{between}, parts[last:])...)
		codes := tensor(t, openBytes(t, file, nil), "x.weight").Parts()[0].Tensor
		before, without := (codes.Offset()-1)/page*page, page // the codes are gone, or all parts are
		for _, left := range []uint64{without, before, (codes.Offset() + codes.StoredBytes()/2) / page * page} {
			m := openTruncated(t, file, int64(left), nil)
			x := tensor(t, m, "x.weight")
			for method, call := range calls {
				for range depths {
					switch err := inNewGoroutine(rng.IntN(100), func() error { return call(x) }); {
					case errors.Is(err, mmapio.ErrFault), errors.Is(err, mmapio.ErrChanged):
						faults++
					case err != nil || left <= before:
						t.Errorf("%s, %d of %d bytes left: %s: %v", name, left, len(file), method, err)
					}
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d faults", faults)
}

// TestFaultInDigest cuts a shard off while its digest is computed. What a fault has torn would panic when it is asked
// for the digest.
func TestFaultInDigest(t *testing.T) {
	testmode.ChangesMapped(t)
	if !mapsFiles {
		t.Skip("nothing is mapped here")
	}
	dir := t.TempDir()
	path := writeShards(t, dir, func(m *manifest) { m.describe(t, dir) }, modeltest.Random("x", layout.U8, 1_000_001)) // no multiple of its block
	shard := filepath.Join(dir, "model-00001-of-00001.apr")
	whole, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		m := openPath(t, path, nil)
		var cut sync.WaitGroup
		cut.Go(func() {
			for wait := time.Now(); time.Since(wait) < time.Duration(n)*20*time.Microsecond; {
			}
			if err := os.Truncate(shard, 4096); err != nil {
				t.Error(err)
			}
		})
		_, err := m.Verify(t.Context(), nil)
		cut.Wait()
		if err != nil && !errors.Is(err, mmapio.ErrFault) && !errors.Is(err, mmapio.ErrChanged) {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		modeltest.WriteTo(t, shard, whole)
	}
}

// TestTruncations truncates models while many goroutines read them in every way. As many times as
// TRUNCATIONS says, if it is set.
func TestTruncations(t *testing.T) {
	testmode.ChangesMapped(t)
	if !inOwnProcess(t) {
		return
	}
	rounds := 60
	if testmode.Brief() {
		rounds = 20
	}
	if n, err := strconv.Atoi(os.Getenv("TRUNCATIONS")); err == nil {
		rounds = n
	}
	ctx, rng := t.Context(), rand.New(rand.NewPCG(7, 8))
	var models []string // directories of one model each: raw, compressed, in shards, SafeTensors
	path := modeltest.Write(t, "source", modeltest.APR2Model(t, nil,
		compressible("i8", layout.I8, 64, 1024), compressible("f32", layout.F32, 64, 256), compressible("f16", layout.F16, 64, 512),
		compressible("q4", layout.Q4_0, 256, 256), compressible("q2", layout.Q2_K, 64, 1024), compressible("iq3", layout.IQ3_S, 64, 1024),
		compressible("q8", layout.Q8_0, 1024, 512), // on all cores
	))
	source := openPath(t, path, nil)
	for _, opts := range []convert.Options{{}, {Compress: convert.Fast}, {ShardBytes: 250_000}, {ShardBytes: 200_000, Compress: convert.High}} {
		models = append(models, t.TempDir())
		if _, err := convert.Write(ctx, source, filepath.Join(models[len(models)-1], "model.apr"), &opts); err != nil {
			t.Fatal(err)
		}
	}
	for _, shards := range []uint64{0, 500_000} {
		models = append(models, t.TempDir())
		path := filepath.Join(models[len(models)-1], "model.safetensors")
		if _, err := convert.Write(ctx, source, path, &convert.Options{DType: layout.F32, ShardBytes: shards}); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	whole := func(f func(m *loader.Model) error) func(*loader.Model, loader.Tensor) error {
		return func(m *loader.Model, _ loader.Tensor) error { return f(m) }
	}
	var reads []func(m *loader.Model, x loader.Tensor) error
	for _, call := range faultCalls {
		reads = append(reads, func(_ *loader.Model, x loader.Tensor) error { return call(x) })
	}
	for _, call := range modelCalls {
		reads = append(reads, whole(call))
	}
	target := func() string { return filepath.Join(out, strconv.Itoa(int(rand.Uint32()))) }
	reads = append(reads,
		whole(func(m *loader.Model) error {
			return survey.Stats(ctx, m, &survey.StatsOptions{Bins: 4}, func(*survey.TensorStats) error { return nil })
		}),
		whole(func(m *loader.Model) error {
			return survey.Hash(ctx, m, &survey.HashOptions{Values: true, Stored: true}, func(*survey.TensorDigest) error { return nil })
		}),
		whole(func(m *loader.Model) error {
			return survey.Compare(ctx, m, m, nil, func(*survey.Pair) error { return nil })
		}),
		whole(func(m *loader.Model) error {
			path := target()
			defer os.Remove(path)
			_, err := convert.Write(ctx, m, path, &convert.Options{Format: layout.APR2, Compress: convert.Fast, DType: layout.F16})
			return err
		}),
		whole(func(m *loader.Model) error {
			path := target()
			defer os.Remove(path)
			_, err := convert.Write(ctx, m, path, &convert.Options{Format: layout.SafeTensors})
			return err
		}),
	)
	faults, readers := 0, 4
	for round := range rounds {
		files := models[round%len(models)]
		dir := filepath.Join(out, "model")
		if err := os.CopyFS(dir, os.DirFS(files)); err != nil {
			t.Fatal(err)
		}
		m, err := loader.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		var tensors []loader.Tensor
		for x := range m.Tensors() {
			tensors = append(tensors, x)
		}
		var wg sync.WaitGroup
		errs := make([]error, 2*readers)
		for i := range errs {
			if i == readers {
				f := m.Files()[rng.IntN(len(m.Files()))]
				if err := os.Truncate(f.Path, rng.Int64N(int64(f.Size))); err != nil {
					t.Fatal(err)
				}
			}
			depth, read, x := rng.IntN(100), reads[rng.IntN(len(reads))], tensors[rng.IntN(len(tensors))]
			wg.Go(func() { errs[i] = inNewGoroutine(depth, func() error { return read(m, x) }) })
		}
		wg.Wait()
		for _, err := range errs {
			if errors.Is(err, mmapio.ErrFault) {
				faults++
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d truncations, %d faults", rounds, faults)
	if faults < rounds/4 {
		t.Error("few readers met a lost page")
	}
}
