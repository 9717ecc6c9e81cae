package apr2

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// temporary is a file that can be written again.
func temporary(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x.apr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// lz4Tensor without a size is one whose size is not known.
func lz4Tensor(name string, stored uint64, d layout.DType, shape ...int) layout.Tensor {
	t := tensor(name, d, shape...)
	t.Encoding, t.Stored = layout.LZ4, stored
	return t
}

// writeAll hands over b in pieces.
func writeAll(b []byte) func(io.Writer) error {
	return func(dst io.Writer) error {
		for len(b) > 0 {
			n, err := dst.Write(b[:min(len(b), 100)])
			if err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	}
}

// TestWriteBlocksAgain writes the fixture that another program has compressed, byte for byte.
func TestWriteBlocksAgain(t *testing.T) {
	want := format.Read(t, "compressed")
	f := format.MustDecode(t, want)
	md, err := f.Metadata(layout.Bytes(want))
	if err != nil {
		t.Fatal(err)
	}
	tensors := f.Index().Tensors

	var out bytes.Buffer
	w, err := NewWriter(&out, slices.Values(tensors), &Options{Metadata: md})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors {
		if err := w.WriteTensor(want[x.Offset:][:x.Stored]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || !bytes.Equal(out.Bytes(), want) || w.Size() != uint64(len(want)) {
		t.Errorf("sizes known: %v, other bytes", err)
	}

	late := layout.Bytes(bytes.Clone(want))
	file := temporary(t)
	list := format.MustDecode(t, late).Index().Tensors
	for i := range list {
		list[i].Encoding, list[i].Stored = layout.LZ4, 0
	}
	fw, err := NewWriter(file, slices.Values(list), &Options{Metadata: md})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range tensors {
		b := want[x.Offset:][:x.Stored]
		write := fw.WriteTensorFunc
		if x.Encoding == layout.LZ4 {
			write = fw.WriteBlocksFunc
		}
		// Written once for nothing.
		err := fw.WriteBlocksFunc(func(dst io.Writer) error {
			if _, err := dst.Write(bytes.Repeat([]byte{0xee}, 1000*i)); err != nil {
				return err
			}
			return ErrRollback
		})
		if err != ErrRollback {
			t.Fatal(err)
		}
		if err := write(writeAll(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fw.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file.Name()); err != nil || !bytes.Equal(got, want) || fw.Size() != uint64(len(want)) || fw.Written() != uint64(len(want)) {
		t.Errorf("sizes late: other bytes; %v", err)
	}
}

// TestLateHead has tensors of every sort, in random order.
func TestLateHead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		var list []layout.Tensor
		for i := range rng.IntN(8) {
			x := tensor(string(rune('a'+i)), layout.U8, rng.IntN(5000))
			if rng.IntN(3) > 0 {
				x.Encoding = layout.LZ4
			}
			list = append(list, x)
		}
		list = append(list, lz4Tensor("z", 0, layout.Q4_0, rng.IntN(2)*64))
		file := temporary(t)
		w, err := NewWriter(file, slices.Values(list), &Options{Align: 32 << (round % 2)})
		if err != nil {
			t.Fatal(err)
		}
		want := make([][]byte, len(list))
		packed := make([]bool, len(list))
		for i, x := range list {
			raw, _ := x.DType.Size(x.Shape)
			want[i] = bytes.Repeat([]byte{byte(i + 1)}, int(raw))
			write := w.WriteTensorFunc
			if packed[i] = raw > 0 && x.Encoding == layout.LZ4 && rng.IntN(2) == 0; packed[i] {
				want[i] = want[i][:raw/255+1+rng.Uint64N(raw)]
			}
			if packed[i] || raw == 0 && rng.IntN(2) == 0 {
				write = w.WriteBlocksFunc
			}
			if err := write(writeAll(want[i])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		f := format.MustDecode(t, layout.Bytes(b))
		any := false
		for i, x := range f.Index().Tensors {
			if !bytes.Equal(b[x.Offset:][:x.Stored], want[i]) || (x.Encoding == layout.LZ4) != packed[i] || x.Offset%f.Index().Align != 0 {
				t.Errorf("round %d: tensor %d: %v, %d bytes at %d", round, i, x.Encoding, x.Stored, x.Offset)
			}
			any = any || packed[i]
		}
		sums, err := f.Checksums(layout.Bytes(b))
		if err != nil || sums[0].Want != crc32.ChecksumIEEE(b[:len(b)-footerSize]) || w.CRC32() != sums[0].Want || f.Header.Flags.Has(Compressed) != any {
			t.Errorf("round %d: %08x, flags %v, %v", round, sums[0].Want, f.Header.Flags, err)
		}
		for _, finding := range f.Audit(layout.Bytes(b)) {
			if finding.Field != "apr_version" && finding.Field != "model_type" && finding.Field != "architecture" {
				t.Errorf("round %d: %v", round, finding)
			}
		}
	}
}

func TestWriteBlocksRefuses(t *testing.T) {
	failed := errors.New("failed")
	for _, tc := range []struct {
		name string
		list []layout.Tensor
		do   func(w *Writer) error
		want error
	}{
		{"sizes known", []layout.Tensor{lz4Tensor("a", 9, layout.U8, 100)}, func(w *Writer) error { return w.WriteBlocksFunc(writeAll(make([]byte, 9))) }, layout.ErrInvalid},
		{"too few bytes", []layout.Tensor{lz4Tensor("a", 0, layout.U8, 1000)}, func(w *Writer) error { return w.WriteBlocksFunc(writeAll(make([]byte, 3))) }, layout.ErrInvalid},
		{"no bytes", []layout.Tensor{lz4Tensor("a", 0, layout.U8, 1000)}, func(w *Writer) error { return w.WriteBlocksFunc(writeAll(nil)) }, layout.ErrInvalid},
		{"bytes for no elements", []layout.Tensor{lz4Tensor("b", 0, layout.U8, 5), lz4Tensor("a", 0, layout.U8, 0)}, func(w *Writer) error {
			return errors.Join(w.WriteTensor(make([]byte, 5)), w.WriteBlocksFunc(writeAll(make([]byte, 3))))
		}, layout.ErrInvalid},
		{"failure", []layout.Tensor{lz4Tensor("a", 0, layout.U8, 5)}, func(w *Writer) error { return w.WriteBlocksFunc(func(io.Writer) error { return failed }) }, failed},
		{"one too many", []layout.Tensor{lz4Tensor("a", 0, layout.U8, 5)}, func(w *Writer) error {
			return errors.Join(w.WriteTensor(make([]byte, 5)), w.WriteBlocksFunc(writeAll(nil)))
		}, layout.ErrInvalid},
		{"one too few", []layout.Tensor{lz4Tensor("a", 0, layout.U8, 5)}, func(w *Writer) error { return w.Close() }, layout.ErrTruncated},
	} {
		w, err := NewWriter(temporary(t), slices.Values(tc.list), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tc.do(w); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if err := w.Close(); err == nil {
			t.Errorf("%s: closed all the same", tc.name)
		}
	}
}

// TestUnknownSizeNeedsFile: what is written from front to back has its sizes first.
func TestUnknownSizeNeedsFile(t *testing.T) {
	_, err := NewWriter(io.Discard, slices.Values([]layout.Tensor{lz4Tensor("a", 0, layout.U8, 5)}), nil)
	format.CheckError(t, err, layout.ErrUnsupported, "size", 42, `tensor "a": how many bytes it takes compressed`)
	_, err = NewWriter(io.Discard, slices.Values([]layout.Tensor{lz4Tensor("a", 1, layout.U8, 300)}), nil)
	format.CheckError(t, err, layout.ErrInvalid, "raw_size", 42, "too few for LZ4")
	odd := tensor("a", layout.U8, 5)
	odd.Encoding = layout.Encrypted
	_, err = NewWriter(io.Discard, slices.Values([]layout.Tensor{odd}), nil)
	format.CheckError(t, err, layout.ErrUnsupported, "flags", 42, "no encoding encrypted")

	r, w, err := os.Pipe()
	if err != nil {
		t.Skip(err)
	}
	defer r.Close()
	defer w.Close()
	go io.Copy(io.Discard, r)
	if _, err := NewWriter(w, slices.Values([]layout.Tensor{lz4Tensor("a", 0, layout.U8, 5)}), nil); err == nil {
		t.Error("to a pipe: no error")
	}
}

// TestLateWriteFails lets everything that a late head needs fail.
func TestLateWriteFails(t *testing.T) {
	begin := func() (*os.File, *Writer) {
		file := temporary(t)
		w, err := NewWriter(file, slices.Values([]layout.Tensor{lz4Tensor("a", 0, layout.U8, 5)}), nil)
		if err != nil {
			t.Fatal(err)
		}
		return file, w
	}
	file, w := begin()
	file.Close()
	if err := w.WriteBlocksFunc(writeAll(make([]byte, 5))); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("blocks: %v", err)
	}
	file, w = begin()
	err := w.WriteBlocksFunc(func(io.Writer) error { file.Close(); return ErrRollback })
	if !errors.Is(err, fs.ErrClosed) || w.Close() != err {
		t.Errorf("rolled back: %v", err)
	}
	file, w = begin()
	if err := w.WriteTensor(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("head: %v", err)
	}
}
