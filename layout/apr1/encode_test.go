package apr1

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

func tensor(name string, d layout.DType, shape ...uint64) layout.Tensor {
	t := layout.Tensor{Name: []byte(name), DType: d, Shape: shape}
	if d == layout.I8 {
		t.Scaled, t.Quant.Scale = true, 0.5
	}
	return t
}

func scaled(scale float32, zero int64) layout.Tensor {
	t := tensor("a", layout.I8)
	t.Quant = layout.Quant{Scale: scale, Zero: zero}
	return t
}

func TestWriterRefuses(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	many := make([]layout.Tensor, 1<<16)
	for i := range many {
		many[i] = tensor(strings.Repeat("n", 1+i%40), layout.F32)
	}
	one := []layout.Tensor{tensor("a", layout.F32)}
	for _, tc := range []struct {
		name    string
		tensors []layout.Tensor
		opts    Options
		want    error
		field   string
		offset  uint64
		reason  string
	}{
		{"none", nil, Options{}, layout.ErrLimit, "n_tensors", 9, "0, not 1 to 65535"},
		{"too many", many, Options{}, layout.ErrLimit, "n_tensors", 9, "65536, not 1 to 65535"},
		{"name twice", []layout.Tensor{tensor("a", layout.F32), tensor("a", layout.F32)}, Options{}, layout.ErrDuplicate, "name", 148, `"a"`},
		{"name NUL", []layout.Tensor{tensor("a\x00b", layout.F32), tensor("a", layout.F32)}, Options{}, layout.ErrInvalid, "name", 52, "NUL"},
		{"name UTF-8", []layout.Tensor{tensor("\xff", layout.F32)}, Options{}, layout.ErrInvalid, "name", 52, "UTF-8"},
		{"name cut", []layout.Tensor{tensor("a\xc3", layout.F32)}, Options{}, layout.ErrInvalid, "name", 52, "UTF-8"},
		{"name length", []layout.Tensor{tensor(strings.Repeat("n", 48), layout.F32)}, Options{}, layout.ErrLimit, "name", 52, "48 bytes, more than 47"},
		{"dims", []layout.Tensor{tensor("a", layout.F32, 1, 1, 1, 1, 1)}, Options{}, layout.ErrLimit, "n_dims", 140, "5 dimensions"},
		{"dim", []layout.Tensor{tensor("a", layout.F32, 0, 1<<32)}, Options{}, layout.ErrLimit, "shape", 124, "4294967296 does not fit"},
		{"elements", []layout.Tensor{tensor("a", layout.F16, 1<<32-1, 1<<32-1, 1<<32-1)}, Options{}, layout.ErrInvalid, "shape", 124, "2^64"},
		{"size", []layout.Tensor{tensor("a", layout.I8, 1<<31, 1<<31), tensor("b", layout.I8, 1<<31, 1<<31)}, Options{}, layout.ErrLimit, "size", 204, "2^63"},
		{"dtype", []layout.Tensor{tensor("a", layout.BF16)}, Options{}, layout.ErrUnsupported, "quantization", 7, "BF16, not F32"},
		{"two dtypes", []layout.Tensor{tensor("a", layout.F32), tensor("b", layout.F16)}, Options{}, layout.ErrUnsupported, "quantization", 7, `"b": F16 among tensors of F32`},
		{"no scale", []layout.Tensor{{Name: []byte("a"), DType: layout.I8}}, Options{}, layout.ErrInvalid, "scale", 52, "without a scale"},
		{"zero point", []layout.Tensor{scaled(1, 1)}, Options{}, layout.ErrInvalid, "scale", 52, "zero point"},
		{"scale Inf", []layout.Tensor{scaled(inf, 0)}, Options{}, layout.ErrInvalid, "scale", 148, "+Inf is not finite"},
		{"scale NaN", []layout.Tensor{scaled(nan, 0)}, Options{}, layout.ErrInvalid, "scale", 148, "NaN is not finite"},
		{"token", one, Options{Vocabulary: &Vocabulary{Tokens: []string{strings.Repeat("x", 1<<16)}}}, layout.ErrLimit, "tokens", 11, "65536 bytes"},
		{"vocabulary", one, Options{Vocabulary: &Vocabulary{Tokens: slices.Repeat([]string{strings.Repeat("x", 1e4)}, 1e4)}}, layout.ErrLimit, "vocabulary_size", 11, "100020008 bytes"},
		{"filterbank", one, Options{Filterbank: &Filterbank{NMels: 2, NFreqs: 2, Data: make([]float32, 3)}}, layout.ErrInvalid, "n_freqs", 11, "3 values, not 2 × 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := NewWriter(&out, tc.tensors, &tc.opts)
			format.CheckError(t, err, tc.want, tc.field, tc.offset, tc.reason)
			if w != nil || out.Len() > 0 {
				t.Errorf("a Writer, or %d bytes, nevertheless", out.Len())
			}
		})
	}
}

