package loader_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// modelCalls are the methods of Model that need it open.
var modelCalls = func() map[string]func(m *loader.Model) error {
	ignoring := func(err, expected error) error { // which some files, platforms and small caches give
		if errors.Is(err, expected) {
			return nil
		}
		return err
	}
	released := func(l *loader.Lease, err error) error {
		if err == nil {
			l.Release()
		}
		return err
	}
	return map[string]func(m *loader.Model) error{
		"Tensor":   func(m *loader.Model) error { _, err := m.Tensor("i8"); return err },
		"Metadata": func(m *loader.Model) error { _, err := m.Metadata(); return err },
		"Config":   func(m *loader.Model) error { _, err := m.Config(context.Background()); return err },
		"ReadBeside": func(m *loader.Model) error {
			_, err := m.ReadBeside(context.Background(), "none.json", 1)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, loader.ErrUnsupported) {
				return nil
			}
			return err
		},
		"ResidentBytes": func(m *loader.Model) error { _, err := m.ResidentBytes(); return ignoring(err, errors.ErrUnsupported) },
		"Verify":        func(m *loader.Model) error { _, err := m.Verify(context.Background(), nil); return err },
		"WarmAll": func(m *loader.Model) error {
			_, err := m.WarmAll(context.Background(), nil)
			return ignoring(err, loader.ErrTooLarge)
		},
		"Warm": func(m *loader.Model) error {
			return ignoring(warmTensors(context.Background(), m, "q4", "i8"), loader.ErrTooLarge)
		},
		"Evict":     func(m *loader.Model) error { return m.Evict("i8") },
		"Footprint": func(m *loader.Model) error { _, err := m.Footprint(nil); return err },
		"Resident": func(m *loader.Model) error {
			_, err := m.Resident(0, 0, 1)
			return ignoring(err, errors.ErrUnsupported)
		},
		"Stream": func(m *loader.Model) error {
			_, err := m.Stream(context.Background(), []string{"q4"}, &loader.StreamOptions{Buffers: buffers(2, 1000)}, func(loader.Piece) error { return nil })
			return err
		},
		"StreamAll": func(m *loader.Model) error {
			_, err := m.StreamAll(context.Background(), &loader.StreamOptions{Buffers: buffers(2, 1000)}, func(loader.Piece) error { return nil })
			return err
		},
		"Region": func(m *loader.Model) error {
			r, err := m.Region(context.Background(), 0)
			if err == nil {
				r.Release()
			}
			return ignoring(err, errors.ErrUnsupported)
		},
		"ReadFileAt":  func(m *loader.Model) error { return m.ReadFileAt(context.Background(), 0, make([]byte, 3), 1) },
		"Changed":     func(m *loader.Model) error { return m.Changed() },
		"VerifyTrust": func(m *loader.Model) error { return m.VerifyTrust(context.Background(), nil) },
		"Acquire":     func(m *loader.Model) error { return released(m.Acquire()) },
		"AcquireContext": func(m *loader.Model) error {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			return released(m.AcquireContext(ctx))
		},
	}
}()

// tensorCalls are the methods of Tensor that need the model open, on an I8 tensor of an
// APR2 file, whose scale is in the metadata.
var tensorCalls = map[string]func(x loader.Tensor) error{
	"Bytes":           func(x loader.Tensor) error { _, err := x.Bytes(); return err },
	"Float32s":        func(x loader.Tensor) error { _, err := x.Float32s(); return err },
	"Dequantize":      func(x loader.Tensor) error { return x.Dequantize(make([]float32, x.Elements())) },
	"DequantizeRows":  func(x loader.Tensor) error { return x.DequantizeRows(make([]float32, x.Shape()[1]), 1, 1) },
	"DequantizeRange": func(x loader.Tensor) error { return x.DequantizeRange(make([]float32, 5), 3) },
	"ReadAt":          func(x loader.Tensor) error { _, err := x.ReadAt(make([]byte, 3), 2); return err },
	"WriteTo":         func(x loader.Tensor) error { _, err := x.WriteTo(io.Discard); return err },
	"WriteDecrypted":  func(x loader.Tensor) error { _, err := x.WriteDecrypted(io.Discard); return err },
	"WriteAs": func(x loader.Tensor) error {
		_, err := x.WriteAs(context.Background(), io.Discard, layout.BF16)
		return err
	},
	"ReadAs": func(x loader.Tensor) error { return x.ReadAs(context.Background(), make([]byte, 10), layout.F16, 3) },
	"MatVec": func(x loader.Tensor) error {
		return x.MatVec(context.Background(), make([]float32, x.Elements()/uint64(x.Shape()[1])), make([]float32, x.Shape()[1]))
	},
	"MatMul": func(x loader.Tensor) error {
		return x.MatMul(context.Background(), make([]float32, 2*x.Elements()/uint64(x.Shape()[1])), make([]float32, 2*x.Shape()[1]), 2)
	},
	"Scale": func(x loader.Tensor) error { _, _, err := x.Scale(); return err },
	"Values": func(x loader.Tensor) (err error) {
		for _, err = range x.Values(make([]float32, 5)) {
		}
		return err
	},
	"View": func(x loader.Tensor) error { _, err := loader.View[int8](x); return err }, // no method
}

