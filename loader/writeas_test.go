package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"

	"github.com/x448/float16"
)

// TestRoundedByOthers holds F16 and BF16 against what numpy and ml_dtypes make of the same float32s.
func TestRoundedByOthers(t *testing.T) {
	m := openPath(t, filepath.Join("testdata", "rounded.safetensors"), nil)
	for name, d := range map[string]layout.DType{"f16": layout.F16, "bf16": layout.BF16} {
		want, err := tensor(t, m, name).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if n, err := tensor(t, m, "x").WriteAs(t.Context(), &got, d); err != nil || n != int64(len(want)) {
			t.Fatal(n, err)
		}
		wantRounded(t, d, got.Bytes(), want)
	}
}

// wantRounded compares floats of 16 bits, but for the payloads of NaNs.
func wantRounded(t *testing.T, d layout.DType, got, want []byte) {
	t.Helper()
	infinity := map[layout.DType]uint16{layout.F16: 0x7c00, layout.BF16: 0x7f80}[d]
	if len(got) != len(want) {
		t.Fatalf("%d bytes of %v, want %d", len(got), d, len(want))
	}
	for i := 0; i < len(want); i += 2 {
		g, w := binary.LittleEndian.Uint16(got[i:]), binary.LittleEndian.Uint16(want[i:])
		if g != w && (g&0x7fff <= infinity || w&0x7fff <= infinity) {
			t.Fatalf("%v: element %d is %#x, want %#x", d, i/2, g, w)
		}
	}
}

// TestWriteAs writes and reads tensors of several types, however they are stored, and compares with values that are rounded
// one by one. Sizes are those of a worker's step and more.
func TestWriteAs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	dtypes := []layout.DType{layout.F32, layout.F16, layout.BF16, layout.F64, layout.I8, layout.Q4_0, layout.Q6_K}
	if testmode.Brief() {
		dtypes = []layout.DType{layout.F32, layout.BF16, layout.Q4_0}
	}
	for _, d := range dtypes {
		c := compressible("x", d, 300, 1024)
		raw := modeltest.APR2Model(t, nil, c)
		for _, k := range kindsNamed("Open", "Open/NoMap", "OpenReaderAt", "LZ4", "encrypted/OpenBytes") {
			name, x := k.name, tensor(t, k.of(t, raw, nil), "x").Stored()
			if isLZ4 := x.Encoding() == layout.LZ4; isLZ4 != (name == "LZ4") {
				t.Errorf("%s: %v is stored as %v", name, d, x.Encoding())
			}
			values := make([]float32, x.Elements())
			if err := x.Dequantize(values); err != nil {
				t.Fatal(err)
			}
			for _, to := range []layout.DType{layout.F16, layout.BF16} {
				var want []byte // rounded by other code than the library's
				for _, f := range values {
					bits := uint16((math.Float32bits(f) + 0x7fff + math.Float32bits(f)>>16&1) >> 16)
					if to == layout.F16 {
						bits = float16.Fromfloat32(f).Bits()
					} else if f != f {
						bits = 0x7fc0
					}
					want = binary.LittleEndian.AppendUint16(want, bits)
				}
				var out bytes.Buffer
				if n, err := x.WriteAs(t.Context(), &out, to); err != nil || n != int64(len(want)) {
					t.Errorf("%s: %d bytes, %v", name, n, err)
					continue
				}
				wantRounded(t, to, out.Bytes(), want)
				if to == d && !bytes.Equal(out.Bytes(), c.Data) { // NaNs too
					t.Errorf("%s: %v has not stayed as it was", name, d)
				}
				for _, part := range [][2]int{{0, len(values)}, {1, 0}, {len(values), 0}, {777, 1}, {1025, 100_000}, {12345, 200_000}} {
					dst := make([]byte, 2*part[1])
					if err := x.ReadAs(t.Context(), dst, to, uint64(part[0])); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					wantRounded(t, to, dst, want[2*part[0]:][:2*part[1]])
				}
			}
		}
	}
}

// TestWriteAsRefuses: other types, ranges beyond the tensor, tensors without values, and contexts that have ended.
func TestWriteAsRefuses(t *testing.T) {
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("x", layout.F32, 300, 1024), modeltest.Random("c", layout.C64, 2), modeltest.Random("none", layout.F32, 0, 3), modeltest.Random("long", layout.F32, 4096, 1024)), nil)
	long := tensor(t, m, "long") // more than is read ahead
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx   context.Context
		name  string
		d     layout.DType
		size  int
		first uint64
		want  error
		says  string
	}{
		{t.Context(), "x", layout.Q4_0, 18, 0, loader.ErrUnsupported, `tensor "x": unsupported operation: values as Q4_0`},
		{t.Context(), "x", layout.I8, 1, 0, loader.ErrUnsupported, "I8"},
		{t.Context(), "x", layout.Invalid, 1, 0, loader.ErrUnsupported, ""},
		{t.Context(), "c", layout.F32, 8, 0, loader.ErrUnsupported, "C64"},
		{t.Context(), "x", layout.F16, 3, 0, loader.ErrRange, "3 bytes"},
		{t.Context(), "x", layout.F16, 4, 300*1024 - 1, loader.ErrRange, "2 values from element 307199"},
		{t.Context(), "x", layout.F16, 4, math.MaxUint64, loader.ErrRange, ""},
		{t.Context(), "x", layout.F32, 0, 300*1024 + 1, loader.ErrRange, ""},
		{ended, "x", layout.F32, 400_000, 0, context.Canceled, ""},
		{ended, "x", layout.F16, 400_000, 0, context.Canceled, ""},
	} {
		err := tensor(t, m, tt.name).ReadAs(tt.ctx, make([]byte, tt.size), tt.d, tt.first)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s as %v: %v", tt.name, tt.d, err)
		}
		if _, err := tensor(t, m, tt.name).WriteAs(tt.ctx, io.Discard, tt.d); tt.want != loader.ErrRange && !errors.Is(err, tt.want) {
			t.Errorf("%s as %v, written: %v", tt.name, tt.d, err)
		}
	}
	for _, d := range []layout.DType{layout.F16, layout.F32} {
		ctx, cancel := context.WithCancel(t.Context())
		n, err := long.WriteAs(ctx, writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil }), d)
		if size := int64(4096 * 1024 * d.BlockBytes()); n < 1 || d == layout.F16 && (n == size || !errors.Is(err, context.Canceled)) {
			t.Errorf("cancelled while it writes %v: %d bytes, %v", d, n, err)
		}
		full := errors.New("full")
		if n, err := long.WriteAs(t.Context(), failingWriter{5, full}, d); n != 5 || err != full {
			t.Errorf("a writer that fails: %d bytes, %v", n, err)
		}
	}
	var out bytes.Buffer
	if n, err := tensor(t, m, "none").WriteAs(t.Context(), &out, layout.F16); n != 0 || err != nil {
		t.Error(n, err)
	}
	if err := tensor(t, m, "none").ReadAs(t.Context(), nil, layout.BF16, 0); err != nil {
		t.Error(err)
	}
}