// TestWriterMisuse makes sure that wrong use is an error, and that the first error stays.
func TestWriterMisuse(t *testing.T) {
	type calls = []func(*Writer) error
	write := func(s string) func(*Writer) error { return func(w *Writer) error { return w.WriteTensor([]byte(s)) } }
	values := func(n int) func(*Writer) error {
		return func(w *Writer) error { return w.WriteValues(make([]float32, n)) }
	}
	for _, tc := range []struct {
		name   string
		calls  calls
		want   error
		field  string
		offset uint64
		reason string
	}{
		{"short", calls{write("123")}, layout.ErrInvalid, "size", 244, `tensor "a": 3 bytes given, but F32 [2] takes 8`},
		{"long", calls{write("123456789")}, layout.ErrInvalid, "size", 244, "9 bytes given"},
		{"few values", calls{values(1)}, layout.ErrInvalid, "n_elements", 244, "1 values given, but the shape is [2]"},
		{"many values", calls{values(3)}, layout.ErrInvalid, "n_elements", 244, "3 values given"},
		{"one too many", calls{values(2), write(""), write("")}, layout.ErrInvalid, "n_tensors", 9, "more than the 2"},
		{"one too few", calls{values(2), (*Writer).Close}, layout.ErrTruncated, "n_tensors", 252, "1 of 2 tensors"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := NewWriter(io.Discard, []layout.Tensor{tensor("a", layout.F32, 2), tensor("b", layout.F32, 0)},
				&Options{Filterbank: &Filterbank{}})
			if err != nil {
				t.Fatal(err)
			}
			err = layouttest.Misused(t, w, tc.calls, write(""), values(0), (*Writer).Close)
			format.CheckError(t, err, tc.want, tc.field, tc.offset, tc.reason)
		})
	}
}

