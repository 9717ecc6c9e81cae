package apr2

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

func tensor(name string, d layout.DType, shape ...int) layout.Tensor {
	return layout.Tensor{Name: []byte(name), DType: d, Shape: shape}
}

func TestWriterRefuses(t *testing.T) {
	var deep any = layout.Metadata{}
	for range 64 {
		deep = layout.Metadata{{Key: "x", Value: deep}}
	}
	md := func(entries ...layout.Entry) Options { return Options{Metadata: entries} }
	quantization := func(key, tensor string, value any) Options {
		return md(layout.Entry{Key: "quantization", Value: layout.Metadata{{Key: key, Value: layout.Metadata{{Key: tensor, Value: value}}}}})
	}
	for _, tc := range []struct {
		name    string
		tensors []layout.Tensor
		opts    Options
		want    error
		field   string
		offset  uint64
		reason  string
	}{
		{"name twice", []layout.Tensor{tensor("a", layout.F32), tensor("a", layout.U8)}, Options{}, layout.ErrDuplicate, "name", 83, `"a"`},
		{"name NUL", []layout.Tensor{tensor("a\x00", layout.F32)}, Options{}, layout.ErrInvalid, "name", 42, "NUL"},
		{"name UTF-8", []layout.Tensor{tensor("\xff", layout.F32)}, Options{}, layout.ErrInvalid, "name", 42, "UTF-8"},
		{"name length", []layout.Tensor{tensor(strings.Repeat("n", 65536), layout.F32)}, Options{}, layout.ErrLimit, "name", 42, "65536 bytes"},
		{"dims", []layout.Tensor{tensor("a", layout.F32, 1, 1, 1, 1, 1, 1, 1, 1, 1)}, Options{}, layout.ErrLimit, "n_dims", 42, "9 dimensions"},
		{"dtype", []layout.Tensor{tensor("a", layout.F32), tensor("b", layout.C64)}, Options{}, layout.ErrUnsupported, "dtype", 83, `tensor "b": APR2 has no dtype for C64`},
		{"no dtype", []layout.Tensor{{Name: []byte("a")}}, Options{}, layout.ErrUnsupported, "dtype", 42, "INVALID"},
		{"block", []layout.Tensor{tensor("a", layout.Q4_0, 33)}, Options{}, layout.ErrInvalid, "dims", 42, "block of 32"},
		{"scalar block", []layout.Tensor{tensor("a", layout.Q4_0)}, Options{}, layout.ErrInvalid, "dims", 42, "block of 32"},
		{"elements", []layout.Tensor{tensor("a", layout.U8, 1<<30, 1<<30, 16)}, Options{}, layout.ErrInvalid, "dims", 42, "2^64"},
		{"size", []layout.Tensor{tensor("a", layout.U8, 1<<30, 1<<30, 15)}, Options{}, layout.ErrLimit, "offset", 42, "2^63"},
		{"sum of sizes", []layout.Tensor{tensor("a", layout.U8, 1<<30, 1<<30, 4), tensor("b", layout.U8, 1<<30, 1<<30, 4)}, Options{}, layout.ErrLimit, "offset", 99, "2^63"},
		{"align", nil, Options{Align: 16}, layout.ErrInvalid, "flags", 8, "16, not 32 or 64"},
		{"flags", nil, Options{Flags: Signed | Sharded}, layout.ErrInvalid, "flags", 8, "SIGNED cannot"},
		{"metadata twice", nil, md(layout.Entry{Key: "a"}, layout.Entry{Key: "a"}), layout.ErrDuplicate, "metadata", 42, `"a"`},
		{"metadata nesting", nil, md(layout.Entry{Key: "x", Value: deep}), layout.ErrLimit, "metadata", 352, "deeper than 64"},
		{"metadata size", nil, md(layout.Entry{Key: "x", Value: strings.Repeat("x", 1e8)}), layout.ErrLimit, "metadata_size", 16, "100000008 bytes"},
		{"scale text", nil, quantization("scales", "v", "x"), layout.ErrInvalid, scalesField, 32, `tensor "v": "\"x\"" is not a finite`},
		{"scale too large", nil, quantization("scales", "v", 1e300), layout.ErrInvalid, scalesField, 32, `"v"`},
		{"scale in a map", nil, md(layout.Entry{Key: "quantization", Value: map[string]any{"scales": map[string]any{"v": 0}}}), layout.ErrInvalid, scalesField, 32, `"v"`},
		{"zero point alone", nil, quantization("zero_points", "v", 1), layout.ErrInvalid, zerosField, 32, `"v"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := NewWriter(&out, slices.Values(tc.tensors), &tc.opts)
			format.CheckError(t, err, tc.want, tc.field, tc.offset, tc.reason)
			if w != nil || out.Len() > 0 {
				t.Errorf("a Writer, or %d bytes, nevertheless", out.Len())
			}
		})
	}
	if _, err := NewWriter(io.Discard, slices.Values[[]layout.Tensor](nil), &Options{Metadata: layout.Metadata{{Key: "f", Value: func() {}}}}); err == nil {
		t.Error("a func was written as metadata")
	}
}

// TestWriterTakesScales has scales of Go types that become others in the file.
func TestWriterTakesScales(t *testing.T) {
	for _, q := range []any{
		layout.Metadata{{Key: "scales", Value: layout.Metadata{{Key: "v", Value: 0.5}}}, {Key: "zero_points", Value: layout.Metadata{{Key: "v", Value: 3.0}}}},
		map[string]any{"scales": map[string]float32{"v": 0.5}, "zero_points": map[string]int{"v": 3}},
	} {
		md := layout.Metadata{{Key: "quantization", Value: q}}
		if _, err := NewWriter(io.Discard, slices.Values([]layout.Tensor{tensor("v", layout.I8)}), &Options{Metadata: md}); err != nil {
			t.Errorf("%T: %v", q, err)
		}
	}
}

// TestWriterMisuse makes sure that wrong use is an error, and that the first error stays.
func TestWriterMisuse(t *testing.T) {
	type calls = []func(*Writer) error
	read := func(s string) func(*Writer) error {
		return func(w *Writer) error { return writeFrom(w, strings.NewReader(s)) }
	}
	write := func(s string) func(*Writer) error { return func(w *Writer) error { return w.WriteTensor([]byte(s)) } }
	for _, tc := range []struct {
		name   string
		calls  calls
		want   error
		field  string
		offset uint64
		reason string
	}{
		{"short", calls{write("123")}, layout.ErrInvalid, "size", 128, `tensor "a": 3 bytes given, but U8 [4] takes 4`},
		{"long", calls{write("12345")}, layout.ErrInvalid, "size", 128, "5 bytes given"},
		{"short reader", calls{read("123")}, layout.ErrInvalid, "size", 128, "3 bytes given"},
		{"empty reader", calls{read("")}, layout.ErrInvalid, "size", 128, "0 bytes given"},
		{"long reader", calls{read("12345")}, layout.ErrInvalid, "size", 128, "more than its 4 bytes"},
		{"long reader of an empty tensor", calls{read("1234"), read("x")}, layout.ErrInvalid, "size", 192, `tensor "b": more than its 0 bytes`},
		{"one too many", calls{write("1234"), write(""), write("")}, layout.ErrInvalid, "tensor_count", 192, "more than the 2"},
		{"one too few", calls{write("1234"), (*Writer).Close}, layout.ErrTruncated, "tensor_count", 132, "1 of 2 tensors"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := NewWriter(io.Discard, slices.Values([]layout.Tensor{tensor("a", layout.U8, 4), tensor("b", layout.F32, 0)}), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = layouttest.Misused(t, w, tc.calls, write(""), read(""), (*Writer).Close)
			format.CheckError(t, err, tc.want, tc.field, tc.offset, tc.reason)
		})
	}
}

func TestWriterClosed(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, slices.Values[[]layout.Tensor](nil), nil)
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	n := out.Len()
	if err := w.Close(); !errors.Is(err, layout.ErrClosed) || out.Len() != n {
		t.Errorf("second Close: %v, %d bytes after %d", err, out.Len(), n)
	}
	if err := w.WriteTensor(nil); !errors.Is(err, layout.ErrClosed) {
		t.Errorf("WriteTensor: %v", err)
	}
}

// TestWriterFails lets the writer below fail after any number of bytes.
func TestWriterFails(t *testing.T) {
	data := format.Read(t, "tiny")
	f := format.MustDecode(t, data)
	for n := range data {
		for short, want := range map[bool]error{false: iofault.ErrDisk, true: io.ErrShortWrite} {
			w, err := NewWriter(&iofault.Full{Left: n, Short: short}, slices.Values(f.Index().Tensors), nil)
			for i := 0; err == nil && i < len(f.Index().Tensors); i++ {
				x := f.Index().Tensors[i]
				err = w.WriteTensor(data[x.Offset:][:x.Stored])
			}
			if err == nil {
				err = w.Close()
			}
			// Without metadata the file is shorter than the fixture.
			if err != want && uint64(n) < w.Size() {
				t.Fatalf("after %d bytes: %v, want %v", n, err, want)
			}
		}
	}
}

// writeFrom writes the next tensor, whose bytes are all that r yields.
func writeFrom(w *Writer, r io.Reader) error {
	return w.WriteTensorFunc(func(dst io.Writer) error {
		_, err := io.Copy(dst, r)
		return err
	})
}

func TestReaderFails(t *testing.T) {
	w, err := NewWriter(io.Discard, slices.Values([]layout.Tensor{tensor("a", layout.U8, 4)}), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, pw := io.Pipe()
	go func() {
		pw.Write([]byte("123"))
		pw.CloseWithError(iofault.ErrDisk)
	}()
	if err := writeFrom(w, r); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("got %v", err)
	}
}

// endless yields zero bytes.
type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestWriterMemory makes sure that a Writer's memory does not grow with its tensors.
func TestWriterMemory(t *testing.T) {
	const big = 256 << 20
	tensors := []layout.Tensor{tensor("a", layout.F32, big/4), tensor("b", layout.F32, big/4)}
	layouttest.Bound{Fixed: 512 << 10}.Check(t, "two tensors", 2*big, func() {
		w, err := NewWriter(io.Discard, slices.Values(tensors), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range tensors {
			if err := writeFrom(w, io.LimitReader(endless{}, big)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWriteTensorDoesNotAllocate: what comes as a slice is neither copied nor buffered.
func TestWriteTensorDoesNotAllocate(t *testing.T) {
	const runs = 10
	b := make([]byte, 1<<20)
	var tensors []layout.Tensor
	for i := range runs + 1 {
		tensors = append(tensors, tensor(string(rune('a'+i)), layout.U8, 1<<20))
	}
	w, err := NewWriter(io.Discard, slices.Values(tensors), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(runs, func() { err = w.WriteTensor(b) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

// TestHuge places tensors far beyond 4 GiB, without writing them.
func TestHuge(t *testing.T) {
	tensors := []layout.Tensor{
		tensor("a", layout.F32, 1<<30, 6), // 24 GiB
		tensor("b", layout.Q8_0, 1<<30, 1<<20),
		tensor("c", layout.U8, 7),
		tensor("d", layout.U8, 1),
	}
	var head bytes.Buffer
	w, err := NewWriter(&head, slices.Values(tensors), nil)
	if err != nil {
		t.Fatal(err)
	}
	in := layouttest.Sparse{Head: head.Bytes(), Tail: append(make([]byte, 4), "2RPA\x00\x00\x00\x00\x00\x00\x00\x00"...), Whole: w.Size()}
	le.PutUint64(in.Tail[8:], in.Whole)
	f := format.MustDecode(t, in)
	at := uint64(f.Header.DataOffset)
	for i, size := range []uint64{24 << 30, 34 << 45, 7, 1} {
		if x := f.Index().Tensors[i]; x.Offset != at || x.Stored != size {
			t.Errorf("tensor %d: %d bytes at %d, want %d at %d", i, x.Stored, x.Offset, size, at)
		}
		at = (at + size + 63) / 64 * 64
	}
	if want := at - 63 + 16; in.Whole != want { // d has but one byte of its last 64
		t.Errorf("size %d, want %d", in.Whole, want)
	}
	if got, want := format.Found(t, in), "apr_version@32 model_type@32 architecture@32"; got != want {
		t.Errorf("findings %q, want %q", got, want)
	}
}

// TestWriteTensorFunc writes a tensor in pieces, and makes sure that an error of dst is
// not lost where the callback drops it.
func TestWriteTensorFunc(t *testing.T) {
	pieces := func(drop bool, pieces ...string) func(io.Writer) error {
		return func(dst io.Writer) error {
			for _, p := range pieces {
				if _, err := io.WriteString(dst, p); err != nil && !drop {
					return err
				}
			}
			return nil
		}
	}
	for _, tc := range []struct {
		name  string
		write func(io.Writer) error
		want  error
	}{
		{"whole", pieces(false, "1234"), nil},
		{"pieces", pieces(false, "12", "", "3", "4"), nil},
		{"short", pieces(false, "12"), layout.ErrInvalid},
		{"none", pieces(false), layout.ErrInvalid},
		{"long", pieces(false, "12", "345"), layout.ErrInvalid},
		{"long, dropped", pieces(true, "1234", "5"), layout.ErrInvalid},
		{"own error", func(io.Writer) error { return iofault.ErrDisk }, iofault.ErrDisk},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := NewWriter(&out, slices.Values([]layout.Tensor{tensor("a", layout.U8, 4)}), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = w.WriteTensorFunc(tc.write)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if closed := w.Close(); (closed == nil) != (tc.want == nil) || err != nil && closed != err {
				t.Errorf("Close: %v after %v", closed, err)
			}
			if w.Written() != uint64(out.Len()) {
				t.Errorf("Written is %d of %d", w.Written(), out.Len())
			}
			if tc.want == nil && !bytes.Contains(out.Bytes(), []byte("1234")) {
				t.Error("the tensor is not in the file")
			}
		})
	}
}

// TestWriteTensorFuncKeepsCause: the disk's error wins over the size that it led to.
func TestWriteTensorFuncKeepsCause(t *testing.T) {
	var head bytes.Buffer
	tensors := []layout.Tensor{tensor("a", layout.U8, 4)}
	if _, err := NewWriter(&head, slices.Values(tensors), nil); err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(&iofault.Full{Left: head.Len() + 2}, slices.Values(tensors), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = w.WriteTensorFunc(func(dst io.Writer) error {
		dst.Write([]byte("1234")) // error dropped
		return nil
	})
	if err != iofault.ErrDisk {
		t.Errorf("got %v, want %v", err, iofault.ErrDisk)
	}
}
