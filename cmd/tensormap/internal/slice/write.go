package slice

import (
	"io"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// dumpers are the ways to write a tensor, in the order that help shows them.
var dumpers = []struct {
	name  string
	write func(io.Writer, loader.Tensor) error
	part  func(io.Writer, *Part) error
}{
	{"f32", func(w io.Writer, t loader.Tensor) error { return dumpFloat32(w, t, nil) }, partFloat32},
	{"raw", dumpRaw, partRaw},
	{"npy", dumpNumPy, partNumPy},
	{"text", func(w io.Writer, t loader.Tensor) error { return partText(w, Whole(t)) }, partText},
}

func dumpRaw(w io.Writer, t loader.Tensor) error {
	_, err := t.WriteTo(w)
	return err
}

func dumpNumPy(w io.Writer, t loader.Tensor) error {
	descr, ok := NpyTypes[t.DType()]
	if !ok {
		return dumpFloat32(w, t, NumPyHeader(npyFloat32, t.Shape()))
	}
	if _, err := w.Write(NumPyHeader(descr, t.Shape())); err != nil {
		return err
	}
	return dumpRaw(w, t)
}

// dumpStep is how many values are expanded at a time.
const dumpStep = 1 << 20

// dumpFloat32 writes header and values, a step at a time; nothing at all where the tensor
// has no values.
func dumpFloat32(w io.Writer, t loader.Tensor, header []byte) error {
	for run, err := range t.Values(make([]float32, dumpStep)) {
		if err != nil {
			return err
		}
		if _, err := w.Write(header); err != nil {
			return err
		}
		header = nil
		if _, err := w.Write(mmapio.Bytes(run.Values)); err != nil {
			return err
		}
	}
	_, err := w.Write(header) // of a tensor without elements
	return err
}

// Formats returns the names of the ways to write a tensor, the default first.
func Formats() (names []string) {
	for _, d := range dumpers {
		names = append(names, d.name)
	}
	return names
}

// Write writes part p of t in the named way. Without p it writes all of t.
func Write(w io.Writer, as string, t loader.Tensor, p *Part) error {
	for _, d := range dumpers {
		switch {
		case d.name != as:
		case p == nil:
			return d.write(w, t)
		default:
			return d.part(w, p)
		}
	}
	panic("no such way to write a tensor: " + as)
}

// Bytes returns how many bytes writeTensor writes but for a header, and 0 for text.
func Bytes(as string, t loader.Tensor, p *Part) uint64 {
	elements, each := t.Elements(), uint64(4)
	if p != nil {
		elements, _ = layout.Elements(p.shape())
	}
	_, typed := NpyTypes[t.DType()]
	switch {
	case as == "text":
		return 0
	case as == "raw" && p == nil:
		return t.RawBytes()
	case as == "raw", as == "npy" && typed:
		each = uint64(t.DType().BlockBytes())
	}
	return elements * each
}
