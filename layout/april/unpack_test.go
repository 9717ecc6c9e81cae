package april

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// TestUnpackErrors checks numbers that do not add up to their tensor.
func TestUnpackErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		kind   int32
		field  protowire.Number
		values []int64
		inside int // the offset in the tensor's message
		says   string
	}{
		{"int8", 3, 5, []int64{0, 128}, 10, "128 is no I8"},
		{"low int8", 3, 5, []int64{-129, 0}, 9, "-129 is no I8"},
		{"uint8", 2, 5, []int64{0, 256}, 10, "256 is no U8"},
		{"negative uint8", 2, 5, []int64{-1, 0}, 9, "-1 is no U8"},
		{"int16", 5, 5, []int64{32768, 0}, 9, "32768 is no I16"},
		{"uint16", 4, 5, []int64{65536, 0}, 9, "65536 is no U16"},
		{"float16", 10, 5, []int64{-1, 0}, 9, "-1 is no F16"},
		{"bfloat16", 16, 5, []int64{1 << 16, 0}, 9, "65536 is no BF16"},
		{"bool", 9, 5, []int64{1, 2}, 10, "2 is no BOOL"},
		{"float8", 17, 5, []int64{256, 1}, 9, "256 is no F8_E4M3"},
		{"uint32", 12, 11, []int64{1 << 32, 1}, 9, "4294967296 is no U32"},
		{"negative uint32", 12, 11, []int64{-1, 1}, 9, "-1 is no U32"},
		{"too few", 7, 7, []int64{300}, 0, "1 numbers fewer than I64 [2] takes"},
		{"too many", 7, 7, []int64{1, 2, 3}, 11, "more numbers than I64 [2] takes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := good(onnx(numberTensor("a", tc.kind, tc.field, tc.values, 2))).assemble()
			f := format.MustDecode(t, data)
			x := &f.Index().Tensors[3]
			err := f.Unpack(data, x, make([]byte, x.Raw))
			name := tensorFields[tc.field].name
			at := x.Offset + uint64(tc.inside)
			format.CheckError(t, err, layout.ErrInvalid, name, at, `"encoder/a": `+tc.says)
			found := f.Audit(data)
			if len(found) != 1 || found[0].Warning {
				t.Fatalf("findings %v", found)
			}
			format.CheckError(t, found[0].FormatError, layout.ErrInvalid, name, at, tc.says)
		})
	}
}

// TestUnpackMisuse checks arguments that are not the file's.
func TestUnpackMisuse(t *testing.T) {
	data := good(onnx(numberTensor("a", 6, 5, []int64{1, 2}, 2))).assemble()
	f := format.MustDecode(t, data)
	if err := f.Unpack(data, &f.Index().Tensors[0], nil); !errors.Is(err, layout.ErrUnsupported) {
		t.Errorf("a network: %v", err)
	}
	for _, n := range []int{0, 7, 9} {
		if err := f.Unpack(data, &f.Index().Tensors[3], make([]byte, n)); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// The file has changed since it was opened.
	x := f.Index().Tensors[3]
	for at := range x.Stored {
		for _, v := range []byte{0x00, 0x07, 0x7f, 0xff} {
			old := data[x.Offset+at]
			data[x.Offset+at] = v
			if err := f.Unpack(data, &x, make([]byte, x.Raw)); err != nil {
				format.WellFormed(t, data, err)
			}
			data[x.Offset+at] = old
		}
	}
}

// TestUnpackPieces checks varints that lie across the windows in which they are read.
func TestUnpackPieces(t *testing.T) {
	const n = 3 << 10
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(1)<<(i%63) - int64(i)
	}
	data := good(onnx(numberTensor("a", 7, 7, values, n))).assemble()
	f := format.MustDecode(t, data)
	dst := make([]byte, 8*n)
	if err := f.Unpack(data, &f.Index().Tensors[3], dst); err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if got := int64(le.Uint64(dst[8*i:])); got != v {
			t.Fatalf("element %d is %d, want %d", i, got, v)
		}
	}
}

// TestUnpackAllocates makes sure that numbers cost no memory, neither packed nor single.
func TestUnpackAllocates(t *testing.T) {
	const n = 5000
	single := tensorMessage("b", 6, n)
	for i := range n {
		single = appendNumber(single, 5, uint64(i))
	}
	data := good(onnx(numberTensor("a", 6, 5, make([]int64, n), n), single)).assemble()
	f := format.MustDecode(t, data)
	dst := make([]byte, 4*n)
	for _, x := range f.Index().Tensors[3:] {
		allocs := testing.AllocsPerRun(3, func() {
			if err := f.Unpack(data, &x, dst); err != nil {
				t.Error(err)
			}
		})
		if allocs > 10 {
			t.Errorf("%s: %v allocations for %d numbers", x.Name, allocs, n)
		}
	}
	if got := le.Uint32(dst[4*(n-1):]); got != n-1 {
		t.Errorf("the last number is %d", got)
	}
}
