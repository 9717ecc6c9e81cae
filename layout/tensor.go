package layout

import "github.com/tensormap/tensormap/layout/internal/flags"

// Tensor describes one tensor of a file: what it is and where its bytes are.
type Tensor struct {
	// Name is unique in its file.
	Name []byte
	// Shape counts elements, outermost dimension first, whatever order the file
	// stores. It is empty for a scalar.
	Shape []int
	// Offset is the position of the stored bytes from the start of the file.
	Offset uint64
	// Stored is the number of bytes in the file.
	Stored uint64
	// Raw is the number of bytes of the decoded elements, which DType and Shape
	// imply. It equals Stored if Encoding is Raw.
	Raw uint64
	// Quant says how stored integers become real numbers. It is nil if the file gives this
	// tensor no scale.
	Quant *Quant

	// File is the position of the tensor's file among the files of a sharded model. A
	// decoder sees one file and leaves it 0.
	File uint32

	DType    DType
	Encoding Encoding
	// Alias marks a tensor whose bytes lie inside another tensor's by design, such as
	// an initializer inside an ONNX network.
	Alias bool
}

// Quant maps stored integers q to real numbers: Scale × (q − Zero).
type Quant struct {
	Scale float32
	Zero  int64
}

// Elements returns the number of elements, the product of Shape.
func (t *Tensor) Elements() uint64 {
	n, _ := Elements(t.Shape) // cannot overflow: Raw was computed from it
	return n
}

// Encoding is how a tensor's elements are stored in its file.
type Encoding uint8

// The encodings.
const (
	Raw          Encoding = iota // the element bytes themselves
	LZ4                          // blocks of a u32 length and an LZ4 block, 64 KiB of output each
	Encrypted                    // encrypted blocks of the element bytes, not readable without a key
	Protobuf                     // a protobuf message, whose file is an Unpacker
	Swapped                      // elements in big-endian order, whose file is an Unpacker
	EncryptedLZ4                 // encrypted blocks of what LZ4 has
)

var encodingNames = [...]string{"raw", "lz4", "encrypted", "protobuf", "big-endian", "encrypted"}

// LZ4Holds reports whether stored bytes of LZ4 blocks may have raw bytes of elements: at most 255 of each.
func LZ4Holds(stored, raw uint64) bool { return raw == 0 || stored >= (raw-1)/255+1 }

// Packed reports whether elements can only be unpacked as a whole, by their file's [Unpacker].
func (e Encoding) Packed() bool { return e == Protobuf || e == Swapped }

// Encrypted reports whether a key is needed.
func (e Encoding) Encrypted() bool { return e == Encrypted || e == EncryptedLZ4 }

// WithEncryption returns the encoding of encrypted blocks whose content is stored as e.
func (e Encoding) WithEncryption() Encoding {
	if e == LZ4 {
		return EncryptedLZ4
	}
	return Encrypted
}

// Decrypted returns how the content of encrypted blocks is stored, and e itself if that needs no key.
func (e Encoding) Decrypted() Encoding {
	switch e {
	case Encrypted:
		return Raw
	case EncryptedLZ4:
		return LZ4
	}
	return e
}

// String returns the encoding's name as inspect prints it. With and without LZ4 inside, an encrypted tensor is
// "encrypted".
func (e Encoding) String() string { return flags.Constant("Encoding", encodingNames[:], uint8(e)) }

// MarshalText returns what String does, so that an Encoding in JSON is its name.
func (e Encoding) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
