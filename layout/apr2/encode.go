package apr2

import (
	"bytes"
	"cmp"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
)

// Options tune a Writer. Nil and the zero value mean the defaults.
type Options struct {
	// Align is the alignment of tensors in bytes: 64, which 0 means too, or 32.
	Align int
	// Metadata is written as JSON in its order. The draft requires the keys
	// apr_version, model_type and architecture (an object).
	Metadata layout.Metadata
	// Flags may add Sharded and Streaming; the other flags follow from the tensors.
	Flags Flags
	// Signer, if set, signs the file. It must then be an io.ReaderAt and an io.WriterAt too: the
	// signature shows only once all is written.
	Signer *Signer
	// Encrypter, if set, encrypts the tensors. The file must then be as for a Signer.
	Encrypter *Encrypter
}

// Writer writes an APR2 file from front to back. It holds the head and, if tensors
// come from readers, one buffer, but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct {
	file *tensorwriter.File
	dst  *crcmath.Writer // whose size and checksum are of the data alone once the head is written
	opts Options         // whose metadata has what the encryption and the signature add to it
	list []layout.Tensor // as NewWriter was given them, then as they were written

	header   Header
	metadata []byte // as JSON
	head     []byte // as NewWriter has written it
	// unsized is set if the head has sizes that only show as tensors are written. The head is made anew then.
	unsized Rewriter
	encrypt *encrypt // or nil
	crc32   uint32   // in the footer, once it is written
}

// Rewriter is a file that can be read and written again, as *os.File.
type Rewriter interface {
	io.WriteSeeker
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
}

// NewWriter writes header, metadata and index of a file with these tensors, such as slices.Values of a list. It
// reads their Name, Shape and DType, and Encoding, which is Raw or LZ4, more than once. Their bytes follow in
// the same order, by one call of WriteTensor, WriteTensorFunc or WriteBlocksFunc each. An empty shape is
// written as [1].
//
// The bytes of an LZ4 tensor are its blocks, and Stored is their size. A Stored of 0 leaves open how
// many bytes the tensor takes, and whether it is compressed at all: WriteBlocksFunc writes it compressed,
// the other methods write it raw. The head of the file is then written last, so w must be a
// [Rewriter].
//
// NewWriter refuses what Decode would refuse, with the same errors: names that are not unique
// UTF-8, more than 8 dimensions, dtypes that the format has no id for, and the like. It also refuses
// metadata that could not be read again: keys that are not unique, deep nesting, more than
// the default of [layout.Limits], or quantization that [File.Scales] refuses.
func NewWriter(w io.Writer, tensors iter.Seq[layout.Tensor], opts *Options) (*Writer, error) {
	out := &Writer{dst: &crcmath.Writer{W: w}}
	if opts != nil {
		out.opts = *opts
	}
	rewriter, canRewrite := w.(Rewriter)
	for t := range tensors {
		t.Name = bytes.Clone(t.Name) // the sequence may use the same memory for all
		if len(t.Shape) == 0 {
			t.Shape = []int{1}
		}
		if canRewrite && isUnsized(&t) {
			out.unsized, t.Encoding = rewriter, layout.Raw // until it is written
		}
		out.list = append(out.list, t)
	}
	out.opts.Metadata = slices.Clone(out.opts.Metadata)
	if s := out.opts.Encrypter; s != nil {
		e, c, err := s.newCipher(s.blockSize())
		if err != nil {
			return nil, err
		}
		out.opts.Metadata.Set(encryptionKey, e.Metadata())
		out.encrypt = &encrypt{cipher: c, block: e.BlockSize}
	}
	if out.opts.Signer != nil {
		if err := out.addPlaceholder(); err != nil {
			return nil, err
		}
	}
	if err := out.planHead(); err != nil {
		return nil, err
	}
	f, err := out.encodeHead()
	if err != nil {
		return nil, err
	}
	plan := tensorwriter.Plan{
		Format: layout.APR2, Size: f.index.Size, Align: out.header.Flags.Align(), Tensors: f.index.Tensors,
		SizeField: "size", CountField: "tensor_count",
	}
	if out.encrypt != nil {
		plan.Filter = out.encrypt.filter
	}
	out.file = tensorwriter.New(out.dst, plan)
	if _, err := out.file.Write(out.head); err != nil {
		return nil, err
	}
	if out.unsized != nil {
		if _, err := out.unsized.WriteAt(out.head[:1], 0); err != nil { // a pipe, as *os.File may be
			return nil, err
		}
	}
	out.dst.Size, out.dst.CRC32 = 0, 0 // of the data alone: the head may be written again
	return out, nil
}

// WriteTensor writes the next tensor that NewWriter was given. b has its bytes, or the LZ4 blocks of one whose size was given as the size of
// its blocks. It may be used again after the call. WriteTensor fails with [layout.ErrInvalid] if b has another size, or no tensor is left.
// It also fails if writing does.
func (w *Writer) WriteTensor(b []byte) error { return w.file.WriteTensor(b) }

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst, in writes of any size. dst may be used until write
// returns. WriteTensorFunc fails as WriteTensor does, or with the error of write.
func (w *Writer) WriteTensorFunc(write func(dst io.Writer) error) error {
	return w.file.WriteTensorFunc(write)
}

