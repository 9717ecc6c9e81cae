package tensorwriter

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
)

func begin(dst io.Writer, sizes ...uint64) *File {
	var list []layout.Tensor
	for i, n := range sizes {
		list = append(list, layout.Tensor{Name: []byte{byte('a' + i)}, DType: layout.U8, Shape: []int{layout.Dim(n)}, Stored: n, Raw: n})
	}
	return New(dst, Plan{Format: layout.TSM, Size: 99, Align: 4, Tensors: list, SizeField: "length", CountField: "total"})
}

// TestWrite writes in every way, and goes back once.
func TestWrite(t *testing.T) {
	var out bytes.Buffer
	f := begin(&out, 3, 2, 5, 0)
	var mark Mark
	_, err := f.Write([]byte("head"))
	for i, err := range []error{
		err,
		f.WriteTensor([]byte("abc")),
		f.WriteTensorFunc(func(dst io.Writer) error { _, err := io.Copy(dst, strings.NewReader("de")); return err }),
		f.WriteTensorFunc(func(dst io.Writer) error {
			io.WriteString(dst, "fg")
			_, err := io.WriteString(dst, "hij")
			return err
		}),
		func() error { mark = f.Mark; return nil }(),
		func() error {
			x, n, err := f.WriteUnsized(func(dst io.Writer) error { _, err := io.WriteString(dst, "xyz"); return err })
			if n != 3 || string(x.Name) != "d" {
				t.Errorf("%d bytes of %q", n, x.Name)
			}
			out.Truncate(int(mark.Written))
			f.Mark = mark
			return err
		}(),
		f.WriteTensor(nil),
		f.Complete(),
		f.Err(),
	} {
		if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if want := "headabc\x00de\x00\x00fghij\x00\x00\x00"; out.String() != want || f.Written != uint64(len(want)) || f.Plan.Size != 99 {
		t.Errorf("%q, want %q; %d written of %d", out.String(), want, f.Written, f.Plan.Size)
	}
	for i, want := range []uint64{4, 8, 12, 20} {
		if at := f.Plan.Tensors[i].Offset; at != want {
			t.Errorf("tensor %d at %d, want %d", i, at, want)
		}
	}
}

// TestFailsAlike: the first error is the answer of all that follows, and tells the format, field and place.
func TestFailsAlike(t *testing.T) {
	gaveUp := errors.New("no more")
	for _, tc := range []struct {
		name  string
		room  int
		call  func(f *File) error
		want  error
		field string // "": not about the file
		at    uint64
	}{
		{"short", 99, func(f *File) error { return f.WriteTensor([]byte("a")) }, layout.ErrInvalid, "length", 0},
		{"long", 99, func(f *File) error {
			return f.WriteTensorFunc(func(dst io.Writer) error { dst.Write(make([]byte, 4)); return nil })
		}, layout.ErrInvalid, "length", 0},
		{"incomplete", 99, func(f *File) error { return f.Complete() }, layout.ErrTruncated, "total", 0},
		{"one more", 99, func(f *File) error {
			return errors.Join(f.WriteTensor([]byte("abc")), f.WriteTensor(nil))
		}, layout.ErrInvalid, "total", 3},
		{"gives up", 99, func(f *File) error { return f.WriteTensorFunc(func(io.Writer) error { return gaveUp }) }, gaveUp, "", 0},
		{"disk", 2, func(f *File) error { return f.WriteTensor([]byte("abc")) }, iofault.ErrDisk, "", 0},
		{"disk, dropped", 2, func(f *File) error {
			return f.WriteTensorFunc(func(dst io.Writer) error { dst.Write([]byte("abc")); dst.Write(nil); return nil })
		}, iofault.ErrDisk, "", 0},
	} {
		f := begin(&iofault.Full{Left: tc.room}, 3)
		err := tc.call(f)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		fe, ok := errors.AsType[*layout.FormatError](f.Err())
		if ok != (tc.field != "") || ok && (fe.Format != layout.TSM || fe.Field != tc.field || fe.Offset != tc.at) {
			t.Errorf("%s: %v", tc.name, f.Err())
		}
		if again := f.WriteTensor(nil); again != f.Err() || f.Complete() != f.Err() {
			t.Errorf("%s: later %v", tc.name, again)
		}
	}
}
