// Package inspection shows the header, metadata, graph and tensors of a model.
package inspection

import (
	"bufio"
	"cmp"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/glob"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
)

// Options select what is shown of a model, and how.
type Options struct {
	Json, Metadata, Graph, Tree bool
	GroupMany                   bool // show more tensors than a person reads as a tree
	Filter                      glob.Pattern
	Depth                       int    // of the tree; 0 is all of it
	Trusted                     string // whose signature was verified, or ""
	Unlocked                    bool   // the model was opened with its key
	Order                       string // of tensors, one of OrderNames; "" is the order of the file
	Fit                         *Fit   // estimates the memory that the model takes, in place of the tensors; nil does not
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
	fit        *fit // nil unless it is asked for
	summary    []layout.Fact

	count    int                     // of tensors that the filter matches
	selected iter.Seq[loader.Tensor] // these tensors, in the order in which they are shown
}

// Signature says by whom a model is signed. A signer that is not verified is what the file claims.
type Signature struct {
	By       string `json:"by"`
	Verified bool   `json:"verified"`
}

// Encryption says how a model is encrypted. Without the key it is what the file claims.
type Encryption struct {
	Algorithm string `json:"algorithm"`
	KDF       string `json:"kdf"`
	KeyID     string `json:"key_id,omitempty"`
	Verified  bool   `json:"verified"`
}

// FileInfo is a file of the model in JSON. The names in JSON are a contract.
type FileInfo struct {
	Path string `json:"path"`
	Size uint64 `json:"size"`
}

// objectOf returns what JSON says of a tensor. A quantized weight has no dtype, and its bytes are the bytes of its parts. The names are a
// contract.
func objectOf(t loader.Tensor) layout.Metadata {
	if w := t.Scheme(); w != nil {
		var parts []layout.Metadata
		for _, p := range t.Parts() {
			t := p.Tensor
			parts = append(parts, report.Object("role", p.Role.String(), "name", t.Name(), "dtype", t.DType().String(), "shape", report.OrEmpty(t.Shape()),
				"file", t.File(), "offset", t.Offset(), "stored_bytes", t.StoredBytes()))
		}
		return report.Object("name", t.Name(), "shape", report.OrEmpty(t.Shape()), "elements", t.Elements(), "scheme", w.Scheme, "parts", parts)
	}
	o := report.Object("name", t.Name(), "dtype", t.DType().String(), "shape", report.OrEmpty(t.Shape()), "elements", t.Elements(),
		"file", t.File(), "offset", t.Offset(), "stored_bytes", t.StoredBytes(), "raw_bytes", t.RawBytes(), "encoding", t.Encoding().String(), "zero_copy", t.ZeroCopy())
	if q, scaled, _ := t.Scale(); scaled {
		o = append(o, report.Object("scale", new(q.Scale), "zero_point", q.Zero)...)
	}
	if why := ProblemText(t); why != "" { // why codes have no values
		o.Set("problem", why)
	}
	return o
}

// ProblemText returns why the codes of a quantized tensor t cannot be decoded, without the names of file and tensor. It returns "" if they
// can, or t has none.
func ProblemText(t loader.Tensor) string {
	err := t.Problem()
	if err == nil {
		return ""
	}
	_, why, _ := strings.Cut(err.Error(), strconv.Quote(t.Name())+": ")
	return why
}

// Write shows a model to a person, or as JSON if the options say so.
func Write(w *bufio.Writer, s report.Screen, m *loader.Model, l *loader.Lease, opts *Options) error {
	in, unreadable := newInspection(m, l, opts)
	var err error
	if opts.Graph {
		in.graph, err = l.Graph()
	}
	if err == nil && opts.Fit != nil {
		in.fit, err = newFit(l, opts.Fit)
	}
	switch {
	case err != nil:
	case !opts.Json:
		in.writeTables(w, s, opts)
	case unreadable != nil:
		err = unreadable // known before output begins: no object is left unfinished
	default:
		err = in.writeJSON(w)
	}
	return cmp.Or(err, unreadable, w.Flush())
}

// newInspection returns what is shown of m, but for the graph. unreadable says why metadata, summary or a scale cannot be
// read; the rest can be shown nevertheless.
func newInspection(m *loader.Model, l *loader.Lease, opts *Options) (in *inspection, unreadable error) {
	files := m.Files()
	in = &inspection{Model: m, files: files, index: files[0].Layout.Index()}
	if by := cmp.Or(opts.Trusted, report.ClaimedSigner(l)); by != "" {
		in.signature = &Signature{by, opts.Trusted != ""}
	}
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
	j.Optional("sharded", len(files) > 1)
	j.Field("flags", report.OrEmpty(in.index.Flags))
	j.Optional("signature", in.signature)
	j.Optional("encryption", in.encryption)
	j.Field("metadata", in.metadata)
	j.List("tensors")
	for t := range in.selected {
		j.Row(objectOf(t))
	}
	j.Optional("graph", report.NewGraph(in.graph))
	j.Optional("fit", in.fit)
	j.Close()
	return j.Err
}
