package layout

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout/internal/ascii"
)

// Builder collects the tensors of a file and checks everything that an Index promises.
// All decoders build their index with it, so every format is checked alike.
type Builder struct {
	ix   Index
	lim  Limits
	data Section // where tensors may be
	dims []int
	text []byte // names, many to an allocation
	span string // the format's name for a tensor's position
	// sorted stays true while offsets only rise and nothing overlaps, as in nearly
	// every real file. Then nothing is left to sort.
	sorted bool
	end    uint64
	err    error // of Section
	// surplus takes one tensor more than declared, which Add then refuses.
	surplus Tensor
}

// NewBuilder starts the index of a file of size bytes. At most count tensors will come. The
// caller has made sure that the file is large enough to hold that many records. spanField is
// the name that errors use for a tensor's position.
func NewBuilder(f Format, size, count uint64, spanField string, lim Limits) (*Builder, error) {
	if count > lim.Tensors {
		return nil, Errorf(f, 0, "tensor_count", ErrLimit, "%d tensors, more than %d", count, lim.Tensors)
	}
	return &Builder{
		ix:     Index{Format: f, Size: size, Tensors: make([]Tensor, 0, count), Names: NewNames(int(count))},
		lim:    lim,
		data:   Section{Size: size},
		span:   spanField,
		sorted: true,
	}, nil
}

// Index gives access to the descriptive fields (Version, Flags, Align).
func (b *Builder) Index() *Index { return &b.ix }

// Data limits tensors to the size bytes at off. Without it they may be anywhere.
func (b *Builder) Data(off, size uint64) {
	b.data = Section{"data", off, size}
	b.ix.DataOffset = off
}

// Section names a part of the file that is not tensors. at is the offset where the file says so.
// Finish checks that sections and tensors do not overlap. If the part leaves the file, the next Add
// or Finish fails.
func (b *Builder) Section(name string, at, off, size uint64) {
	if b.err == nil && !Within(off, size, b.ix.Size) {
		b.err = Errorf(b.ix.Format, at, name, ErrTruncated, "%d bytes at %d leave the file of %d bytes", size, off, b.ix.Size)
	}
	b.ix.Sections = append(b.ix.Sections, Section{name, off, size})
}

// Dims hands out memory for a shape of n dimensions, many shapes to an allocation. The
// caller has made sure that the file holds that many.
func (b *Builder) Dims(n int) []int {
	if b.dims == nil || n > cap(b.dims)-len(b.dims) { // a scalar has a shape too, which is empty and not nil
		left := cap(b.ix.Tensors) - len(b.ix.Tensors)
		b.dims = make([]int, 0, max(n, min(3*left, 1<<14)))
	}
	at := len(b.dims)
	b.dims = b.dims[:at+n]
	return b.dims[at : at+n : at+n]
}

// Next returns the tensor that comes next, for the caller to fill in place and then Add. Its
// Name may be a slice of the input, or of memory that is used again.
func (b *Builder) Next() *Tensor {
	if n := len(b.ix.Tensors); n < cap(b.ix.Tensors) {
		return &b.ix.Tensors[:n+1][n]
	}
	return &b.surplus
}

// Add checks the tensor that Next gave and makes it part of the index. at is the offset where
// the file describes it. Add computes its Raw. If the tensor is not stored raw, Add compares
// that with the Raw that the file states.
func (b *Builder) Add(at uint64) error {
	t := b.Next()
	if b.err != nil {
		return b.err
	}
	if err := b.name(t, at); err != nil {
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
		return b.errorf(at, b.span, ErrInvalid, t.Name, "%d bytes stored, but %s %v takes %d", t.Stored, t.DType, t.Shape, raw)
	case t.Encoding != Raw && t.Raw != raw:
		return b.errorf(at, "raw_size", ErrInvalid, t.Name, "%d bytes, but %s %v takes %d", t.Raw, t.DType, t.Shape, raw)
	}
	t.Raw = raw
	if err := b.checkSpan(t, at); err != nil {
		return err
	}
	return b.enter(t, at)
}

// name copies t's name and checks the copy. A decoder's may be mapped, and change.
func (b *Builder) name(t *Tensor, at uint64) error {
	n := len(t.Name)
	if uint64(n) > b.lim.NameBytes {
		return b.errorf(at, "name", ErrLimit, t.Name, "%d bytes, more than %d", n, b.lim.NameBytes)
	}
	if n > cap(b.text)-len(b.text) {
		b.text = make([]byte, 0, b.textFor(n))
	}
	from := len(b.text)
	b.text = append(b.text, t.Name...)
	t.Name = b.text[from:len(b.text):len(b.text)]
	switch {
	case ascii.Plain(t.Name):
		return nil
	case !utf8.Valid(t.Name):
		return b.errorf(at, "name", ErrInvalid, t.Name, "not valid UTF-8")
	case bytes.IndexByte(t.Name, 0) >= 0:
		return b.errorf(at, "name", ErrInvalid, t.Name, "holds a NUL byte")
	}
	return nil
}

