package loader

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/flight"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// file is one file of a model.
type file struct {
	model       *Model
	path        string
	data        *datafile.File    // the bytes for the life of the model. They cost nothing until they are touched
	opened      mmapio.Identity   // of the file when it was opened, if the system has one
	entry       *dirEntry         // by which the file is looked up and opened again; nil if its name is not known or led elsewhere
	closeSource func() error      // closes what data reads from; or nil
	openingFile *os.File          // that data reads until endOpening; or nil
	cipher      *encrypted.Cipher // of an encrypted file, if Options.Key has the key; else nil
	decrypted   *decrypted.File   // nil without a cipher
	layout      layout.File
	index       *layout.Index
	metadata    parsedOnce // what this file says
	// verifiedHead is the start of the file as it was verified, if it was; else nil. Nothing of it is read again: the
	// file, or who sends it, may say something else by then.
	verifiedHead []byte
	// memoryAlign is the alignment of the file's first byte in memory, as far as any dtype
	// cares: less than 8 only if OpenBytes was given odd memory.
	memoryAlign int
	contentID   string // see FileInfo
}

// newFile returns the file of data. Its index is not decoded yet.
func newFile(data *datafile.File) *file { return &file{path: data.Name(), data: data} }

// mappedFile returns the file at path, whose bytes are those of mapping. The file owns mapping: its close closes it. The index is not
// decoded yet. decode reads it from mapping, since f.openingFile is nil.
func mappedFile(path string, mapping *mmapio.Mapping) *file {
	f := newFile(datafile.New(path, mapping))
	f.opened = mapping.Identity()
	f.entry = entryOf(path, f.opened)
	return f
}

// input returns the file's bytes for a decoder, whose reads fail once ctx ends.
func (f *file) input(ctx context.Context) layout.Input {
	return &inputWithBytes{f.data.Input(ctx), 0, f.verifiedHead}
}

// decode decodes the index of f, and ends what only opening needs. It fails if the index cannot be read or decoded.
func (f *file) decode(ctx context.Context, lim *layout.Limits) (err error) {
	if f.layout, err = formats.Decode(f.input(ctx), lim); err != nil {
		return err
	}
	if f.contentID == "" && !f.data.Remote() { // the inode of a cache does not tell what the remote file has
		f.contentID = f.opened.Key()
	}
	f.memoryAlign = alignmentOf(f.data.Mapping())
	f.index = f.layout.Index()
	if f.cipher != nil { // of an APR2 file, the only format with encryption
		f.decrypted = decrypted.New(f.cipher, f.layout.(*apr2.File).Encryption.BlockSize, f.index)
	}
	return nil
}

// verifyBy makes f hand out only bytes that match the digests of o.Trust. Without a Trust it does nothing. The Trust verifies the first
// bytes of f at once, and verifyBy keeps them as f.verifiedHead. verifyBy fails if the Trust refuses the file, or if the digests do not fit
// the file.
func (f *file) verifyBy(ctx context.Context, o *Options) error {
	if o.Trust == nil {
		return nil
	}
	return guardFile(f.path, func() error {
		err := f.data.Trust(ctx, o.Private, func(in layout.Input) (*layout.Digests, error) { return o.Trust.Digests(plainName(f.path), in) })
		if err == nil {
			f.verifiedHead = f.data.Digests().Head
		}
		return err
	})
}

// endOpening closes f.openingFile, which the index was read from, if there is one. f.data then reads from its mapping or its source.
func (f *file) endOpening() {
	if f.openingFile != nil {
		f.data.EndOpening()
		f.openingFile.Close()
		f.openingFile = nil
	}
}

// close closes the data, and then what it reads from. It fails if one of both does.
func (f *file) close() error {
	f.endOpening()
	err := f.data.Close()
	if f.closeSource != nil {
		err = errors.Join(err, f.closeSource())
	}
	return err
}

// alignmentOf returns the alignment of the first byte of m in memory: 8 at most, since no dtype needs more. If m is yet to be made,
// it returns 8: a mapping begins with a page. If m is nil, it returns 8 too: the bytes will be copied, and copies are aligned.
func alignmentOf(m *mmapio.Mapping) int {
	align := 8
	for m != nil && !m.Pending() && !mmapio.IsAligned(m.Bytes(), align) {
		align /= 2
	}
	return align
}

// InPlace reports whether the bytes of the file's tensors are in memory, mapped or the caller's, and not encrypted. It may turn from
// true to false once, when the first read finds that the system does not map the file.
func (f *file) InPlace() bool { return f.decrypted == nil && f.data.InPlace() }

// view returns n bytes of the file at off. If they are in memory, it returns them in place. Otherwise it reads them into the result
// of buf, which has n bytes or more. It fails if reading does.
func (f *file) view(ctx context.Context, buf func() []byte, off, n uint64) ([]byte, error) {
	if b, err := f.data.View(ctx, off, n); b != nil || err != nil {
		return b, err
	}
	b := buf()[:n]
	return b, f.data.ReadAt(ctx, b, off)
}

