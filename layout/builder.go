package layout

import (
	"bytes"
	"cmp"
	"unicode/utf8"
)

// Builder collects the tensors of a file and checks everything that an Index promises.
// All decoders build their index with it, so every format is checked alike.
type Builder struct {
	ix            Index
	lim           Limits
	data          Section // where tensors may be
	dims          []int
	text          []byte // names, many to an allocation
	positionField string // the format's name for a tensor's position
	max           int    // tensors; ix.Tensors has memory for one more, which Add refuses
	err           error  // of NewBuilder or Section, which the next Add or Finish returns
}

// NewBuilder starts the index of a file of size bytes. At most count tensors will come. The
// caller has made sure that the file is large enough to hold that many records. positionField is
// the name that errors use for a tensor's position. If count is over the limit, the next Add or Finish fails.
func NewBuilder(f Format, size, count uint64, positionField string, lim Limits) *Builder {
	var err error
	if count > lim.Tensors {
		err = Errorf(f, 0, "tensor_count", ErrLimit, "%d tensors, more than %d", count, lim.Tensors)
		count = 0
	}
	return &Builder{
		ix:            Index{Format: f, Size: size, Tensors: make([]Tensor, 0, count+1), Names: NewNames(int(count))},
		lim:           lim,
		data:          Section{Size: size},
		positionField: positionField,
		max:           int(count),
		err:           err,
	}
}

// Index gives access to the descriptive fields (Version, Flags, Align).
func (b *Builder) Index() *Index { return &b.ix }

// Data limits tensors to the size bytes at off. Without it they may be anywhere.
func (b *Builder) Data(off, size uint64) {
	b.data = Section{"data", off, size}
	b.ix.DataOffset = off
}

// Section enters a range of the file that is no tensor. at is the offset where the file states it, for errors.
// Finish checks that sections and tensors do not overlap. If the range leaves the file, the next Add
// or Finish fails.
func (b *Builder) Section(name string, at, off, size uint64) {
	if b.err == nil && !Within(off, size, b.ix.Size) {
		b.err = Errorf(b.ix.Format, at, name, ErrTruncated, "%d bytes at %d leave the file of %d bytes", size, off, b.ix.Size)
	}
	b.ix.Sections = append(b.ix.Sections, Section{name, off, size})
}

// Dims returns memory for a shape of n dimensions. It allocates memory for many shapes at once. The caller has made sure that the file
// holds that many.
func (b *Builder) Dims(n int) []int {
	return take(&b.dims, n, min(3*(b.max-len(b.ix.Tensors)), 1<<14))
}

// take returns n elements behind the end of *memory, and moves the end past them. If *memory has no space for them, take first replaces it
// by new memory, for many elements or for n if that is more. The result is not nil.
func take[T any](memory *[]T, n, many int) []T {
	m := *memory
	if m == nil || n > cap(m)-len(m) {
		m = make([]T, 0, max(n, many))
	}
	*memory = m[:len(m)+n]
	return m[len(m) : len(m)+n : len(m)+n]
}

// Next returns the tensor that comes next, for the caller to fill in place and then Add. Its
// Name may be a slice of the input, or of memory that is used again.
func (b *Builder) Next() *Tensor {
	n := len(b.ix.Tensors)
	return &b.ix.Tensors[:n+1][n]
}

// Add checks the tensor that Next gave and makes it part of the index. at is the offset where
// the file describes it. Add computes its Raw. If the tensor is not stored raw, Add compares
// that with the Raw that the file states.
func (b *Builder) Add(at uint64) error {
	t := b.Next()
	if b.err != nil {
		return b.err
	}
	if err := b.copyName(t, at); err != nil {
		return err
	}
	if uint64(len(t.Shape)) > b.lim.Rank {
		return b.errorf(at, "shape", ErrLimit, t.Name, "%d dimensions, more than %d", len(t.Shape), b.lim.Rank)
	}
	raw, err := t.DType.Size(t.Shape)
	if err != nil {
		return b.errorf(at, "shape", ErrInvalid, t.Name, "%v", err)
	}
	switch {
	case t.Encoding == Raw && t.Stored != raw:
		return b.errorf(at, b.positionField, ErrInvalid, t.Name, "%d bytes stored, but %s %v takes %d", t.Stored, t.DType, t.Shape, raw)
	case t.Encoding != Raw && t.Raw != raw:
		return b.errorf(at, "raw_size", ErrInvalid, t.Name, "%d bytes, but %s %v takes %d", t.Raw, t.DType, t.Shape, raw)
	}
	t.Raw = raw
	if err := b.checkRange(t, at); err != nil {
		return err
	}
	return b.append(t, at)
}

