package loader_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

const quantizedData = "../testdata/quantized"

// checkpoints lists the fixtures of quantized checkpoints that real writers wrote.
func checkpoints(t *testing.T) (list []string) {
	dirs, err := filepath.Glob(filepath.Join(quantizedData, "*", "expected.safetensors"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, path := range dirs {
		list = append(list, filepath.Dir(path))
	}
	return list
}

// TestQuantizedCheckpoints: the values of every logical tensor are those that the reference
// computes, whole, by rows and by ranges.
func TestQuantizedCheckpoints(t *testing.T) {
	for _, dir := range checkpoints(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want := openPath(t, filepath.Join(dir, "expected.safetensors"), nil)
			for _, w := range kindsNamed("Open", "Open/NoMap") {
				m := w.at(t, dir, nil)
				for x := range want.Tensors() {
					got, err := m.Tensor(x.Name())
					if err != nil { // fused experts, whose parts are called .weight_packed and so on
						got = tensor(t, m, x.Name()+".weight")
					}
					if err := sameAsExpected(x, got); err != nil {
						t.Errorf("%s: %v", w.name, err)
					}
				}
				for x := range m.Tensors() {
					if x.Problem() != nil {
						t.Errorf("%v", x.Problem())
					}
				}
			}
		})
	}
}

// TestQuantizedByPython: what Python's json writes for floats that JSON does not have, as Mamba-2's time_step_limit, does not
// keep a configuration from being read.
func TestQuantizedByPython(t *testing.T) {
	for fixture, file := range map[string]string{"gptq-4bit": "config.json", "modelopt-nvfp4": "hf_quant_config.json"} {
		dir := copyDir(t, filepath.Join(quantizedData, fixture))
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte(`{"time_step_limit": [0.0, Infinity], "a": NaN, "rope_theta": -Infinity, `), bytes.TrimPrefix(bytes.TrimSpace(text), []byte("{"))...)
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o666); err != nil {
			t.Fatal(err)
		}
		m, want := openPath(t, dir, nil), openPath(t, filepath.Join(dir, "expected.safetensors"), nil)
		for x := range want.Tensors() {
			if err := sameAsExpected(x, tensor(t, m, x.Name())); err != nil {
				t.Errorf("%s: %v", fixture, err)
			}
		}
		if theta, err := must(m.Config(t.Context()))(t).Float("rope_theta"); file == "config.json" && (!math.IsInf(theta, -1) || err != nil) {
			t.Errorf("%s: %v, %v", fixture, theta, err)
		}
		if _, err := must(m.Config(t.Context()))(t).Int("rope_theta"); file == "config.json" && !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%s: %v", fixture, err)
		}
	}
}

// TestPendingCheckpoints: checkpoints that known writers wrote and that are not decoded have the right values or none. Some of
// their layers are like others that are decoded.
func TestPendingCheckpoints(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(quantizedData, "pending", "*", "expected.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range dirs {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			want, m := openPath(t, path, nil), openPath(t, filepath.Dir(path), nil)
			refused := 0
			for x := range want.Tensors() {
				stem := strings.TrimSuffix(x.Name(), "weight")
				for _, codes := range []string{"weight", "weight_packed", "qweight"} {
					got, err := m.Tensor(stem + codes)
					if err != nil {
						continue
					}
					if _, err := got.Float32s(); err != nil {
						refused++
					} else if err := sameAsExpected(x, got); err != nil {
						t.Error(err)
					}
					break
				}
			}
			if refused == 0 {
				t.Error("nothing is refused: it belongs with the others")
			}
		})
	}
}

// sameAsExpected compares the values of a logical tensor with those of an F32 tensor, bit by bit.
func sameAsExpected(want, got loader.Tensor) error {
	if !slices.Equal(want.Shape(), got.Shape()) {
		return fmt.Errorf("%s: shape %v, want %v", got.Name(), got.Shape(), want.Shape())
	}
	w, err := want.Float32s()
	if err != nil {
		return err
	}
	n := uint64(len(w))
	zeros := got.Scheme() != nil && got.Scheme().Scheme == scheme.BnbFP4 // whose kernels give zeros of either sign
	for _, from := range []uint64{n, n / 2, n / 3, 0} {
		dst := make([]float32, min(n-from, 77+n/4))
		if err := got.DequantizeRange(dst, from); err != nil {
			return err
		}
		if err := compareBits(got.Name(), w[from:][:len(dst)], dst, from, zeros); err != nil {
			return err
		}
	}
	all, err := got.Float32s()
	if err != nil {
		return err
	}
	if err := compareBits(got.Name(), w, all, 0, zeros); err != nil {
		return err
	}
	all, err = expansions["WriteAs"](got)
	return cmp.Or(err, compareBits(got.Name(), w, all, 0, zeros))
}

// compareBits returns an error for the first element of got that is not that of want, bit by bit, or if their numbers differ. got are elements
// of the tensor called name, from element from on. With zeros, a zero of either sign is the same.
func compareBits(name string, want, got []float32, from uint64, zeros bool) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d elements from %d on, want %d", name, len(got), from, len(want))
	}
	if modeltest.SameBits(want, got) {
		return nil
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] != 0 || want[i] != 0 || !zeros) {
			return fmt.Errorf("%s: element %d is %v, want %v", name, from+uint64(i), got[i], want[i])
		}
	}
	return nil
}

// TestQuantizedRowsAllocateNothing: after the first row a row of a mapped logical tensor costs no memory of its
// own, nor does looking the tensor up.
func TestQuantizedRowsAllocateNothing(t *testing.T) {
	if testmode.ChecksPointers() || testmode.Races() {
		t.Skip("the portable loops allocate then, or pools forget")
	}
	if !mapsFiles {
		t.Skip("nothing maps: a row is read into a buffer")
	}
	for _, dir := range checkpoints(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m := openPath(t, dir, nil)
			l, err := m.Acquire()
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			for x := range l.Tensors() {
				if x.Scheme() == nil || x.Elements() == 0 {
					continue
				}
				name, shape := x.Name(), x.Shape()
				row := make([]float32, shape[len(shape)-1])
				last := x.Elements()/uint64(len(row)) - 1
				for where, from := range map[string]interface {
					Tensor(string) (loader.Tensor, error)
				}{"model": m, "lease": l} {
					if n := testing.AllocsPerRun(20, func() {
						x, err := from.Tensor(name)
						if err == nil {
							err = errors.Join(x.DequantizeRows(row, last, 1), x.DequantizeRange(row[:1], 0))
						}
						if err != nil {
							t.Fatal(err)
						}
					}); n != 0 {
						t.Errorf("%s/%s (%s): %v allocations", where, name, x.Scheme().Scheme, n)
					}
				}
			}
		})
	}
}
