package loader_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// bytesNamed makes a model of one-byte tensors, which hold their position modulo 251.
func bytesNamed(names []string) []byte {
	tensors := make([]modeltest.Tensor, len(names))
	for i, name := range names {
		tensors[i] = modeltest.Tensor{Name: name, DType: layout.U8, Shape: []int{1}, Data: []byte{byte(i % 251)}}
	}
	return modeltest.SafeTensors(tensors...)
}

func manyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("model.layers.%d.mlp.weight", (i*7919)%n) // 7919 is prime: every number once
	}
	return names
}

func TestTensorByName(t *testing.T) {
	for _, names := range [][]string{nil, {"a"}, {"", "a", "ä", "a b", "A"}, manyNames(10_000)} {
		m := openBytes(t, bytesNamed(names), nil)
		if m.Len() != len(names) {
			t.Errorf("Len = %d, want %d", m.Len(), len(names))
		}
		for i, name := range names {
			x := tensor(t, m, name)
			if b, err := x.Bytes(); err != nil || x.Name() != name || b[0] != byte(i%251) {
				t.Fatalf("%q: found %q, %v, %v", name, x.Name(), b, err)
			}
		}
		for _, name := range []string{"b", "model.layers.0.mlp.weigh", "model.layers.0.mlp.weightx", "\x00", strings.Repeat("a", 1<<20)} {
			x, err := m.Tensor(name)
			if !errors.Is(err, loader.ErrNotFound) || x != (loader.Tensor{}) {
				t.Errorf("%.20q: %v, %v", name, x, err)
			}
		}
	}
}

func TestNotFoundNamesFileAndTensor(t *testing.T) {
	m := openBytes(t, bytesNamed([]string{"a"}), nil)
	_, err := m.Tensor("no\nsuch")
	if want := `memory: tensor "no\nsuch": not found`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestIterationOrder(t *testing.T) {
	inFile := manyNames(100)
	sorted := slices.Sorted(slices.Values(inFile))
	m := openBytes(t, bytesNamed(inFile), nil)
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	tests := []struct {
		name string
		got  iter.Seq[loader.Tensor]
		want []string
	}{
		{"Tensors", m.Tensors(), inFile},
		{"ByName", slices.Values(slices.SortedFunc(m.Tensors(), loader.ByName)), sorted},
		{"Lease.Tensors", l.Tensors(), inFile},
	}
	for _, tt := range tests {
		for range 2 { // a sequence can be walked again
			if got := names(tt.got); !slices.Equal(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
		count := 0
		for range tt.got {
			if count++; count == 3 {
				break
			}
		}
		if count != 3 {
			t.Errorf("%s: %d steps until break", tt.name, count)
		}
	}
}

func TestLookupConcurrently(t *testing.T) {
	names := manyNames(1000)
	m := openBytes(t, bytesNamed(names), nil)
	sorted := slices.Sorted(slices.Values(names))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range names {
				name := names[(i+g*100)%len(names)]
				if x, err := m.Tensor(name); err != nil || x.Name() != name {
					t.Errorf("%s: %v, %v", name, x, err)
				}
			}
			i := 0
			for _, x := range slices.SortedFunc(m.Tensors(), loader.ByName) {
				if x.Name() != sorted[i] {
					t.Errorf("place %d is %s", i, x.Name())
				}
				i++
			}
		})
	}
	wg.Wait()
}

// TestNearNames: the text of ErrNotFound has names that may be meant. A program that only asks whether a
// tensor exists does not pay for them.
func TestNearNames(t *testing.T) {
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("layer.0.weight", layout.U8, 1), modeltest.Random("layer.0.bias", layout.U8, 1)), nil)
	_, err := m.Tensor("layer.0.wieght")
	if !errors.Is(err, loader.ErrNotFound) || !strings.HasSuffix(err.Error(), `tensor "layer.0.wieght": not found; did you mean "layer.0.weight"?`) {
		t.Error(err)
	}
	if _, err := m.Tensor("other"); strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { m.Tensor("layer.0.wieght") }); n > 1 {
		t.Errorf("a miss takes %v allocations", n)
	}
	if err := m.Close(); err != nil || !strings.Contains(fmt.Sprint(m.Tensor("layer.0.wieght")), "closed") {
		t.Error(err)
	}
}

// TestNearCodes: the text of ErrNotFound says why a weight has no values, if its codes are listed under their own name.
func TestNearCodes(t *testing.T) {
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("a.qweight", layout.I32, 16, 8), modeltest.Random("a.scales", layout.F16, 1, 8)), nil)
	if _, err := m.Tensor("a.weight"); err == nil || !strings.Contains(err.Error(), `tensor "a.weight": not found; its codes, "a.qweight", are not decoded: `) {
		t.Errorf("%v", err)
	}
	if _, err := m.Tensor("b.weight"); err == nil || strings.Contains(err.Error(), "codes") {
		t.Errorf("%v", err)
	}
}
