package april

import (
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded .april file. It implements [layout.File], [layout.Unpacker] and
// [layout.Summarizer].
type File struct {
	Header   Header
	Networks []Network

	index *layout.Index
	lim   layout.Limits
}

var (
	_ layout.File       = (*File)(nil)
	_ layout.Unpacker   = (*File)(nil)
	_ layout.Summarizer = (*File)(nil)
)

// Decode reads the header of an .april file, and of its networks what describes their
// initializers. It steps over the elements of these as far as they are stored as bytes,
// over texts and over the parameters, which [File.Metadata] reads. Tensors are the
// networks first, then their initializers in the order of the file. A nil lim means the
// defaults.
//
// Errors are *[layout.FormatError]s. A network that is no ONNX model is none: see
// [Network].
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	h, err := decodeHeader(in)
	if err != nil {
		return nil, err
	}
	f := &File{Header: h, Networks: make([]Network, len(h.Networks)), lim: lim.WithDefaults()}
	r := newReader(in, f.lim)
	for i, e := range h.Networks {
		f.Networks[i] = Network{Role: roles[i], Entry: e}
		if err := r.network(&f.Networks[i]); err != nil {
			return nil, err
		}
	}
	f.index, err = f.buildIndex(in.Size(), r)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Index describes the file's tensors: the networks' bytes, and their initializers.
func (f *File) Index() *layout.Index { return f.index }

func (f *File) buildIndex(size uint64, r *reader) (*layout.Index, error) {
	count := uint64(len(f.Networks) + len(r.found))
	b, err := layout.NewBuilder(layout.April, size, count, "networks", f.lim)
	if err != nil {
		return nil, err
	}
	b.Index().Version = strconv.Itoa(version)
	if err := b.Section("header", atMagic, 0, f.Header.end); err != nil {
		return nil, err
	}
	if err := b.Section("params", f.Header.atParams, f.Header.Params.Offset, f.Header.Params.Size); err != nil {
		return nil, err
	}
	for i := range f.Networks {
		if err := f.addNetwork(b, i); err != nil {
			return nil, err
		}
	}
	if err := r.addInitializers(b); err != nil {
		return nil, err
	}
	return b.Finish()
}

func (f *File) addNetwork(b *layout.Builder, i int) error {
	n, t := &f.Networks[i], b.Next()
	t.Name = []byte("networks/" + n.Role)
	t.DType = layout.U8
	t.Shape = append(b.Dims(1)[:0], n.Size)
	t.Offset, t.Stored = n.Offset, n.Size
	return b.Add(f.Header.atNetworks + uint64(i)*entrySize)
}

func (r *reader) addInitializers(b *layout.Builder) error {
	name, dim := 0, 0
	for i := range r.found {
		init, t := &r.found[i], b.Next()
		t.Name = r.names[name:init.nameEnd:init.nameEnd]
		t.Shape = r.dims[dim:init.dimsEnd:init.dimsEnd]
		t.DType, t.Encoding, t.Alias = init.dtype, init.encoding, true
		t.Offset, t.Stored, t.Raw = init.offset, init.stored, init.raw
		if err := b.Add(init.at); err != nil {
			return err
		}
		name, dim = init.nameEnd, init.dimsEnd
	}
	return nil
}