// TestWriterFails has the writer below fail at every byte.
func TestWriterFails(t *testing.T) {
	data := fixture(t, "int8")
	f := mustDecode(t, data)
	tensors := f.Index().Tensors[:f.Header.Tensors]
	v, _ := f.Vocabulary(data)
	fb, _ := f.Filterbank(data)
	write := func(to io.Writer) error {
		w, err := NewWriter(to, tensors, &Options{Vocabulary: v, Filterbank: fb})
		for _, x := range tensors {
			if err == nil {
				err = w.WriteTensor(data[x.Offset:][:x.Stored])
			}
		}
		if err == nil {
			err = w.Close()
		}
		return err
	}
	for room := range len(data) {
		if err := write(&iofault.Full{Room: room}); !errors.Is(err, iofault.ErrDisk) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
	if err := write(&iofault.Full{Room: len(data)}); err != nil {
		t.Error(err)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.apr")
	tensors := []layout.Tensor{tensor("a", layout.F32, 1)}
	w, err := Create(path, tensors, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteValues([]float32{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there before Close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	b, err := os.ReadFile(path)
	if err != nil || mustDecode(t, layout.Bytes(b)).Index().Find("a") != 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	// What fails leaves the old file, and nothing else, in its place.
	if w, err = Create(path, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("Close without a tensor: %v", err)
	}
	if _, err := Create(path, nil, nil); !errors.Is(err, layout.ErrLimit) {
		t.Errorf("Create without tensors: %v", err)
	}
	again, err := os.ReadFile(path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	if err != nil || !bytes.Equal(again, b) || len(entries) != 1 {
		t.Errorf("%d bytes, %d files, %v", len(again), len(entries), err)
	}
}

// TestFloat16 compares every binary16, and what is half-way to the next, with the
// definition: the nearest of all finite values.
func TestFloat16(t *testing.T) {
	for b := range uint16(0x7c00) {
		x, next := halfValue(b), halfValue(b+1)
		if b == 0x7bff {
			next = 65536 // where the next one would be
		}
		middle := (x + next) / 2 // exact: binary32 has the bits
		even := b + b&1
		for _, tc := range []struct {
			x    float32
			want uint16
		}{
			{x, b}, {middle, even},
			{math.Nextafter32(middle, 0), b}, {math.Nextafter32(middle, 1e9), b + 1},
		} {
			if got := float16(tc.x); got != tc.want {
				t.Fatalf("%v: %#04x, want %#04x", tc.x, got, tc.want)
			}
			if got := float16(-tc.x); got != tc.want|0x8000 {
				t.Fatalf("%v: %#04x, want %#04x", -tc.x, got, tc.want|0x8000)
			}
		}
	}
	inf := float32(math.Inf(1))
	for x, want := range map[float32]uint16{inf: 0x7c00, -inf: 0xfc00, math.MaxFloat32: 0x7c00, 1e-45: 0} {
		if got := float16(x); got != want {
			t.Errorf("%v: %#04x, want %#04x", x, got, want)
		}
	}
	for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff, 0xffc01000} {
		got := float16(math.Float32frombits(bits))
		if got&0x7e00 != 0x7e00 || got>>15 != uint16(bits>>31) {
			t.Errorf("NaN %#x: %#04x", bits, got)
		}
	}
}

// halfValue is the value of a positive binary16, by its definition.
func halfValue(b uint16) float32 {
	exponent, fraction := int(b>>10), float64(b&0x3ff)
	if exponent == 0 {
		return float32(math.Ldexp(fraction, -24))
	}
	return float32(math.Ldexp(1024+fraction, exponent-25))
}

func TestScale(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, tc := range []struct {
		values []float32
		want   float32
	}{{nil, 1}, {[]float32{0, float32(math.Copysign(0, -1))}, 1}, {[]float32{1, -254, 3}, 2}, {[]float32{1, inf}, -inf}} {
		if got := Scale(tc.values); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.values, got, tc.want)
		}
	}
	if got := Scale([]float32{1, float32(math.NaN()), 2}); got == got {
		t.Errorf("of a NaN: %v", got)
	}
}

func TestInt8(t *testing.T) {
	for _, tc := range []struct {
		x, scale float32
		want     int8
	}{
		{0.25, 0.5, 1}, {-0.25, 0.5, -1}, {0.75, 0.5, 2}, {0.2, 0.5, 0}, {1e9, 0.5, 127}, {-1e9, 0.5, -127},
		{1, 0, 127}, {0, 0, 0}, {float32(math.NaN()), 1, 0}, {3, -1, -3},
	} {
		if got := int8OfScale(tc.x, tc.scale); got != tc.want {
			t.Errorf("%v of scale %v: %d, want %d", tc.x, tc.scale, got, tc.want)
		}
	}
}

// TestWriteValues writes more values of each type than are encoded at a time.
func TestWriteValues(t *testing.T) {
	const n = 2*chunk + 3
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%255 - 127) // which all types hold exactly, with a scale of 0.5 × 2
	}
	for _, d := range []layout.DType{layout.F32, layout.F16, layout.I8} {
		x := tensor("a", d, n)
		x.Quant.Scale = Scale(values)
		var out bytes.Buffer
		w, err := NewWriter(&out, []layout.Tensor{x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteValues(values); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil || uint64(out.Len()) != w.Size() {
			t.Fatalf("%d of %d bytes, %v", out.Len(), w.Size(), err)
		}
		data := layout.Bytes(out.Bytes())
		at := mustDecode(t, data).Index().Tensors[0].Offset
		for i, want := range values {
			var got float32
			switch b := data[int(at)+i*d.BlockBytes():]; d {
			case layout.F32:
				got = math.Float32frombits(le.Uint32(b))
			case layout.F16:
				got = float32(math.Copysign(float64(halfValue(le.Uint16(b)&0x7fff)), float64(int16(le.Uint16(b)))))
			case layout.I8:
				got = float32(int8(b[0]))
			}
			if got != want {
				t.Fatalf("%v: value %d is %v, want %v", d, i, got, want)
			}
		}
	}
}
