package loader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// Named types, as callers have them.
type (
	half   uint16
	octet  byte
	real32 float32
)

// viewer is View for one type.
type viewer struct {
	name string
	// bits views the tensor, compares the view with what encoding/binary makes of want,
	// and returns the view's own memory (a copy on a big-endian machine).
	view func(x loader.Tensor, want []byte) (memory []byte, err error)
}

func viewerOf[T mmapio.Number](name string) viewer {
	align := reflect.TypeFor[T]().Align()
	return viewer{name, func(x loader.Tensor, want []byte) ([]byte, error) {
		v, err := loader.View[T](x)
		if err != nil {
			return nil, err
		}
		var encoded bytes.Buffer
		binary.Write(&encoded, binary.LittleEndian, v)
		if !bytes.Equal(encoded.Bytes(), want) {
			return nil, fmt.Errorf("encodes to %.16x…, want %.16x…", encoded.Bytes(), want)
		}
		if cap(v) != len(v) {
			return nil, fmt.Errorf("capacity %d, length %d", cap(v), len(v))
		}
		memory := mmapio.Bytes(v)
		if len(v) > 0 && !mmapio.IsAligned(memory, align) {
			return nil, errors.New("view is misaligned")
		}
		return memory, nil
	}}
}

var viewers = []viewer{
	viewerOf[byte]("byte"), viewerOf[octet]("octet"), viewerOf[int8]("int8"),
	viewerOf[uint16]("uint16"), viewerOf[half]("half"), viewerOf[int16]("int16"),
	viewerOf[uint32]("uint32"), viewerOf[int32]("int32"), viewerOf[float32]("float32"), viewerOf[real32]("real32"),
	viewerOf[uint64]("uint64"), viewerOf[int64]("int64"), viewerOf[float64]("float64"),
	viewerOf[complex64]("complex64"), viewerOf[complex128]("complex128"),
}

// views says which types a dtype may be viewed as, besides byte.
var views = map[layout.DType]string{
	layout.F32: "uint32 float32 real32", layout.F64: "uint64 float64",
	layout.F16: "uint16 half", layout.BF16: "uint16 half",
	layout.I8: "int8", layout.I16: "uint16 half int16", layout.I32: "uint32 int32", layout.I64: "uint64 int64",
	layout.U8: "", layout.U16: "uint16 half", layout.U32: "uint32", layout.U64: "uint64",
	layout.BOOL: "", layout.C64: "uint64 complex64",
	layout.F8_E4M3: "", layout.F8_E5M2: "", layout.F8_E8M0: "", layout.F4: "", layout.F6_E2M3: "",
	layout.Q4_0: "", layout.Q8_0: "", layout.Q6_K: "",
}

func TestViewTypes(t *testing.T) {
	for d, allowed := range views {
		c := modeltest.Finite("x", d, 3, 256)
		b := modeltest.SafeTensors(c)
		if d.Quantized() {
			b = modeltest.APR2Model(t, nil, c)
		}
		x := tensor(t, openBytes(t, b, nil), "x")
		want := append(strings.Fields(allowed), "byte", "octet")
		for _, v := range viewers {
			_, err := v.view(x, c.Data)
			switch {
			case slices.Contains(want, v.name):
				if err != nil {
					t.Errorf("%v as %s: %v", d, v.name, err)
				}
			case !errors.Is(err, loader.ErrUnsupported):
				t.Errorf("%v as %s: %v", d, v.name, err)
			case !strings.HasPrefix(err.Error(), `memory: tensor "x": `):
				t.Errorf("%v as %s: %q names no tensor", d, v.name, err)
			}
		}
	}
}

// TestViewEveryAlignment places tensors at every offset modulo 8 of the file. A view is
// the file itself exactly where the tensor says so, and never misaligned.
func TestViewEveryAlignment(t *testing.T) {
	for phase := range 8 {
		for d, allowed := range views {
			if d.Quantized() {
				continue // not in SafeTensors
			}
			c := modeltest.Finite("x", d, 12)
			path := modeltest.Write(t, "model", modeltest.SafeTensorsAt(phase, "", c))
			m := openPath(t, path, nil)
			x := tensor(t, m, "x")
			if x.Offset()%8 != uint64(phase) {
				t.Fatalf("offset %d, phase %d", x.Offset(), phase)
			}
			want := mapsFiles && phase%d.Align() == 0
			if x.ZeroCopy() != want {
				t.Errorf("%v at %d: ZeroCopy %v", d, phase, x.ZeroCopy())
			}
			b, err := x.Bytes()
			if err != nil || !bytes.Equal(b, c.Data) || inPlace(m, x, b) != want {
				t.Errorf("%v at %d: Bytes in place %v, %v", d, phase, inPlace(m, x, b), err)
			}
			for _, v := range viewers {
				if !slices.Contains(strings.Fields(allowed), v.name) || d == layout.C64 && v.name == "uint64" {
					continue // TestViewComplexBits has the last
				}
				memory, err := v.view(x, c.Data)
				if err != nil || littleEndian && inPlace(m, x, memory) != want {
					t.Errorf("%v at %d as %s: in place %v, %v", d, phase, v.name, inPlace(m, x, memory), err)
				}
			}
		}
	}
}

