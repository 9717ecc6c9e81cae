package shard

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Manifest is a decoded APR2 manifest or SafeTensors index. It implements [layout.File],
// with an index that has no tensors.
type Manifest struct {
	// Shards are the model's files, in order.
	Shards []Shard
	// Of is the format of all shards.
	Of layout.Format
	// FollowLinks tells that shards may be links to files elsewhere.
	FollowLinks bool

	index     *layout.Index
	lim       layout.Limits
	text      string // a copy of the file
	keys      *keys
	places    []place
	sumsAt    []sumsAt // of Shards
	metadata  string   // the part of text; "" if there is none
	flagged   bool     // APR2: sharded is true
	versioned bool     // APR2: apr_version is there
	total     string   // SafeTensors: total_size as stated; "" if it is not
	table     *Table   // once it is stitched
}

// Shard is what a manifest says of one file.
type Shard struct {
	// Name is the file's name in the manifest's directory.
	Name string
	// Size in bytes, which SafeTensors indexes do not have.
	Size  uint64
	Sized bool
	// CRC32 covers the file up to its last 16 bytes, the footer of APR2, which states the same
	// number. It is as the manifest writes it; "" where it does not.
	CRC32 string
	// SHA256 covers the whole file. It is as the manifest writes it; "" where it does not.
	SHA256 string

	first int // SafeTensors: the first of places that is in it
}

// place says in which shard a tensor is. The text has its name at an offset.
type place struct{ name, shard uint32 }

// sumsAt holds the offsets of what the text says of a shard's checksums.
type sumsAt struct{ crc32, sha256 uint64 }

// keys are the manifest's words for what both kinds have.
type keys struct{ file, tensors string }

var (
	apr2Keys  = &keys{file: "shards.file", tensors: "tensor_shard_map"}
	indexKeys = &keys{file: "weight_map", tensors: "weight_map"}
)

var _ layout.File = (*Manifest)(nil)

// Decode reads a manifest. A nil lim means the defaults. The error, a
// *[layout.FormatError] whose Format is layout.Manifest, wraps layout.ErrUnsupported where
// the file is a JSON object of another kind.
func Decode(in layout.Input, lim *layout.Limits) (*Manifest, error) {
	limits := lim.WithDefaults()
	size := in.Size()
	if size > limits.HeaderBytes { // before it is read
		return nil, layout.Errorf(layout.Manifest, 0, "manifest", layout.ErrLimit, "%d bytes of JSON, more than %d", size, limits.HeaderBytes)
	}
	doc, err := layout.Region(in, layout.Manifest, 0, "manifest", 0, size)
	if err != nil {
		return nil, err
	}
	m := &Manifest{lim: limits, text: string(doc), index: &layout.Index{
		Format:   layout.Manifest,
		Size:     size,
		Sections: []layout.Section{{Name: "manifest", Size: size}},
		Names:    layout.NewNames(0),
	}}
	d := decoder{text: m.text, lim: limits, m: m}
	if err := d.decode(); err != nil {
		return nil, err
	}
	return m, nil
}

// Index describes the file, which has no tensors of its own.
func (m *Manifest) Index() *layout.Index { return m.index }

// Metadata parses what the manifest itself says about the model. [Manifest.Describe] joins it
// with what the shards say.
func (m *Manifest) Metadata(layout.Input) (layout.Metadata, error) {
	if m.metadata == "" {
		return nil, nil
	}
	return jsontext.Parse(m.metadata, layout.Manifest, jsontext.Locate(m.text, "metadata"), "metadata", m.lim)
}

// Complete reports whether Metadata is all there is to know of the model, so that no shard
// need be asked.
func (m *Manifest) Complete() bool { return m.metadata != "" && m.Of == layout.APR2 }

// Describe returns the metadata of the model, given that of its first shard. If Complete is
// true, it does not look at that.
func (m *Manifest) Describe(first layout.Metadata) (layout.Metadata, error) {
	own, err := m.Metadata(nil)
	if m.Complete() || err != nil {
		return own, err
	}
	md := slices.Clone(first)
	md.Merge(own)
	return md, nil
}

// errorf returns an error about the value that path leads to.
func (m *Manifest) errorf(path []any, field string, sentinel error, format string, args ...any) *layout.FormatError {
	return layout.Errorf(layout.Manifest, jsontext.Locate(m.text, path...), field, sentinel, format, args...)
}

// file leads to where the manifest names shard i.
func (m *Manifest) file(i int) []any {
	if m.Of == layout.APR2 {
		return []any{"shards", i, "file"}
	}
	return m.tensor(m.Shards[i].first)
}

// tensor leads to place i.
func (m *Manifest) tensor(i int) []any { return []any{m.keys.tensors, m.name(i)} }

// name returns the name of the tensor of place i.
func (m *Manifest) name(i int) string { return jsontext.TextAt(m.text, int(m.places[i].name)) }

// Unusable returns the error of shard i being of no use, because of err.
func (m *Manifest) Unusable(i int, err error) error {
	return m.errorf(m.file(i), m.keys.file, err, "shard %s cannot be used", quote(m.Shards[i].Name))
}

// CheckSize compares the size of shard i with what the manifest says.
func (m *Manifest) CheckSize(i int, size uint64) error {
	if s := &m.Shards[i]; s.Sized && s.Size != size {
		return m.errorf([]any{"shards", i, "size"}, "shards.size", layout.ErrInvalid,
			"shard %s has %d bytes, but should have %d", quote(s.Name), size, s.Size)
	}
	return nil
}

func quote(name string) string { return layout.Quote([]byte(name)) }
