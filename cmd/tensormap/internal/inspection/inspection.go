// Package inspection shows the header, metadata, graph and tensors of a model.
package inspection

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/glob"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/layout/sealed"
	"github.com/tensormap/tensormap/loader"
)

// Options select what is shown of a model, and how.
type Options struct {
	Json, Metadata, Graph, Tree bool
	Filter                      glob.Pattern
	Depth                       int    // of the tree; 0 is all of it
	Trusted                     string // whose signature was verified, or ""
	Unlocked                    bool   // the model was opened with its key
	Order                       string // of tensors, one of orderNames; "" is the order of the file
}

// inspection is all that inspect shows. The names in JSON are a contract.
type inspection struct {
	Format   layout.Format   `json:"format"`
	Version  string          `json:"version"`
	Files    []FileInfo      `json:"files"`
	Sharded  bool            `json:"sharded,omitempty"`
	Flags    []string        `json:"flags"`
	Metadata layout.Metadata `json:"metadata"`
	// Signature is nil if nothing says that the model is signed.
	Signature *Signature `json:"signature,omitempty"`
	// Encryption is nil if the model is not encrypted.
	Encryption *Encryption   `json:"encryption,omitempty"`
	Graph      *layout.Graph `json:"graph,omitempty"`

	summary []layout.Fact

	files    []loader.FileInfo
	count    int                     // of tensors that the filter lets through
	selected iter.Seq[loader.Tensor] // these in the order in which they are shown
	total    int                     // tensors of the model, whether the filter lets them through or not
	Err      error                   // why metadata or scales cannot be read, or nil
}

// Signature says by whom a model is signed. A signer that is not verified is what the file claims.
type Signature struct {
	By       string `json:"by"`
	Verified bool   `json:"verified"`
}

// signature returns what is known of the model's signature, or nil.
func signature(l *loader.Lease, flags []string, trusted string) *Signature {
	if trusted != "" {
		return &Signature{trusted, true}
	}
	if !slices.Contains(flags, apr2.Signed.String()) {
		return nil
	}
	s := &Signature{By: "unknown"}
	if md, err := l.Metadata(); err == nil {
		if by, ok := md.Get("signature", "public_key"); ok {
			s.By = fmt.Sprintf("Ed25519 %v", by)
		}
	}
	return s
}

// Encryption says how a model is encrypted. Without the key it is what the file claims.
type Encryption struct {
	Algorithm string `json:"algorithm"`
	KDF       string `json:"kdf"`
	KeyID     string `json:"key_id,omitempty"`
	Verified  bool   `json:"verified"`
}

type FileInfo struct {
	Path string `json:"path"`
	Size uint64 `json:"size"`
}

type tensorInfo struct {
	Name        string          `json:"name"`
	DType       layout.DType    `json:"dtype"`
	Shape       []int           `json:"shape"`
	Elements    uint64          `json:"elements"`
	File        int             `json:"file"`
	Offset      uint64          `json:"offset"`
	StoredBytes uint64          `json:"stored_bytes"`
	RawBytes    uint64          `json:"raw_bytes"`
	Encoding    layout.Encoding `json:"encoding"`
	ZeroCopy    bool            `json:"zero_copy"`
	Scale       *float32        `json:"scale,omitempty"` // both only if the file gives a scale
	ZeroPoint   *int64          `json:"zero_point,omitempty"`

	tensor          loader.Tensor
	problem         error // why codes have no values
	scaleUnreadable bool
	unaligned       bool // in its file, whether that is mapped or not
}

// weightInfo is a quantized weight in JSON. It has no dtype, and its bytes are those of its parts.
type weightInfo struct {
	Name     string     `json:"name"`
	Shape    []int      `json:"shape"`
	Elements uint64     `json:"elements"`
	Scheme   string     `json:"scheme"`
	Parts    []partInfo `json:"parts"`
}

type partInfo struct {
	Role        scheme.Role  `json:"role"`
	Name        string       `json:"name"`
	DType       layout.DType `json:"dtype"`
	Shape       []int        `json:"shape"`
	File        int          `json:"file"`
	Offset      uint64       `json:"offset"`
	StoredBytes uint64       `json:"stored_bytes"`
}

// kind returns what tables call the type of a tensor.
func (info *tensorInfo) kind() string {
	if w := info.tensor.Scheme(); w != nil {
		return w.Scheme
	}
	return info.DType.String()
}