// What can be asked for ever.
var (
	modelFacts  = []string{"Len", "Format", "Files", "Tensors", "Close", "Path", "Done", "Stats", "HeldLeases", "Granularity", "ConfigFile", "Quantization"}
	tensorFacts = []string{"Name", "DType", "Shape", "Elements", "Rows", "Offset", "StoredBytes", "RawBytes", "Encoding", "Decrypted", "File", "ZeroCopy", "Scheme", "Parts", "Problem", "Stored", "Slice"}
)

// TestEveryMethodIsTested fails when a method is new: it must be entered above.
func TestEveryMethodIsTested(t *testing.T) {
	check := func(of reflect.Type, facts []string, called func(name string) bool) {
		for method := range of.Methods() {
			if name := method.Name; called(name) == slices.Contains(facts, name) {
				t.Errorf("%v.%s is not tested after Close, or twice", of, name)
			}
		}
	}
	check(reflect.TypeFor[*loader.Model](), modelFacts, func(name string) bool { return modelCalls[name] != nil })
	check(reflect.TypeFor[loader.Tensor](), tensorFacts, func(name string) bool { return tensorCalls[name] != nil })
}

func TestAfterClose(t *testing.T) {
	eachWay(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), func(t *testing.T, m *loader.Model) {
		x := tensor(t, m, "i8")
		for name, call := range modelCalls {
			if err := call(m); err != nil {
				t.Errorf("%s before Close: %v", name, err)
			}
		}
		for name, call := range tensorCalls {
			if err := call(x); err != nil {
				t.Errorf("%s before Close: %v", name, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for name, call := range modelCalls {
				if err := call(m); !errors.Is(err, loader.ErrClosed) {
					t.Errorf("%s after Close: %v", name, err)
				}
			}
			for name, call := range tensorCalls {
				if err := call(x); !errors.Is(err, loader.ErrClosed) {
					t.Errorf("%s after Close: %v", name, err)
				}
			}
			if err := m.Close(); !errors.Is(err, loader.ErrClosed) {
				t.Errorf("another Close: %v", err)
			}
		}
		if x.Name() != "i8" || !slices.Equal(x.Shape(), []int{3, 4}) || x.DType() != layout.I8 || x.RawBytes() != 12 || x.File() != 0 {
			t.Errorf("description after Close: %v", x)
		}
		if m.Len() != 3 || m.Format() != layout.APR2 || len(m.Files()) != 1 {
			t.Error("facts about the model are gone")
		}
		if all := names(m.Tensors()); all != nil {
			t.Errorf("iteration after Close: %v", all)
		}
	})
}

// TestCopiesOutliveClose: what is not the mapping is memory of its own.
func TestCopiesOutliveClose(t *testing.T) {
	c := modeltest.Random("q", layout.Q8_0, 4, 32)
	m := openPath(t, modeltest.Write(t, "model", shifted(modeltest.APR2Model(t, nil, c), 1)), nil)
	x := tensor(t, m, "q")
	values, err := x.Float32s()
	b, err2 := x.Bytes()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	before := slices.Clone(values)
	m.Close()
	if !modeltest.SameFloats(values, before) || !slices.Equal(b, c.Data) {
		t.Error("copies changed with Close")
	}
}

func TestCloseInIteration(t *testing.T) {
	m := openBytes(t, bytesNamed(manyNames(10)), nil)
	seen := 0
	for range m.Tensors() {
		if seen++; seen == 4 {
			m.Close()
		}
	}
	if seen != 4 {
		t.Errorf("%d tensors seen, closed after 4", seen)
	}
}

func TestCloseInValues(t *testing.T) {
	m := openBytes(t, modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F16, 10, 4)), nil)
	steps, last := 0, error(nil)
	for _, err := range tensor(t, m, "x").Values(make([]float32, 8)) {
		if steps++; steps == 2 {
			m.Close()
		}
		last = err
	}
	if steps != 3 || !errors.Is(last, loader.ErrClosed) {
		t.Errorf("%d steps, %v", steps, last)
	}
}