// textFor returns how much memory to take for a name of n bytes and for the names after it. It
// assumes that they are as long.
func (b *Builder) textFor(n int) int {
	const slack, limit = 8, 1 << 15
	left := cap(b.ix.Tensors) - len(b.ix.Tensors)
	return max(n, min((n+slack)*left, limit))
}

// checkSpan makes sure that the bytes of t lie in the file and in its data section. It keeps track of the order of
// offsets.
func (b *Builder) checkSpan(t *Tensor, at uint64) error {
	if !Within(t.Offset, t.Stored, b.ix.Size) {
		return b.errorf(at, b.span, ErrTruncated, t.Name, "%d bytes at %d leave the file of %d bytes", t.Stored, t.Offset, b.ix.Size)
	}
	if t.Offset < b.data.Offset || !Within(t.Offset-b.data.Offset, t.Stored, b.data.Size) {
		return b.errorf(at, b.span, ErrInvalid, t.Name, "%d bytes at %d leave the data section, %d bytes at %d",
			t.Stored, t.Offset, b.data.Size, b.data.Offset)
	}
	if t.Stored > 0 && !t.Alias {
		if t.Offset < b.end {
			b.sorted = false
		}
		b.end = max(b.end, t.Offset+t.Stored) // a longer tensor before t may end behind it
	}
	return nil
}

// enter puts the name of t, the next tensor, into the table, and counts t in.
func (b *Builder) enter(t *Tensor, at uint64) error {
	if len(b.ix.Tensors) == cap(b.ix.Tensors) {
		// The table is sized for count. Past that, a probe would never end.
		return b.errorf(at, "tensor_count", ErrLimit, t.Name, "more than %d tensors", cap(b.ix.Tensors))
	}
	n := len(b.ix.Tensors)
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

// claim is a span of bytes that belongs to tensor i, or to section -1-i.
type claim struct {
	off, end uint64
	i        int
}

// checkOverlap fails if two sections or tensors have a byte in common. Aliases may lie anywhere.
func (b *Builder) checkOverlap() error {
	claims := make([]claim, 0, len(b.ix.Sections)+1)
	for i, s := range b.ix.Sections {
		if s.Size > 0 {
			claims = append(claims, claim{s.Offset, s.Offset + s.Size, -1 - i})
		}
	}
	if b.sorted && !b.sectionAmongTensors(claims) {
		return b.overlapping(claims)
	}
	for i := range b.ix.Tensors {
		if t := &b.ix.Tensors[i]; t.Stored > 0 && !t.Alias {
			claims = append(claims, claim{t.Offset, t.Offset + t.Stored, i})
		}
	}
	return b.overlapping(claims)
}

// sectionAmongTensors reports whether a section reaches between the first byte of the first
// tensor and the last byte of the last one. Then it might overlap a tensor.
func (b *Builder) sectionAmongTensors(sections []claim) bool {
	first := b.end
	for i := range b.ix.Tensors {
		if t := &b.ix.Tensors[i]; t.Stored > 0 && !t.Alias {
			first = t.Offset // tensors are sorted, so the first is the lowest
			break
		}
	}
	return slices.ContainsFunc(sections, func(s claim) bool { return s.off < b.end && first < s.end })
}

// overlapping sorts claims and fails at the first two that have a byte in common.
func (b *Builder) overlapping(claims []claim) error {
	slices.SortFunc(claims, func(x, y claim) int {
		return cmp.Or(cmp.Compare(x.off, y.off), cmp.Compare(x.end, y.end), cmp.Compare(x.i, y.i))
	})
	for i := 1; i < len(claims); i++ {
		if prev, next := claims[i-1], claims[i]; next.off < prev.end {
			return Errorf(b.ix.Format, next.off, b.span, ErrOverlap, "%s (%d bytes at %d) and %s (%d bytes at %d) overlap",
				b.claimant(prev), prev.end-prev.off, prev.off, b.claimant(next), next.end-next.off, next.off)
		}
	}
	return nil
}

// claimant names the tensor or section of c in errors.
func (b *Builder) claimant(c claim) string {
	if c.i < 0 {
		return "section " + b.ix.Sections[-1-c.i].Name
	}
	return "tensor " + Quote(b.ix.Tensors[c.i].Name)
}

func (b *Builder) errorf(at uint64, field string, sentinel error, name []byte, format string, args ...any) error {
	return Errorf(b.ix.Format, at, field, sentinel, format, args...).OfTensor(name)
}