// row returns what JSON says of a tensor.
func (info *tensorInfo) row() any {
	w := info.tensor.Scheme()
	if w == nil {
		return info
	}
	row := weightInfo{info.Name, info.Shape, info.Elements, w.Scheme, nil}
	for _, p := range info.tensor.Parts() {
		t := p.Tensor
		row.Parts = append(row.Parts, partInfo{p.Role, t.Name(), t.DType(), report.OrEmpty(t.Shape()), t.File(), t.Offset(), t.StoredBytes()})
	}
	return row
}

func New(m *loader.Model, l *loader.Lease, opts *Options) *inspection {
	files := m.Files()
	index := files[0].Layout.Index()
	in := &inspection{
		Format:  m.Format(),
		Version: index.Version,
		Sharded: len(files) > 1,
		Flags:   append([]string{}, index.Flags...),
		files:   files,
		total:   m.Len(),
	}
	for _, f := range files {
		in.Files = append(in.Files, FileInfo{f.Path, f.Size})
	}
	in.Signature = signature(l, in.Flags, opts.Trusted)
	if f, ok := files[0].Layout.(*apr2.File); ok && f.Encryption != nil {
		in.Encryption = &Encryption{sealed.Algorithm, f.Encryption.KDF, f.Encryption.KeyID, opts.Unlocked}
	}
	if opts.Json || opts.Metadata {
		in.Metadata, in.Err = l.Metadata()
	}
	if !opts.Json {
		var err error
		in.summary, err = l.Summary()
		in.Err = cmp.Or(in.Err, err)
	}
	in.selected = func(yield func(loader.Tensor) bool) {
		for t := range l.Tensors() {
			if opts.Filter.Match(t.Name()) && !yield(t) {
				return
			}
		}
	}
	for t := range in.selected {
		in.count++
		_, _, err := t.Scale()
		in.Err = cmp.Or(in.Err, err)
	}
	return in
}

// tensors describes the tensors that are shown, each until the next.
func (in *inspection) tensors() iter.Seq[*tensorInfo] {
	return func(yield func(*tensorInfo) bool) {
		var info tensorInfo
		for t := range in.selected {
			if info.set(t, in.files[t.File()].Layout.Index()); !yield(&info) {
				return
			}
		}
	}
}

// set makes info that of t, whose shape it shares. index is that of t's file.
func (info *tensorInfo) set(t loader.Tensor, index *layout.Index) {
	*info = tensorInfo{
		tensor:      t,
		problem:     t.Problem(),
		Name:        t.Name(),
		DType:       t.DType(),
		Shape:       t.Shape(),
		Elements:    t.Elements(),
		File:        t.File(),
		Offset:      t.Offset(),
		StoredBytes: t.StoredBytes(),
		RawBytes:    t.RawBytes(),
		Encoding:    t.Encoding(),
		ZeroCopy:    t.ZeroCopy(),
	}
	if info.Shape == nil {
		info.Shape = []int{} // [], not null, for a scalar
	}
	info.unaligned = info.StoredBytes > 0 && t.Scheme() == nil && !index.Aligned(&layout.Tensor{DType: info.DType, Offset: info.Offset})
	q, scaled, err := t.Scale()
	if scaled {
		scale, zero := q.Scale, q.Zero // of their own: q stays on the stack if there are none
		info.Scale, info.ZeroPoint = &scale, &zero
	}
	info.scaleUnreadable = err != nil
}

// WriteJSON writes the object with a line for each field and for each tensor: easy to
// read by eye, by grep and by diff, and never whole in memory.
func WriteJSON(w io.Writer, in *inspection) error {
	j := report.JSON{W: w}
	j.Field("format", in.Format)
	j.Field("version", in.Version)
	j.Field("files", in.Files)
	if in.Sharded {
		j.Field("sharded", true)
	}
	j.Field("flags", in.Flags)
	if in.Signature != nil {
		j.Field("signature", in.Signature)
	}
	if in.Encryption != nil {
		j.Field("encryption", in.Encryption)
	}
	j.Field("metadata", in.Metadata)
	j.List("tensors")
	for t := range in.tensors() {
		j.Row(t.row())
	}
	if in.Graph != nil {
		j.Field("graph", newGraphJSON(in.Graph))
	}
	j.Close()
	return j.Err
}
