package apr1

import (
	"bytes"
	"errors"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// FuzzDecode decodes anything. What is accepted must keep an Index's promises, answer
// whatever it is asked, and, where the Writer writes such files, survive being written and
// decoded again.
func FuzzDecode(f *testing.F) {
	format.Seed(f, 10_000)
	f.Fuzz(func(t *testing.T, data []byte) {
		file := format.Use(t, data)
		if file == nil || !rewritable(file) {
			return
		}
		if _, err := file.Vocabulary(layout.Bytes(data)); err != nil {
			return
		}
		checkRewritten(t, file, data, rewrite(t, file, data, nil))
	})
}

// rewritable reports whether rewrite can do its work on f.
func rewritable(f *File) bool {
	if f.Container == JSON || len(f.cut) > 0 {
		return false
	}
	return !slices.ContainsFunc(f.index.Tensors, func(x layout.Tensor) bool {
		return x.Encoding != layout.Raw || bytes.HasSuffix(x.Name, []byte("\uFFFD"))
	})
}

// checkRewritten makes sure that out is in perfect order, and holds what data does.
func checkRewritten(t *testing.T, old *File, data, out layout.Bytes) {
	t.Helper()
	f := mustDecode(t, out)
	layouttest.CheckIndex(t, f.Index(), out)
	if findings := f.Audit(out); len(findings) > 0 {
		t.Errorf("written, but %v", findings)
	}
	end := len(out) - crcSize
	if sums, err := f.Checksums(out); err != nil || sums[0].Want != crc32.ChecksumIEEE(out[:end]) {
		t.Errorf("checksum %v, %v", sums, err)
	}
	was, is := old.Header, f.Header
	was.Version, was.Compressed, was.Flags = is.Version, false, was.Flags&(HasVocab|HasFilterbank)
	if was != is {
		t.Errorf("header %+v became %+v", was, is)
	}
	if got, want := len(f.index.Tensors), len(old.index.Tensors); got != want {
		t.Fatalf("%d tensors of %d", got, want)
	}
	for i, want := range old.index.Tensors {
		got := f.index.Tensors[i]
		if !bytes.Equal(got.Name, want.Name) || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
			got.Quant != want.Quant || !bytes.Equal(out[got.Offset:][:got.Stored], data[want.Offset:][:want.Stored]) {
			t.Errorf("tensor %d: %+v became %+v", i, want, got)
		}
	}
	if a, b := tailOf(old, data), tailOf(f, out); !bytes.Equal(a, b) {
		t.Errorf("vocabulary or filterbank differ from byte %d on", layouttest.FirstDifference(a, b))
	}
}

// tailOf are vocabulary and filterbank, without what may lie behind them.
func tailOf(f *File, data layout.Bytes) []byte {
	var tail []byte
	if v := f.vocabulary; v.Size > 0 {
		tail = append(tail, data[v.Offset:][:v.Size]...)
	}
	if fb := f.filterbank; fb.offset > 0 {
		tail = append(tail, data[fb.offset-countsSize:][:countsSize+fb.size()]...)
	}
	return tail
}

// FuzzWriter writes tensors that the input describes, three bytes each: name and two
// dimensions. They are refused for a reason or readable again.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x02\x03b\x01\x20"), byte(1), float32(0.5), "x", "\xff", uint32(3))
	f.Add([]byte("a\x00\x03a\x00\x03"), byte(2), float32(-1), "", "\x00", uint32(0))
	f.Add([]byte("a\x02\x00z\x09\xff"), byte(0), float32(0), "<|endoftext|>", "é", uint32(1<<16))
	f.Fuzz(func(t *testing.T, spec []byte, q byte, scale float32, token, name string, mels uint32) {
		var tensors []layout.Tensor
		for ; len(spec) >= 3 && len(tensors) < 50; spec = spec[3:] {
			x := tensor(name+string(spec[:1]), quantizations[q%3].dtype, uint64(spec[1]), uint64(spec[2]))
			x.Quant.Scale = scale
			tensors = append(tensors, x)
		}
		opts := &Options{
			ModelType:  ModelType(q),
			Dimensions: Dimensions{NVocab: mels, NMels: ^mels},
			Vocabulary: &Vocabulary{Tokens: []string{token, "", name}, Merges: [][2]string{{token, name}}},
			Filterbank: &Filterbank{NMels: mels % 7, NFreqs: 5, Data: make([]float32, 5*(mels%7))},
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, tensors, opts)
		if err != nil {
			var fe *layout.FormatError
			if !errors.As(err, &fe) || fe.Format != layout.APR1 || fe.Field == "" || fe.Reason == "" || out.Len() > 0 {
				t.Errorf("%v, %d bytes written", err, out.Len())
			}
			return
		}
		for i := range tensors {
			values := make([]float32, tensors[i].Elements())
			for j := range values {
				values[j] = float32(i+1) * scale
			}
			if err := w.WriteValues(values); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || w.Size() != uint64(out.Len()) {
			t.Fatalf("%v, %d bytes of %d", err, out.Len(), w.Size())
		}
		data := layout.Bytes(out.Bytes())
		file := format.Use(t, data)
		if file == nil || file.Header.Dimensions != opts.Dimensions || file.Header.ModelType != opts.ModelType {
			t.Fatalf("%+v", file)
		}
		v, err := file.Vocabulary(data)
		if err != nil || !slices.Equal(v.Tokens, opts.Vocabulary.Tokens) || !slices.Equal(v.Merges, opts.Vocabulary.Merges) {
			t.Errorf("%v, %v", v, err)
		}
		checkRewritten(t, file, data, rewrite(t, file, data, nil))
	})
}
