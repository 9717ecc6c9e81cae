package apr2

import (
	"bytes"
	"errors"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// FuzzDecode decodes anything. What is accepted must keep an Index's promises, and, where
// it is the draft's and no tensor is compressed, survive being written and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(literal))
	format.Seed(f, 1<<20)
	f.Fuzz(func(t *testing.T, data []byte) {
		file := format.Use(t, data)
		if file == nil || slices.ContainsFunc(file.Index().Tensors, func(x layout.Tensor) bool { return x.Encoding != layout.Raw }) {
			return
		}
		md, err := file.Metadata(layout.Bytes(data))
		if err != nil {
			return
		}
		if _, err := file.Scales(md); err != nil {
			return // which the writer refuses
		}
		out := rewrite(t, file, data, &Options{Metadata: md}, false)
		checkRewritten(t, file, data, out)
	})
}

// checkRewritten makes sure that out is in perfect order, and holds the tensors of data.
func checkRewritten(t *testing.T, old *File, data, out layout.Bytes) {
	t.Helper()
	f := format.MustDecode(t, out)
	layouttest.CheckIndex(t, f.Index(), out)
	checkPromises(t, f, out, nil)
	for _, finding := range f.Audit(out) {
		if !finding.Warning {
			t.Errorf("written, but %v", finding)
		}
	}
	end := len(out) - footerSize
	if sums, err := f.Checksums(out); err != nil || sums[0].Want != crc32.ChecksumIEEE(out[:end]) {
		t.Errorf("checksum %v, %v", sums, err)
	}
	if got, want := len(f.Index().Tensors), len(old.Index().Tensors); got != want {
		t.Fatalf("%d tensors of %d", got, want)
	}
	for i, want := range old.Index().Tensors {
		got := f.Index().Tensors[i]
		if !bytes.Equal(got.Name, want.Name) || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
			!bytes.Equal(out[got.Offset:][:got.Stored], data[want.Offset:][:want.Stored]) {
			t.Errorf("tensor %d: %+v became %+v", i, want, got)
		}
		if !f.Index().Aligned(&got) {
			t.Errorf("tensor %d: misaligned at %d", i, got.Offset)
		}
	}
}

// FuzzWriter writes tensors that the input describes, four bytes each: name, dtype, two
// dimensions. They are refused for a reason or readable again.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x01\x02\x03b\x23\x01\x20"), byte(0), "x", "y")
	f.Add([]byte("a\x01\x00\x03a\x01\x00\x03"), byte(1), "apr_version", "\xff")
	f.Add([]byte("a\x2d\x02\x00z\x0c\x09\xff"), byte(0x89), "", "\x00")
	f.Fuzz(func(t *testing.T, spec []byte, options byte, key, value string) {
		var tensors []layout.Tensor
		for ; len(spec) >= 4 && len(tensors) < 50; spec = spec[4:] {
			tensors = append(tensors, tensor(string(spec[:1]), layout.DType(spec[1]%80), int(spec[2]), int(spec[3])))
		}
		opts := &Options{
			Align:    []int{0, 32, 64, 16}[options%4],
			Flags:    Flags(options) &^ 3,
			Metadata: layout.Metadata{{Key: "a", Value: value}, {Key: key, Value: 1.5}},
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, slices.Values(tensors), opts)
		if err != nil {
			var fe *layout.FormatError
			if !errors.As(err, &fe) || out.Len() > 0 {
				t.Errorf("%v, %d bytes written", err, out.Len())
			}
			return
		}
		var all []byte // the tensors' bytes
		old := &File{index: &layout.Index{Tensors: tensors}}
		for i := range tensors {
			size, _ := tensors[i].DType.Size(tensors[i].Shape)
			b := bytes.Repeat([]byte{byte(i + 1)}, int(size))
			tensors[i].Offset, tensors[i].Stored = uint64(len(all)), size
			all = append(all, b...)
			if i%2 == 0 {
				err = w.WriteTensor(b)
			} else {
				err = writeFrom(w, bytes.NewReader(b))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || w.Size() != uint64(out.Len()) {
			t.Fatalf("%v, %d bytes of %d", err, out.Len(), w.Size())
		}
		checkRewritten(t, old, all, out.Bytes())
		checkPadding(t, out.Bytes())
	})
}

// checkPadding makes sure that what belongs to nothing is zero.
func checkPadding(t *testing.T, data layout.Bytes) {
	t.Helper()
	ix := format.MustDecode(t, data).Index()
	rest := slices.Clone(data)
	for _, s := range ix.Sections {
		clear(rest[s.Offset:][:s.Size])
	}
	for _, x := range ix.Tensors {
		clear(rest[x.Offset:][:x.Stored])
	}
	if i := slices.IndexFunc(rest, func(c byte) bool { return c != 0 }); i >= 0 {
		t.Errorf("byte %d of the padding is %#x", i, rest[i])
	}
}
