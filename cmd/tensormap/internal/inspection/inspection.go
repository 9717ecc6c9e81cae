// Package inspection shows the header, metadata, graph and tensors of a model.
package inspection

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/glob"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
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

// inspection has all that inspect shows of a model.
type inspection struct {
	*loader.Model
	files      []loader.FileInfo
	index      *layout.Index // of the first file
	metadata   layout.Metadata
	signature  *Signature  // nil if nothing says that the model is signed
	encryption *Encryption // nil if the model is not encrypted
	graph      *layout.Graph
	summary    []layout.Fact

	count    int                     // of tensors that the filter matches
	selected iter.Seq[loader.Tensor] // these tensors, in the order in which they are shown
}

// Signature says by whom a model is signed. A signer that is not verified is what the file claims.
type Signature struct {
	By       string `json:"by"`
	Verified bool   `json:"verified"`
}

// signature returns who has signed the model, or nil if nothing says that it is signed. trusted is the verified
// signer, or "".
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

// FileInfo is a file of the model in JSON.
type FileInfo struct {
	Path string `json:"path"`
	Size uint64 `json:"size"`
}

// tensorInfo is a tensor in JSON. The names in JSON are a contract, here and below.
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
	Problem     string          `json:"problem,omitempty"` // why codes have no values
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

// row returns what JSON says of a tensor.
func row(t loader.Tensor) any {
	shape := t.Shape()
	if shape == nil {
		shape = []int{} // [], not null, for a scalar
	}
	w := t.Scheme()
	if w == nil {
		info := tensorInfo{
			Name: t.Name(), DType: t.DType(), Shape: shape, Elements: t.Elements(), File: t.File(), Offset: t.Offset(),
			StoredBytes: t.StoredBytes(), RawBytes: t.RawBytes(), Encoding: t.Encoding(), ZeroCopy: t.ZeroCopy(),
		}
		if q, scaled, _ := t.Scale(); scaled {
			info.Scale, info.ZeroPoint = new(q.Scale), new(q.Zero) // q stays on the stack if there are none
		}
		info.Problem = problem(t)
		return info
	}
	row := weightInfo{t.Name(), shape, t.Elements(), w.Scheme, nil}
	for _, p := range t.Parts() {
		t := p.Tensor
		row.Parts = append(row.Parts, partInfo{p.Role, t.Name(), t.DType(), report.OrEmpty(t.Shape()), t.File(), t.Offset(), t.StoredBytes()})
	}
	return row
}

// problem returns why t has no values, without the names of file and tensor, or "".
func problem(t loader.Tensor) string {
	err := t.Problem()
	if err == nil {
		return ""
	}
	_, why, _ := strings.Cut(err.Error(), strconv.Quote(t.Name())+": ")
	return why
}

// Write shows a model to a person, or as JSON if the options say so.
func Write(w *bufio.Writer, s terminal.Screen, m *loader.Model, l *loader.Lease, opts *Options) error {
	in, unreadable := newInspection(m, l, opts)
	if opts.Graph {
		var err error
		if in.graph, err = l.Graph(); err != nil {
			return err
		}
	}
	switch {
	case !opts.Json:
		in.writeTables(w, s, opts)
	case unreadable != nil:
		return unreadable // known before output begins: no object is left unfinished
	default:
		if err := in.writeJSON(w); err != nil {
			return err
		}
	}
	return cmp.Or(unreadable, w.Flush())
}

// newInspection returns what is shown of m, and why metadata, summary or scales cannot be read, or nil.
func newInspection(m *loader.Model, l *loader.Lease, opts *Options) (in *inspection, unreadable error) {
	files := m.Files()
	in = &inspection{Model: m, files: files, index: files[0].Layout.Index()}
	in.signature = signature(l, in.index.Flags, opts.Trusted)
	if f, ok := files[0].Layout.(*apr2.File); ok && f.Encryption != nil {
		in.encryption = &Encryption{encrypted.Algorithm, f.Encryption.KDF, f.Encryption.KeyID, opts.Unlocked}
	}
	if opts.Json || opts.Metadata {
		in.metadata, unreadable = l.Metadata()
	}
	if !opts.Json {
		var err error
		in.summary, err = l.Summary()
		unreadable = cmp.Or(unreadable, err)
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
		unreadable = cmp.Or(unreadable, err)
	}
	return in, unreadable
}

// writeJSON writes the object with a line for each field and for each tensor: easy to
// read by eye, by grep and by diff, and never whole in memory.
func (in *inspection) writeJSON(w io.Writer) error {
	j := report.JSON{W: w}
	j.Field("format", in.Format())
	j.Field("version", in.index.Version)
	var files []FileInfo
	for _, f := range in.files {
		files = append(files, FileInfo{f.Path, f.Size})
	}
	j.Field("files", files)
	if len(files) > 1 {
		j.Field("sharded", true)
	}
	j.Field("flags", report.OrEmpty(in.index.Flags))
	if in.signature != nil {
		j.Field("signature", in.signature)
	}
	if in.encryption != nil {
		j.Field("encryption", in.encryption)
	}
	j.Field("metadata", in.metadata)
	j.List("tensors")
	for t := range in.selected {
		j.Row(row(t))
	}
	if in.graph != nil {
		j.Field("graph", newGraphJSON(in.graph))
	}
	j.Close()
	return j.Err
}
