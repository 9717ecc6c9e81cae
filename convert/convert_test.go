package convert_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// toAPR2 converts m, and opens the result once it is verified.
func toAPR2(t *testing.T, m *loader.Model, opts *convert.Options) (*loader.Model, *convert.Plan) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.apr")
	r, err := convert.Write(context.Background(), m, path, opts)
	if err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, filepath.Dir(path), "out.apr")
	out := open(t, path, nil)
	report, err := out.Verify(context.Background(), nil)
	if err != nil || len(report.Findings) != 0 {
		t.Errorf("the new file is not in order: %v, %v", report, err)
	}
	if size := out.Files()[0].Size; len(r.Tensors) != out.Len() || r.Bytes != size || out.Format() != layout.APR2 {
		t.Errorf("%+v, but %d tensors and %d bytes", r, m.Len(), size)
	}
	return out, r
}

// sameTensors compares order, names, types and bytes. An APR2 file writes a scalar as [1].
func sameTensors(t *testing.T, got, want *loader.Model) {
	t.Helper()
	list := slices.Collect(want.Tensors())
	i := 0
	for x := range got.Tensors() {
		if i == len(list) {
			t.Fatalf("a tensor too many: %s", x.Name())
		}
		w := list[i]
		i++
		a, err := x.Bytes()
		b, err2 := w.Bytes()
		if x.Name() != w.Name() || x.DType() != w.DType() || !slices.Equal(asAPR2(x.Shape()), asAPR2(w.Shape())) || !bytes.Equal(a, b) || err != nil || err2 != nil {
			t.Errorf("%s %v %v is not %s %v %v; %v, %v", x.Name(), x.DType(), x.Shape(), w.Name(), w.DType(), w.Shape(), err, err2)
		}
	}
	if i != len(list) {
		t.Errorf("%d of %d tensors", i, len(list))
	}
}

func asAPR2(shape []int) []int {
	if len(shape) == 0 {
		return []int{1}
	}
	return shape
}

func TestFixtures(t *testing.T) {
	for _, path := range fixtures(t) {
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			m := open(t, path, opts)
			if m.Format() == layout.APR2 && !wellFormed(t, m) {
				continue // toAPR2 would find what the source's metadata lacks
			}
			out, _ := toAPR2(t, m, nil)
			sameValues(t, out, m)
		}
	}
}

// wellFormed reports whether the metadata is as the specification wants it.
func wellFormed(t *testing.T, m *loader.Model) bool {
	md, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	architecture, _ := md.Get("architecture")
	_, isObject := architecture.(layout.Metadata)
	return len(md) == 0 || isObject
}

// everyDType that APR2 and SafeTensors share.
func everyDType() (list []content) {
	for _, d := range []layout.DType{layout.U8, layout.F64, layout.F32, layout.F16, layout.BF16, layout.I8, layout.I16, layout.I32, layout.I64,
		layout.U16, layout.U32, layout.U64, layout.BOOL, layout.F8_E4M3, layout.F8_E5M2} {
		list = append(list, counting(d.String(), d, 3, 5))
	}
	return append(list, counting("scalar", layout.F32), counting("none", layout.F32, 2, 0))
}

func TestSources(t *testing.T) {
	for phase := range 8 {
		path := write(t, safeTensors(phase, "{}", everyDType()...))
		for _, opts := range []*loader.Options{nil, {NoMap: true}, {CacheBytes: -1}} {
			m := open(t, path, opts)
			out, _ := toAPR2(t, m, nil)
			sameTensors(t, out, m)
		}
	}
}

func TestAlignment(t *testing.T) {
	m := openBytes(t, safeTensors(1, "{}", everyDType()...))
	for _, tt := range []struct {
		align int
		want  uint64
		flag  string
	}{{0, 64, "ALIGNED_64"}, {64, 64, "ALIGNED_64"}, {32, 32, "ALIGNED_32"}} {
		out, _ := toAPR2(t, m, &convert.Options{Align: tt.align})
		sameTensors(t, out, m)
		odd := 0
		for x := range out.Tensors() {
			if x.Offset()%tt.want != 0 {
				t.Errorf("align %d: %s at %d", tt.align, x.Name(), x.Offset())
			}
			if x.Offset()%64 != 0 {
				odd++
			}
		}
		if ix := out.Files()[0].Layout.Index(); ix.Align != tt.want || !slices.Contains(ix.Flags, tt.flag) || (odd > 0) != (tt.want == 32) {
			t.Errorf("align %d: %d, %v, %d tensors off 64", tt.align, ix.Align, ix.Flags, odd)
		}
	}
	dir := t.TempDir()
	if _, err := convert.Write(context.Background(), m, filepath.Join(dir, "x.apr"), &convert.Options{Align: 16}); !errors.Is(err, layout.ErrInvalid) {
		t.Errorf("align 16: %v", err)
	}
	onlyFiles(t, dir)
}

