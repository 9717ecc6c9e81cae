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
	keys      *keys
	places    []place
	metadata  layout.Metadata
	described bool   // that metadata is there
	flagged   bool   // APR2: that sharded is true
	versioned bool   // APR2: that apr_version is there
	total     string // SafeTensors: total_size as stated; "" where it is not
	table     *Table // once it is stitched
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

// place is where the manifest says that a tensor is.
type place struct {
	tensor string
	shard  int
}

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
	root, err := jsontext.Parse(doc, layout.Manifest, 0, "manifest", limits)
	if err != nil {
		return nil, err
	}
	d := decoder{doc: doc, root: root, lim: limits, m: &Manifest{index: &layout.Index{
		Format:   layout.Manifest,
		Size:     size,
		Sections: []layout.Section{{Name: "manifest", Size: size}},
		Names:    layout.NewNames(0),
	}}}
	if err := d.decode(); err != nil {
		return nil, err
	}
	return d.m, nil
}

// Index describes the file, which has no tensors of its own.
func (m *Manifest) Index() *layout.Index { return m.index }

// Metadata is what the manifest itself says about the model. Describe joins it with what
// the shards say.
func (m *Manifest) Metadata(layout.Input) (layout.Metadata, error) { return m.metadata, nil }

// Complete reports whether Metadata is all there is to know of the model, so that no shard
// need be asked.
func (m *Manifest) Complete() bool { return m.described && m.Of == layout.APR2 }

// Describe is the metadata of the model, given that of its first shard, which is not looked
// at where Complete is true.
func (m *Manifest) Describe(first layout.Metadata) layout.Metadata {
	if m.Complete() {
		return m.metadata
	}
	md := slices.Clone(first)
	md.Merge(m.metadata)
	return md
}

// errorf is an error about the value that path leads to.
func (m *Manifest) errorf(in layout.Input, path []any, field string, sentinel error, format string, args ...any) *layout.FormatError {
	at := uint64(0)
	if doc, err := in.Slice(0, m.index.Size); err == nil {
		at = locate(doc, path...)
	}
	return layout.Errorf(layout.Manifest, at, field, sentinel, format, args...)
}

// file leads to where the manifest names shard i.
func (m *Manifest) file(i int) []any {
	if m.Of == layout.APR2 {
		return []any{"shards", i, "file"}
	}
	return m.tensor(m.Shards[i].first)
}

// tensor leads to place i.
func (m *Manifest) tensor(i int) []any { return []any{m.keys.tensors, m.places[i].tensor} }

// Unusable is the error of shard i being of no use, because of err. in is the manifest, here
// and below.
func (m *Manifest) Unusable(in layout.Input, i int, err error) error {
	return m.errorf(in, m.file(i), m.keys.file, err, "shard %s cannot be used", quote(m.Shards[i].Name))
}

// CheckSize compares the size of shard i with what the manifest says.
func (m *Manifest) CheckSize(in layout.Input, i int, size uint64) error {
	if s := &m.Shards[i]; s.Sized && s.Size != size {
		return m.errorf(in, []any{"shards", i, "size"}, "shards.size", layout.ErrInvalid,
			"shard %s has %d bytes, but should have %d", quote(s.Name), size, s.Size)
	}
	return nil
}

func quote(name string) string { return layout.Quote([]byte(name)) }
