package layout

// File is a decoded model file: its index, and what else its format can be asked for.
// The methods that take an Input read from the same file that was decoded; none of them
// keeps it or returns memory of it.
type File interface {
	// Index describes the file's tensors.
	Index() *Index
	// Metadata parses what the file says about the model.
	Metadata(in Input) (Metadata, error)
	// Checksums lists the checksums stored in the file.
	Checksums(in Input) ([]Checksum, error)
	// Audit lists what is wrong or odd with the file though it can be read safely: of one
	// kind a hundred findings, and how many more there are.
	Audit(in Input) []Finding
}

// Scaler is a File whose metadata, not its index, says how integer tensors become
// real numbers (APR2: the key quantization.scales).
type Scaler interface {
	// Scales maps tensor names to their scale and zero point.
	Scales(md Metadata) (map[string]Quant, error)
}

// Unpacker is a File with tensors stored in an encoding that only its format knows.
type Unpacker interface {
	// Unpack fills dst, of t.Raw bytes, with the elements of t, one of the file's tensors
	// whose Encoding is Protobuf.
	Unpack(in Input, t *Tensor, dst []byte) error
}

// Decoder reads header and index of one format. A nil Limits means the defaults.
type Decoder func(in Input, lim *Limits) (File, error)

// Index is the table of contents of one file.
type Index struct {
	Format Format
	// Version is as the format writes it, such as "2.0"; empty where it has none.
	Version string
	// Flags are the names of the header's flag bits that are set.
	Flags []string
	// Align is the alignment in bytes that the file promises for the offset of every
	// tensor; 0 where it promises none. A tensor that breaks it is not aliased.
	Align uint64
	// Size is the size of the file in bytes.
	Size uint64
	// Tensors are in the order of the file's own table.
	Tensors []Tensor
	// Sections are the parts of the file that are not tensors.
	Sections []Section
	// Names finds tensors by name: a Probe's index is one into Tensors.
	Names *Names
}

// Section is a named part of a file, such as a header.
type Section struct {
	Name   string
	Offset uint64
	Size   uint64
}

// Find is the position in Tensors of the tensor called name, or -1.
func (ix *Index) Find(name string) int {
	for p := ix.Names.Probe(HashName(name)); ; {
		i, ok := p.Next()
		if !ok {
			return -1
		}
		if string(ix.Tensors[i].Name) == name {
			return i
		}
	}
}

// Aligned reports whether t's bytes may be used where they are: their offset is a
// multiple of what its type needs and of what the file promises.
func (ix *Index) Aligned(t *Tensor) bool {
	return t.Offset%uint64(t.DType.Align()) == 0 && (ix.Align == 0 || t.Offset%ix.Align == 0)
}

// Checksum is a CRC32 (IEEE) that a file stores over a part of itself.
type Checksum struct {
	Field  string // as the format names it
	At     uint64 // where the file stores it
	Offset uint64 // the bytes it covers
	Size   uint64
	Want   uint32
}

// Finding is something an audit found. Err wraps a sentinel as FormatError does.
type Finding struct {
	*FormatError
	// Warning marks what is odd but breaks no promise; verify reports it and does not fail.
	Warning bool
}