// Size returns how many bytes the whole file will have. Before Close, a tensor of unknown size counts as not compressed.
func (w *Writer) Size() uint64 { return w.file.Plan.Size }

// Written returns how many bytes of the file have been written so far, bytes of an encryption included.
func (w *Writer) Written() uint64 { return w.file.Written }

// CRC32 returns, once the file is closed, the number in its footer, which a
// manifest of shards repeats: the CRC32 (IEEE) of all bytes but the footer's.
func (w *Writer) CRC32() uint32 { return w.crc32 }

// ErrRollback is returned by a function given to WriteBlocksFunc to undo all that it has written, for
// instance if compressing does not pay.
var ErrRollback = errors.New("rolled back")

// WriteBlocksFunc writes the next tensor compressed. The function write hands its blocks to dst in the form
// of the package's documentation, which is not checked here. The file must have a tensor of unknown
// size; see NewWriter.
//
// If write returns ErrRollback, so does WriteBlocksFunc: the file is as it was, and the next
// call writes the same tensor. For an encrypted file write is called twice, and must write the same: what is
// encrypted cannot be rolled back, since no block is encrypted with two contents.
func (w *Writer) WriteBlocksFunc(write func(dst io.Writer) error) error {
	if w.unsized == nil {
		return w.file.Failf(w.Written(), "size", layout.ErrInvalid, "the file was begun with all sizes known")
	}
	if w.encrypt != nil {
		// Bytes that are rolled back would have been encrypted as blocks that are encrypted again, with other
		// content.
		if err := write(io.Discard); err != nil {
			if errors.Is(err, ErrRollback) {
				return ErrRollback
			}
			return w.file.Fail(err)
		}
	}
	mark, sum := w.file.Mark, *w.dst
	t, stored, err := w.file.WriteUnsized(write)
	content := stored
	if w.encrypt != nil && err == nil {
		content, _ = encrypted.ContentBytes(stored, w.encrypt.block)
	}
	switch {
	case errors.Is(err, ErrRollback) && w.encrypt != nil:
		return w.file.Failf(mark.Written, "size", layout.ErrInvalid, "the blocks of an encrypted tensor were rolled back after they were encrypted")
	case errors.Is(err, ErrRollback) && w.file.Err() == nil:
		end := int64(mark.Written)
		_, err := w.unsized.Seek(end, io.SeekStart)
		if err = cmp.Or(err, w.unsized.Truncate(end)); err != nil {
			return w.file.Fail(err)
		}
		w.file.Mark, *w.dst = mark, sum
		return ErrRollback
	case err != nil:
		return w.file.Fail(err)
	case !layout.LZ4Holds(content, t.Raw) || t.Raw == 0 && content > 0:
		return w.file.Failf(t.Offset, "size", layout.ErrInvalid, "tensor %s: %d bytes of LZ4 blocks do not yield %d",
			layout.Quote(t.Name), content, t.Raw)
	}
	if stored > 0 { // a tensor without elements has no blocks, and counts as raw
		x := &w.list[w.file.Begun-1]
		x.Stored, x.Encoding = content, layout.LZ4
	}
	return nil
}

// Close writes the footer and, if it is not final, the head again. It does not close the writer that NewWriter was given. It fails with
// [layout.ErrTruncated] if tensors are missing. It also fails if writing, reading what was written, or signing does. Later calls fail with
// [layout.ErrClosed].
func (w *Writer) Close() error {
	if err := w.file.Complete(); err != nil {
		return err
	}
	if w.unsized != nil || w.opts.Signer != nil || w.encrypt != nil {
		if err := w.finalizeHead(); err != nil {
			return w.file.Fail(err)
		}
	}
	w.crc32 = crcmath.Combine(crc32.ChecksumIEEE(w.head), w.dst.CRC32, crcmath.XPow8(w.dst.Size))
	footer := le.AppendUint32(make([]byte, 0, footerSize), w.crc32)
	footer = append(footer, magicEnd...)
	footer = le.AppendUint64(footer, w.file.Plan.Size)
	if _, err := w.file.Write(footer); err != nil {
		return err
	}
	w.file.Fail(layout.ErrClosed)
	return nil
}

// finalizeHead writes the head again: with the sizes of all tensors, the check of the encryption, and the signature. It fails if the file
// cannot be read and written again, or the signer fails.
func (w *Writer) finalizeHead() error {
	file, ok := w.dst.W.(interface {
		io.ReaderAt
		io.WriterAt
	})
	if !ok {
		return errorf(0, "metadata", layout.ErrUnsupported, "a signed or encrypted file must be one that can be read and written again")
	}
	if w.unsized != nil {
		f, err := w.encodeHead()
		if err != nil {
			return err
		}
		w.file.Plan.Size = f.index.Size
	}
	var finish encrypted.Finisher
	if w.encrypt != nil {
		finish.Cipher = w.encrypt.cipher
	}
	if w.opts.Signer != nil {
		finish.Sign = w.opts.Signer.Sign
	}
	if w.opts.Signer != nil || w.encrypt != nil {
		err := finish.Complete(w.head, headerSize, int(w.header.MetadataSize), func(chunk uint64) ([]byte, error) {
			return digestData(io.NewSectionReader(file, int64(len(w.head)), int64(w.dst.Size)), w.dst.Size, chunk)
		})
		if err != nil {
			return err
		}
	}
	_, err := file.WriteAt(w.head, 0)
	return err
}
