package safetensors_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/safetensors"
)

func tensorsToWrite() []layout.Tensor {
	return []layout.Tensor{
		{Name: []byte("a"), DType: layout.F32, Shape: []uint64{2}},
		{Name: []byte("é\"\x01<"), DType: layout.BOOL, Shape: []uint64{}},
		{Name: []byte("none"), DType: layout.I8, Shape: []uint64{0, 3}},
		{Name: []byte("f4"), DType: layout.F4, Shape: []uint64{2, 2}},
	}
}

// TestWriter compares with the bytes that the format's description asks for.
func TestWriter(t *testing.T) {
	var buf bytes.Buffer
	w, err := safetensors.NewWriter(&buf, tensorsToWrite(), layout.Metadata{{Key: "format", Value: "pt"}, {Key: "k", Value: `{"n":1}`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{"\x00\x00\x80\x3f\x00\x00\x00\x40", "\x01", "", "\x12\x34"} {
		if err := w.WriteTensor([]byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	header := `{"__metadata__":{"format":"pt","k":"{\"n\":1}"},` +
		`"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},` +
		`"é\"\u0001<":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]},` +
		`"none":{"dtype":"I8","shape":[0,3],"data_offsets":[9,9]},` +
		`"f4":{"dtype":"F4","shape":[2,2],"data_offsets":[9,11]}}`
	header += strings.Repeat(" ", -len(header)&7)
	want := string([]byte{byte(len(header)), byte(len(header) >> 8), 0, 0, 0, 0, 0, 0}) + header +
		"\x00\x00\x80\x3f\x00\x00\x00\x40" + "\x01" + "\x12\x34"
	if buf.String() != want || w.Size() != uint64(len(want)) {
		t.Errorf("%d bytes, %q, want\n%q", w.Size(), buf.String(), want)
	}
	f, err := safetensors.Decode(layout.Bytes(buf.Bytes()), nil)
	if err != nil || len(f.Audit(layout.Bytes(buf.Bytes()))) != 0 {
		t.Errorf("%v", err)
	}
}

func TestWriterEmpty(t *testing.T) {
	var buf bytes.Buffer
	w, err := safetensors.NewWriter(&buf, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || buf.String() != "\x08\x00\x00\x00\x00\x00\x00\x00{}      " {
		t.Errorf("%q, %v", buf.String(), err)
	}
}

func TestWriterRefuses(t *testing.T) {
	one := func(name string, d layout.DType, shape ...uint64) []layout.Tensor {
		return []layout.Tensor{{Name: []byte(name), DType: d, Shape: shape}}
	}
	tests := []struct {
		name     string
		tensors  []layout.Tensor
		metadata layout.Metadata
		want     error
	}{
		{"no such dtype", one("a", layout.Q4_0, 32), nil, layout.ErrUnsupported},
		{"no dtype", one("a", layout.Invalid), nil, layout.ErrUnsupported},
		{"the name of metadata", one("__metadata__", layout.F32), nil, layout.ErrInvalid},
		{"a name twice", append(one("a", layout.F32), one("a", layout.I8)...), nil, layout.ErrDuplicate},
		{"a name that is not UTF-8", one("\xff", layout.F32), nil, layout.ErrInvalid},
		{"half a byte", one("a", layout.F4, 3), nil, layout.ErrInvalid},
		{"too large", one("a", layout.F32, math.MaxUint64/4), nil, layout.ErrLimit},
		{"too large together", append(one("a", layout.U8, math.MaxInt64), one("b", layout.U8, 1)...), nil, layout.ErrLimit},
		{"metadata that is no string", nil, layout.Metadata{{Key: "k", Value: 1}}, layout.ErrInvalid},
		{"metadata that is not UTF-8", nil, layout.Metadata{{Key: "k", Value: "\xff"}}, layout.ErrInvalid},
		{"a key twice", nil, layout.Metadata{{Key: "k", Value: ""}, {Key: "k", Value: ""}}, layout.ErrDuplicate},
		{"a key that is not UTF-8", nil, layout.Metadata{{Key: "\xff", Value: ""}}, layout.ErrInvalid},
		{"too much metadata", nil, layout.Metadata{{Key: "k", Value: strings.Repeat("x", 100_000_000)}}, layout.ErrLimit},
	}
	for _, tt := range tests {
		var buf bytes.Buffer
		_, err := safetensors.NewWriter(&buf, tt.tensors, tt.metadata)
		var fe *layout.FormatError
		if !errors.Is(err, tt.want) || !errors.As(err, &fe) || buf.Len() != 0 {
			t.Errorf("%s: %v after %d bytes", tt.name, err, buf.Len())
		}
	}
}

// TestWriterMisuse: whoever gives the wrong bytes has no file.
func TestWriterMisuse(t *testing.T) {
	ok := func(w *safetensors.Writer) error { return w.WriteTensor(make([]byte, 4)) }
	fail := errors.New("no more")
	tests := map[string][]func(w *safetensors.Writer) error{
		"too few":  {func(w *safetensors.Writer) error { return w.WriteTensor(make([]byte, 3)) }},
		"too many": {func(w *safetensors.Writer) error { return w.WriteTensor(make([]byte, 5)) }},
		"too many, unnoticed": {func(w *safetensors.Writer) error {
			return w.WriteTensorFunc(func(dst io.Writer) error {
				dst.Write(make([]byte, 5))
				dst.Write(make([]byte, 4))
				return nil
			})
		}},
		"one too many":   {ok, ok, ok},
		"one is missing": {ok, (*safetensors.Writer).Close},
		"gives up":       {func(w *safetensors.Writer) error { return w.WriteTensorFunc(func(io.Writer) error { return fail }) }},
		"closed":         {ok, ok, (*safetensors.Writer).Close, (*safetensors.Writer).Close},
	}
	for name, calls := range tests {
		w, err := safetensors.NewWriter(io.Discard, []layout.Tensor{{Name: []byte("a"), DType: layout.F32}, {Name: []byte("b"), DType: layout.F32}}, nil)
		for i, call := range calls {
			if err != nil {
				t.Fatalf("%s: call %d: %v", name, i, err)
			}
			err = call(w)
		}
		if err == nil || ok(w) == nil || w.Close() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.safetensors")
	list := []layout.Tensor{{Name: []byte("a"), DType: layout.U8, Shape: []uint64{3}}}
	for _, finish := range []bool{false, true} {
		w, err := safetensors.Create(path, list, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !finish {
			if err := w.Close(); !errors.Is(err, layout.ErrTruncated) {
				t.Errorf("closed without its tensor: %v", err)
			}
		} else if err := errors.Join(w.WriteTensor([]byte("abc")), w.Close(), w.Abort()); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || finish != (len(entries) == 1) {
			t.Errorf("%v, %v", entries, err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasSuffix(b, []byte("abc")) {
		t.Errorf("%q, %v", b, err)
	}
}

// TestRewrite writes every fixture again, and compares.
func TestRewrite(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/safetensors/*.safetensors")
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		was := decode(t, b)
		md, err := was.Metadata(layout.Bytes(b))
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		w, err := safetensors.NewWriter(&buf, was.Index().Tensors, md)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range was.Index().Tensors {
			if err := w.WriteTensor(b[x.Offset:][:x.Stored]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		is := decode(t, buf.Bytes())
		for i, x := range is.Index().Tensors {
			old := &was.Index().Tensors[i]
			if string(x.Name) != string(old.Name) || x.DType != old.DType || !bytes.Equal(buf.Bytes()[x.Offset:][:x.Stored], b[old.Offset:][:old.Stored]) {
				t.Errorf("%s: tensor %s", path, x.Name)
			}
		}
		again, err := is.Metadata(layout.Bytes(buf.Bytes()))
		if err != nil || len(again) != len(md) {
			t.Errorf("%s: %v, %v, want %v", path, again, err, md)
		}
	}
}

func decode(t *testing.T, b []byte) *safetensors.File {
	t.Helper()
	f, err := safetensors.Decode(layout.Bytes(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