func TestProgress(t *testing.T) {
	m := openBytes(t, safeTensors(0, "{}", counting("a", layout.F32, 1<<22), counting("b", layout.U8, 5), counting("c", layout.F32, 1<<22)))
	last, steps := uint64(0), 0
	out, r := toAPR2(t, m, &convert.Options{Progress: func(done, total uint64) {
		if done < last || done > total {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
		steps++
	}})
	if size := out.Files()[0].Size; steps < 5 || last != size || r.Bytes != size {
		t.Errorf("%d steps, the last at %d of %d", steps, last, size)
	}
}

// TestProgressPanics has the callback end the caller's goroutine in the middle of a tensor,
// however that is written, and of the second shard: nothing is left behind.
func TestProgressPanics(t *testing.T) {
	errCallback := errors.New("the caller's callback panicked")
	file := write(t, safeTensors(0, "{}", counting("a", layout.F32, 1<<18), counting("b", layout.F32, 1<<21)))
	for name, callback := range map[string]func(){"panic": func() { panic(errCallback) }, "Goexit": runtime.Goexit} {
		for _, opts := range []convert.Options{{}, {Compress: convert.Fast}, {DType: layout.F16}, {ShardBytes: 2 << 20}} {
			opts.Progress = func(done, _ uint64) {
				if done > 2<<20 {
					callback()
				}
			}
			for _, out := range []string{"out.apr", "out.safetensors"} {
				if out == "out.safetensors" && opts.Compress != 0 {
					continue
				}
				for _, noMap := range []bool{false, true} {
					m := open(t, file, &loader.Options{NoMap: noMap})
					dir := t.TempDir()
					var panicked any
					returned := false
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { panicked = recover() }()
						convert.Write(context.Background(), m, filepath.Join(dir, out), &opts)
						returned = true
					}()
					<-done
					if returned || name == "panic" && panicked != errCallback {
						t.Errorf("%s: recovered %v, returned %v", name, panicked, returned)
					}
					onlyFiles(t, dir)
				}
			}
		}
	}
}

// TestFailureLeavesTarget: what the path stood for before is still there, and nothing else.
func TestFailureLeavesTarget(t *testing.T) {
	good := safeTensors(0, "{}", counting("a", layout.F32, 1<<20), counting("b", layout.F32, 1<<22))
	tests := []struct {
		name   string
		source []byte
		run    func(m *loader.Model, path string) error
		want   error
	}{
		{"cancelled before", good, func(m *loader.Model, path string) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := convert.Write(ctx, m, path, nil)
			return err
		}, context.Canceled},
		{"cancelled in a tensor", good, func(m *loader.Model, path string) error {
			ctx, cancel := context.WithCancel(context.Background())
			_, err := convert.Write(ctx, m, path, &convert.Options{Progress: func(done, _ uint64) {
				if done > 10<<20 { // "b" has 16 MiB from 4 MiB on
					cancel()
				}
			}})
			return err
		}, context.Canceled},
		{"closed", good, func(m *loader.Model, path string) error {
			m.Close()
			_, err := convert.Write(context.Background(), m, path, nil)
			return err
		}, loader.ErrClosed},
		{"not a dtype to encode", good, func(m *loader.Model, path string) error {
			_, err := convert.Write(context.Background(), m, path, &convert.Options{DType: layout.IQ1_S})
			return err
		}, layout.ErrUnsupported},
	}
	for _, tt := range tests {
		for _, old := range []string{"", "old content"} {
			dir := t.TempDir()
			path := filepath.Join(dir, "out.apr")
			var want []string
			if old != "" {
				if err := os.WriteFile(path, []byte(old), 0o666); err != nil {
					t.Fatal(err)
				}
				want = []string{"out.apr"}
			}
			m := openBytes(t, tt.source)
			if err := tt.run(m, path); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
			onlyFiles(t, dir, want...)
			if b, _ := os.ReadFile(path); string(b) != old {
				t.Errorf("%s: the old file is now %.20q", tt.name, b)
			}
		}
	}
}

func TestNoDirectory(t *testing.T) {
	m := openBytes(t, safeTensors(0, "{}", counting("a", layout.U8, 1)))
	path := filepath.Join(t.TempDir(), "missing", "out.apr")
	if _, err := convert.Write(context.Background(), m, path, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestOntoItself replaces the file that is being read.
func TestOntoItself(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("an open file cannot be replaced here")
	}
	want := openBytes(t, safeTensors(3, "{}", everyDType()...))
	path := write(t, safeTensors(3, "{}", everyDType()...))
	m := open(t, path, nil)
	if _, err := convert.Write(context.Background(), m, path, &convert.Options{Format: layout.APR2}); err != nil {
		t.Fatal(err)
	}
	sameTensors(t, m, m) // still reads the old file
	sameTensors(t, open(t, path, nil), want)
}

// TestMemoryIsConstant: nothing of the source is kept, whether or not it has to be read.
func TestMemoryIsConstant(t *testing.T) {
	path := write(t, safeTensors(1, "{}", counting("a", layout.F32, 1<<20), counting("b", layout.F32, 1<<20)))
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		m := open(t, path, opts)
		toAPR2(t, m, nil)
		if s := m.Stats(); s.HeapBytes != 0 || s.Expansions != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// TestPlanIsFrugal: a tensor of which an earlier conversion has noted nothing costs a few allocations.
func TestPlanIsFrugal(t *testing.T) {
	const n = 1000
	var tensors []content
	for i := range n {
		tensors = append(tensors, counting(fmt.Sprint(i), layout.F32, 1))
	}
	m := openBytes(t, safeTensors(1, "{}", tensors...))
	allocs := testing.AllocsPerRun(10, func() {
		if _, err := convert.NewPlan(context.Background(), m, "out.apr", nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 4*n {
		t.Errorf("%v allocations for %d tensors", allocs, n)
	}
}