// checkNotShortened returns an error if a mapped file has become shorter since it was opened, as far as the system tells. Bytes behind the
// new end read as zeros up to the end of their page, without a fault.
func (f *file) checkNotShortened() error {
	if !f.data.Mapped() { // reading such a file has failed already
		return nil
	}
	now, ok, _ := f.entry.identityNow() // if that fails, nothing is known of the file
	if ok && now.SameFile(f.opened) && now.Size() < f.opened.Size() {
		return f.opened.Check(now)
	}
	return nil
}

// changed returns an error if another file has the name now, or if the file was written since it was opened. A file counts as
// unchanged if its name is gone, not known, or may not be looked up. changed also fails if looking up fails for any other reason.
func (f *file) changed() error {
	now, ok, err := f.entry.identityNow()
	if !ok { // nil if there is nothing to compare
		return err
	}
	return f.opened.Check(now)
}

// Wrap returns err with the file's name. It returns err unchanged if that is nil, or the error of an ended context.
func (f *file) Wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return inFile(f.path, err)
}

// Align returns the alignment that the file promises its tensors. Callers read two tensors together if less than that, and less than 4096
// bytes, lies between them. For an encrypted file Align returns 4096, so that callers read over the authentication tags between tensors.
func (f *file) Align() uint64 {
	if f.decrypted != nil {
		return 4096
	}
	return f.index.Align
}

// Resident returns how many of the n bytes at off of a mapped file are in physical memory. It fails if the platform cannot tell.
func (f *file) Resident(off, n uint64) (uint64, error) { return f.data.Resident(off, n) }

// requestBuffers are memory for what one request fetches of several tensors.
var requestBuffers = sync.Pool{New: func() any { return new([]byte) }}

// fetch reads neighbouring tensors of the file by one request. It begins with byte off of the tensor first, and ends before byte end of the
// tensor last. If the file is not encrypted, off must be 0, and end must be the size of last. The function stored then returns the stored
// bytes of any tensor that was read: decrypted, but still compressed. They are read from *buf. fetch fails if reading does.
func (f *file) fetch(ctx context.Context, buf *[]byte, first *layout.Tensor, off uint64, last *layout.Tensor, end uint64) (stored func(desc *layout.Tensor) content.Content, err error) {
	if f.decrypted != nil {
		of := func(desc *layout.Tensor) *decrypted.Content {
			return f.decrypted.Content(desc, f.data, f.data.Remote())
		}
		fetched, err := decrypted.Fetch(ctx, buf, of(first), off, of(last), end)
		return func(desc *layout.Tensor) content.Content { return f.decrypted.Content(desc, fetched, false) }, err
	}
	from := first.Offset + off
	n := last.Offset + end - from
	b := slices.Grow((*buf)[:0], int(n))[:n]
	*buf = b
	return func(desc *layout.Tensor) content.Content {
		return content.Memory(b[desc.Offset-from:][:desc.Stored:desc.Stored])
	}, f.data.ReadAt(ctx, b, from)
}

// inputWithBytes is a file with the bytes from off on in memory.
type inputWithBytes struct {
	layout.Input
	bytesOff uint64
	bytes    []byte
}

// Slice returns n bytes at off. It takes them from f.bytes, which are verified or unpacked, if f.bytes covers the whole range. Otherwise
// it reads all of them from the file. It fails if reading does.
func (f *inputWithBytes) Slice(off, n uint64) ([]byte, error) {
	if off >= f.bytesOff && layout.Within(off-f.bytesOff, n, uint64(len(f.bytes))) {
		return f.bytes[off-f.bytesOff:][:n:n], nil
	}
	return f.Input.Slice(off, n)
}

// metadata is what the keys of a file, or of a model, say.
type metadata struct {
	keys   layout.Metadata
	scales map[string]layout.Quant // of tensors, in formats that have them there
	err    error                   // of parsing it
}

// parsedOnce is metadata that the first use parses.
type parsedOnce struct {
	result  atomic.Pointer[metadata] // nil until it is parsed
	flights flight.Group[struct{}, *metadata]
}

// parse returns the metadata of the keys that read returns, which the first call parses while others wait. It fails if read does, or for
// malformed scales. Errors name path. If bytes could not be read, or ctx has ended, the next call parses again.
func (p *parsedOnce) parse(ctx context.Context, path string, l layout.File, read func(ctx context.Context) (layout.Metadata, error)) (*metadata, error) {
	if md := p.result.Load(); md != nil {
		return md, md.err
	}
	md, err := p.flights.Do(ctx, struct{}{}, func(ctx context.Context) (*metadata, error) {
		if md := p.result.Load(); md != nil { // another call has just parsed it
			return md, md.err
		}
		md := new(metadata)
		md.err = guardFile(path, func() (err error) {
			md.keys, err = read(ctx)
			if s, ok := l.(layout.Scaler); ok && err == nil {
				md.scales, err = s.Scales(md.keys)
			}
			return err
		})
		if md.err == nil || ctx.Err() == nil && !isUnreadable(md.err) {
			p.result.Store(md)
		}
		return md, md.err
	})
	if md == nil { // ctx has ended before this call could parse: its cause names no file
		err = inFile(path, err)
	}
	return md, err
}
