package layout

import "encoding/binary"

// Decoder reads header and index of one format. A nil Limits means the defaults.
type Decoder func(in Input, lim *Limits) (File, error)

// File is a decoded model file: its index, and the answers that its format has for the rest.
// Methods that take an Input read the file that was decoded. They neither keep it nor return
// memory of it.
//
// The interfaces below are optional: a File of a format that knows the answer has the method.
type File interface {
	// Index describes the file's tensors.
	Index() *Index
	// Metadata parses what the file says about the model.
	Metadata(in Input) (Metadata, error)
	// Checksums lists the checksums stored in the file.
	Checksums(in Input) ([]Checksum, error)
	// Audit lists what is wrong or odd with the file though it can be read safely. It lists a
	// hundred findings of one kind and the number of the others.
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
	// whose Encoding is Packed.
	Unpack(in Input, t *Tensor, dst []byte) error
}

// Splitter is a File that may be one shard of a split model, as GGUF files are.
type Splitter interface {
	// Split reports which shard the file is, from 0, of how many, and how many tensors all
	// shards hold together. ok is false for a model that is not split.
	Split() (no, count uint16, tensors int32, ok bool)
}

// Summarizer is a File that can say in a few lines what a person wants to know of it first.
type Summarizer interface {
	// Summary reads what it needs of the metadata, and tensors if they are small.
	Summary(in Input) ([]Fact, error)
}

// Configurer is a File whose metadata has hyperparameters under names, or in a place, of its format's.
type Configurer interface {
	// Config returns the hyperparameters in md, which Metadata has returned. Their names are the ones
	// of Hugging Face's config.json if the format has no equal ones.
	Config(md Metadata) Metadata
}

// Grapher is a File that holds a computation graph in addition to its tensors.
type Grapher interface {
	Graph(in Input) (*Graph, error)
}

// Checksum is a CRC32 (IEEE) that a file stores over a part of itself.
type Checksum struct {
	Field  string // as the format names it
	At     uint64 // where the file stores it
	Offset uint64 // of the bytes that it covers
	Size   uint64 // their number
	Want   uint32 // the stored value
}

// ChecksumAt lists the CRC32 at an offset, which covers all bytes of the file before it.
func ChecksumAt(in Input, f Format, at uint64) ([]Checksum, error) {
	b, err := Region(in, f, at, "crc32", at, 4)
	if err != nil {
		return nil, err
	}
	return []Checksum{{Field: "crc32", At: at, Size: at, Want: binary.LittleEndian.Uint32(b)}}, nil
}

// Finding is something an audit found. Err wraps a sentinel as FormatError does.
type Finding struct {
	*FormatError
	// Warning marks what is odd but breaks no promise; verify reports it and does not fail.
	Warning bool
}

// Fact is one line of a summary. A Value may have several lines.
type Fact struct {
	Label string
	Value string
}

// Facts are a summary that is being made.
type Facts []Fact

// Add adds a line unless value is empty.
func (f *Facts) Add(label, value string) {
	if value != "" {
		*f = append(*f, Fact{label, value})
	}
}

// Graph is the computation that a model's tensors belong to.
type Graph struct {
	// Inputs and Outputs are positions in Nodes.
	Inputs, Outputs []int
	Nodes           []Node
}

// Node is one operation of a Graph.
type Node struct {
	// Name may be empty, and need not be unique.
	Name string
	// Op is the operator, such as "conv2d", as the format spells it.
	Op string
	// Inputs are the positions of the nodes that this one reads.
	Inputs []int
	// Tensors are the names in the Index of the tensors that belong to the node.
	Tensors []string
	// Attributes are what else the file says of the node.
	Attributes Metadata
}
