package layout

import (
	"cmp"
	"slices"
)

// Index is the table of contents of one file.
type Index struct {
	Format Format
	// Version is as the format writes it, such as "2.0", or empty.
	Version string
	// Flags are the names of the header's flag bits that are set.
	Flags []string
	// Align is the alignment in bytes that the file promises for the offset of every
	// tensor, 0 for none. A tensor that breaks it is not aliased.
	Align uint64
	// DataOffset is where the part of the file begins that has the bytes of all tensors, 0 if the format has no such part.
	DataOffset uint64
	// Size is the size of the file in bytes.
	Size uint64
	// Tensors are in the order of the file's own table.
	Tensors []Tensor
	// Sections are the ranges of the file that are not tensors.
	Sections []Section
	// Names finds tensors by name: records are Tensors. The table of a file that is one of several is
	// the table of all, and Tensors are some of theirs.
	Names *Names

	first int // of Tensors in the list that Names finds
}

// Section is a named range of a file, such as a header.
type Section struct {
	Name   string // such as "index"
	Offset uint64 // in bytes, from the start of the file
	Size   uint64 // in bytes
}

// Find returns the position in Tensors of the tensor called name, or -1.
func (ix *Index) Find(name string) int {
	i := ix.Names.Find(HashName(name), func(i int) bool {
		i -= ix.first
		return 0 <= i && i < len(ix.Tensors) && string(ix.Tensors[i].Name) == name
	})
	return max(i-ix.first, -1) // of no tensor i is -1
}

// Share makes ix the index of one file of several. Its tensors become the tensors of list from first on, as many as it has, and names
// finds all of list.
func (ix *Index) Share(list []Tensor, names *Names, first int) {
	n := len(ix.Tensors)
	ix.Tensors, ix.Names, ix.first = list[first:first+n:first+n], names, first
}

// Aligned reports whether t's bytes may be used where they are. Their offset is then a multiple
// of the alignment that its type needs and of the one that the file promises.
func (ix *Index) Aligned(t *Tensor) bool {
	return t.Offset%uint64(t.DType.Align()) == 0 && (ix.Align == 0 || t.Offset%ix.Align == 0)
}

// FileRange is a section or a tensor of a file that has bytes of its own: the bytes from Offset to End.
type FileRange struct {
	Offset, End uint64
	number      int // of the tensor, or -1 minus the number of the section
}

// FileRanges returns the sections and tensors that have bytes of their own, in the order of their offsets. An alias has none.
func (ix *Index) FileRanges() []FileRange {
	ranges := make([]FileRange, 0, len(ix.Sections)+len(ix.Tensors))
	for i, s := range ix.Sections {
		if s.Size > 0 {
			ranges = append(ranges, FileRange{s.Offset, s.Offset + s.Size, -1 - i})
		}
	}
	for i := range ix.Tensors {
		if t := &ix.Tensors[i]; t.Stored > 0 && !t.Alias {
			ranges = append(ranges, FileRange{t.Offset, t.Offset + t.Stored, i})
		}
	}
	slices.SortFunc(ranges, func(x, y FileRange) int {
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.End, y.End), cmp.Compare(x.number, y.number))
	})
	return ranges
}