// inPlace reports whether b is the tensor in the mapped file.
func inPlace(m *loader.Model, x loader.Tensor, b []byte) bool {
	file := loader.MappingOf(m).Bytes()
	return len(b) > 0 && file != nil && &file[x.Offset()] == &b[0]
}

// TestViewComplexBits: complex numbers are aligned as their halves, and uint64 is not.
func TestViewComplexBits(t *testing.T) {
	for phase := range 8 {
		c := modeltest.Finite("x", layout.C64, 12)
		x := tensor(t, openBytes(t, modeltest.SafeTensorsAt(phase, "", c), nil), "x")
		for _, v := range []viewer{viewerOf[uint64]("uint64"), viewerOf[complex64]("complex64")} {
			if _, err := v.view(x, c.Data); err != nil {
				t.Errorf("at %d as %s: %v", phase, v.name, err)
			}
		}
	}
}

func TestViewOfOddMemory(t *testing.T) {
	for phase := range 8 {
		tensors := []modeltest.Tensor{modeltest.Finite("f64", layout.F64, 3), modeltest.Finite("f32", layout.F32, 3), modeltest.Finite("f16", layout.F16, 3), modeltest.Finite("u8", layout.U8, 3)}
		file := modeltest.SafeTensorsAt(phase, "", tensors...)
		for base := range 8 {
			memory := mmapio.AlignedBytes(len(file) + base)[base:]
			copy(memory, file)
			m := openBytes(t, memory, nil)
			for _, c := range tensors {
				x := tensor(t, m, c.Name)
				b, err := x.Bytes()
				if err != nil || x.ZeroCopy() != inPlace(m, x, b) {
					t.Errorf("%s at %d+%d: ZeroCopy %v, in place %v, %v", c.Name, base, phase, x.ZeroCopy(), inPlace(m, x, b), err)
				}
				if !mmapio.IsAligned(b, c.DType.Align()) {
					t.Errorf("%s at %d+%d: Bytes are misaligned", c.Name, base, phase)
				}
				if base == 0 && phase == 0 && !x.ZeroCopy() {
					t.Errorf("%s is aligned, but copied", c.Name)
				}
				for _, v := range viewers {
					if _, err := v.view(x, c.Data); err != nil && !errors.Is(err, loader.ErrUnsupported) {
						t.Errorf("%s at %d+%d as %s: %v", c.Name, base, phase, v.name, err)
					}
				}
			}
		}
	}
}

// TestPromisedAlignment moves tensors to where their types are aligned, but not as the
// file's flags promise.
func TestPromisedAlignment(t *testing.T) {
	tensors := []modeltest.Tensor{modeltest.Finite("a", layout.F32, 5), modeltest.Finite("b", layout.U8, 5), modeltest.Finite("c", layout.Q4_0, 32)}
	good := modeltest.APR2Model(t, nil, tensors...)
	for _, shift := range []int{0, 1, 4, 32, 64} {
		m := openPath(t, modeltest.Write(t, "model", shifted(good, shift)), nil)
		for _, c := range tensors {
			x := tensor(t, m, c.Name)
			b, err := x.Bytes()
			want := mapsFiles && shift%64 == 0
			if err != nil || !bytes.Equal(b, c.Data) || x.ZeroCopy() != want || inPlace(m, x, b) != want {
				t.Errorf("%s moved by %d: ZeroCopy %v, in place %v, %v", c.Name, shift, x.ZeroCopy(), inPlace(m, x, b), err)
			}
			if !x.ZeroCopy() && !mmapio.IsAligned(b, 64) {
				t.Errorf("%s: copy is misaligned", c.Name)
			}
		}
	}
}

func TestViewOfNothing(t *testing.T) {
	for phase := range 8 {
		x := tensor(t, openBytes(t, modeltest.SafeTensorsAt(phase, "", modeltest.Finite("x", layout.F64, 3, 0)), nil), "x")
		if v, err := loader.View[float64](x); err != nil || v == nil || len(v) != 0 {
			t.Errorf("at %d: %v, %v", phase, v, err)
		}
		if v, err := x.Float32s(); err != nil || v == nil || len(v) != 0 {
			t.Errorf("at %d: %v, %v", phase, v, err)
		}
	}
}

// TestFloat32sIsTheView holds for F32: no second copy is made.
func TestFloat32sIsTheView(t *testing.T) {
	if !littleEndian {
		t.Skip("views are copies here")
	}
	for phase := range 8 {
		m := openBytes(t, modeltest.SafeTensorsAt(phase, "", modeltest.Finite("x", layout.F32, 9)), nil)
		x := tensor(t, m, "x")
		v, err := loader.View[float32](x)
		f, err2 := x.Float32s()
		if err != nil || err2 != nil || &v[0] != &f[0] {
			t.Errorf("at %d: %v, %v", phase, err, err2)
		}
	}
}