// copyName replaces t's name by a copy, since the decoder's may be mapped and change. It fails if the copy is too long, not UTF-8, or holds a
// NUL byte.
func (b *Builder) copyName(t *Tensor, at uint64) error {
	n := len(t.Name)
	if uint64(n) > b.lim.NameBytes {
		return b.errorf(at, "name", ErrLimit, t.Name, "%d bytes, more than %d", n, b.lim.NameBytes)
	}
	const slack, limit = 8, 1 << 15
	name := take(&b.text, n, min((n+slack)*(b.max-len(b.ix.Tensors)), limit)) // the names after it are taken to be as long
	copy(name, t.Name)
	t.Name = name
	switch {
	case !utf8.Valid(t.Name):
		return b.errorf(at, "name", ErrInvalid, t.Name, "not valid UTF-8")
	case bytes.IndexByte(t.Name, 0) >= 0:
		return b.errorf(at, "name", ErrInvalid, t.Name, "holds a NUL byte")
	}
	return nil
}

// checkRange makes sure that the bytes of t lie in the file and in its data section.
func (b *Builder) checkRange(t *Tensor, at uint64) error {
	if !Within(t.Offset, t.Stored, b.ix.Size) {
		return b.errorf(at, b.positionField, ErrTruncated, t.Name, "%d bytes at %d leave the file of %d bytes", t.Stored, t.Offset, b.ix.Size)
	}
	if t.Offset < b.data.Offset || !Within(t.Offset-b.data.Offset, t.Stored, b.data.Size) {
		return b.errorf(at, b.positionField, ErrInvalid, t.Name, "%d bytes at %d leave the data section, %d bytes at %d",
			t.Stored, t.Offset, b.data.Size, b.data.Offset)
	}
	return nil
}

// append adds t, the tensor that Next has returned, to the index. It fails if the index is full, or another tensor has its name.
func (b *Builder) append(t *Tensor, at uint64) error {
	n := len(b.ix.Tensors)
	if n == b.max {
		// Names has space for no more, and a search in a full table would never end.
		return b.errorf(at, "tensor_count", ErrLimit, t.Name, "more than %d tensors", n)
	}
	other := b.ix.Names.Enter(HashNameBytes(t.Name), n, func(i int) bool { return bytes.Equal(b.ix.Tensors[i].Name, t.Name) })
	if other >= 0 {
		return b.errorf(at, "name", ErrDuplicate, t.Name, "tensors %d and %d have the same name", other, n)
	}
	b.ix.Tensors = b.ix.Tensors[:n+1]
	return nil
}

// Finish checks that nothing overlaps, and returns the index.
func (b *Builder) Finish() (*Index, error) {
	if err := cmp.Or(b.err, b.checkOverlap()); err != nil {
		return nil, err
	}
	return &b.ix, nil
}

// checkOverlap fails at the first two sections or tensors that have a byte in common. Aliases may lie anywhere.
func (b *Builder) checkOverlap() error {
	ranges := b.ix.FileRanges()
	for i := 1; i < len(ranges); i++ {
		if prev, next := ranges[i-1], ranges[i]; next.Offset < prev.End {
			return Errorf(b.ix.Format, next.Offset, b.positionField, ErrOverlap, "%s (%d bytes at %d) and %s (%d bytes at %d) overlap",
				b.rangeName(prev), prev.End-prev.Offset, prev.Offset, b.rangeName(next), next.End-next.Offset, next.Offset)
		}
	}
	return nil
}

// rangeName returns what errors call the tensor or section that p is.
func (b *Builder) rangeName(p FileRange) string {
	if p.number < 0 {
		return "section " + b.ix.Sections[-1-p.number].Name
	}
	return "tensor " + Quote(b.ix.Tensors[p.number].Name)
}

// errorf returns an error about the tensor called name, which the file describes at offset at.
func (b *Builder) errorf(at uint64, field string, sentinel error, name []byte, format string, args ...any) error {
	return Errorf(b.ix.Format, at, field, sentinel, format, args...).OfTensor(name)
}
