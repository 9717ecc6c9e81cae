package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
)

// Format describes manifests and indexes.
var Format = layout.FileFormat{Name: layout.Manifest, Matches: matches, Decode: layout.AsDecoder(Decode)}

// matches recognises a JSON object, with white space before it or not.
func matches(_ layout.Input, head []byte) bool {
	text := bytes.TrimLeft(head, " \t\r\n")
	return len(text) > 0 && text[0] == '{'
}

// File is a decoded APR2 manifest or SafeTensors index. It implements [layout.File],
// with an index that has no tensors.
type File struct {
	// Of is the format of all shards.
	Of layout.Format
	// Shards are the model's files, in order.
	Shards []Shard
	// FollowLinks tells that shards may be links to files elsewhere.
	FollowLinks bool
	// Encryption is what an APR2 manifest of encrypted shards says of how the shards were encrypted, else nil. Nothing of
	// it has been verified.
	Encryption *encrypted.Encryption

	index       *layout.Index
	lim         layout.Limits
	text        string  // a copy of the file
	tensors     []Place // the map of tensors, in the order of the text
	hasMetadata bool    // the text has the key metadata
	sharded     bool    // APR2: the key sharded is true
	signed      bool    // APR2: the text has the key signature
	versioned   bool    // APR2: the text has the key apr_version
	total       string  // SafeTensors: total_size as stated, or ""
	// The tensors of all shards, and the position of the one with a name, or -1, once CheckTensors has accepted them; else nil.
	shardTensors []layout.Tensor
	find         func(name string) int
}

var _ layout.File = (*File)(nil)

// Shard is what a manifest says of one file.
type Shard struct {
	// Name is the file's name in the manifest's directory.
	Name string
	// Size in bytes, which SafeTensors indexes do not have.
	Size  uint64
	Sized bool
	// CRC32 covers the file up to its last 16 bytes, the footer of APR2, which states the same
	// number. It is as the manifest writes it, or "".
	CRC32 string
	// SHA256 covers the whole file. It is as the manifest writes it, or "".
	SHA256 string
	// HeadSHA256 covers all before the data of a signed or encrypted APR2 file, in 64 hexadecimal digits. It
	// is "" in manifests that are neither.
	HeadSHA256 string
}

// mapKey returns the key of the object with the tensors' places.
func (m *File) mapKey() string {
	if m.Of == layout.APR2 {
		return "tensor_shard_map"
	}
	return "weight_map"
}

// footerSize is how many bytes at the end of a shard CRC32 leaves out: the footer of APR2.
const footerSize = 16

// coveredBytes returns how many bytes, from the first of the file on, the CRC32 of a shard is over.
func (s *Shard) coveredBytes() uint64 { return s.Size - min(s.Size, footerSize) }

// crc32 returns the value of CRC32. ok is false unless that is 8 lower-case hexadecimal digits.
func (s *Shard) crc32() (crc uint32, ok bool) {
	b, ok := decodeHex(s.CRC32, 4)
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}

// sha256 returns the bytes of SHA256. ok is false unless that is 64 lower-case hexadecimal digits.
func (s *Shard) sha256() (sum [sha256.Size]byte, ok bool) {
	b, ok := decodeHex(s.SHA256, len(sum))
	copy(sum[:], b)
	return sum, ok
}

// decodeHex decodes text. ok is false unless that is 2×bytes lower-case hexadecimal digits.
func decodeHex(text string, bytes int) (b []byte, ok bool) {
	b, err := hex.DecodeString(text)
	return b, err == nil && len(b) == bytes && text == strings.ToLower(text)
}

// crcOfCRC is the CRC32 of any bytes followed by their own CRC32.
const crcOfCRC = 0x2144df1c

// provesNothing reports whether every intact file of the shard's size has this CRC32, so that it cannot tell files apart.
func (s *Shard) provesNothing() bool {
	crc, ok := s.crc32()
	rest := binary.LittleEndian.AppendUint64([]byte("2RPA"), s.Size)
	return ok && crc == crc32.Update(crcOfCRC, crc32.IEEETable, rest)
}
