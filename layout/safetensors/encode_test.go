package safetensors_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
	"github.com/tensormap/tensormap/layout/safetensors"
)

func tensorsToWrite() []layout.Tensor {
	return []layout.Tensor{
		{Name: []byte("a"), DType: layout.F32, Shape: []int{2}},
		{Name: []byte("é\"\x01<"), DType: layout.BOOL, Shape: []int{}},
		{Name: []byte("none"), DType: layout.I8, Shape: []int{0, 3}},
		{Name: []byte("f4"), DType: layout.F4, Shape: []int{2, 2}},
	}
}

// TestWriter compares with the bytes that the format's description asks for.
func TestWriter(t *testing.T) {
	var buf bytes.Buffer
	w, err := safetensors.NewWriter(&buf, slices.Values(tensorsToWrite()), layout.Metadata{{Key: "format", Value: "pt"}, {Key: "k", Value: `{"n":1}`}})
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
	w, err := safetensors.NewWriter(&buf, slices.Values[[]layout.Tensor](nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || buf.String() != "\x08\x00\x00\x00\x00\x00\x00\x00{}      " {
		t.Errorf("%q, %v", buf.String(), err)
	}
}

func TestWriterRefuses(t *testing.T) {
	one := func(name string, d layout.DType, shape ...int) []layout.Tensor {
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
		{"too large", one("a", layout.F32, 1<<30, 1<<30, 3), nil, layout.ErrLimit},
		{"too large together", append(one("a", layout.U8, 1<<30, 1<<30, 7), one("b", layout.U8, 1<<30, 1<<30)...), nil, layout.ErrLimit},
		{"metadata that is no string", nil, layout.Metadata{{Key: "k", Value: 1}}, layout.ErrInvalid},
		{"metadata that is not UTF-8", nil, layout.Metadata{{Key: "k", Value: "\xff"}}, layout.ErrInvalid},
		{"a key twice", nil, layout.Metadata{{Key: "k", Value: ""}, {Key: "k", Value: ""}}, layout.ErrDuplicate},
		{"a key that is not UTF-8", nil, layout.Metadata{{Key: "\xff", Value: ""}}, layout.ErrInvalid},
		{"too much metadata", nil, layout.Metadata{{Key: "k", Value: strings.Repeat("x", 100_000_000)}}, layout.ErrLimit},
	}
	for _, tt := range tests {
		var buf bytes.Buffer
		_, err := safetensors.NewWriter(&buf, slices.Values(tt.tensors), tt.metadata)
		var fe *layout.FormatError
		if !errors.Is(err, tt.want) || !errors.As(err, &fe) || buf.Len() != 0 {
			t.Errorf("%s: %v after %d bytes", tt.name, err, buf.Len())
		}
	}
}

// TestNewWriterFull has no room for the header.
func TestNewWriterFull(t *testing.T) {
	if w, err := safetensors.NewWriter(&iofault.Full{Left: 9}, slices.Values[[]layout.Tensor](nil), nil); w != nil || !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("%v, %v", w, err)
	}
}

// TestWriterMisuse: whoever gives the wrong bytes has no file.
func TestWriterMisuse(t *testing.T) {
	type calls = []func(*safetensors.Writer) error
	write := func(n int) func(*safetensors.Writer) error {
		return func(w *safetensors.Writer) error { return w.WriteTensor(make([]byte, n)) }
	}
	fill := func(write func(dst io.Writer) error) func(*safetensors.Writer) error {
		return func(w *safetensors.Writer) error { return w.WriteTensorFunc(write) }
	}
	end := (*safetensors.Writer).Close
	gaveUp := errors.New("no more")
	for name, tc := range map[string]struct {
		calls calls
		want  error
	}{
		"too few":  {calls{write(3)}, layout.ErrInvalid},
		"too many": {calls{write(5)}, layout.ErrInvalid},
		"too many, unnoticed": {calls{fill(func(dst io.Writer) error {
			dst.Write(make([]byte, 5))
			dst.Write(make([]byte, 4))
			return nil
		})}, layout.ErrInvalid},
		"one too many":   {calls{write(4), write(4), write(4)}, layout.ErrInvalid},
		"one is missing": {calls{write(4), end}, layout.ErrTruncated},
		"gives up":       {calls{fill(func(io.Writer) error { return gaveUp })}, gaveUp},
		"closed":         {calls{write(4), write(4), end, end}, layout.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := safetensors.NewWriter(io.Discard, slices.Values([]layout.Tensor{{Name: []byte("a"), DType: layout.F32}, {Name: []byte("b"), DType: layout.F32}}), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := layouttest.Misused(t, w, tc.calls, write(4), end); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
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
		w, err := safetensors.NewWriter(&buf, slices.Values(was.Index().Tensors), md)
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
