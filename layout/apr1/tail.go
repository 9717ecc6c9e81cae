package apr1

import "github.com/tensormap/tensormap/layout"

// filterbankName is what the filterbank is called as a tensor, and in metadata.
const filterbankName = "mel_filterbank"

// filterbankSpan is where the filterbank is.
type filterbankSpan struct {
	mels, freqs uint32
	offset      uint64 // of the values; 0 where there is none
}

func (s filterbankSpan) size() uint64 { return 4 * uint64(s.mels) * uint64(s.freqs) }

// tail finds the sections behind the data. What lies between them and the checksum is not
// looked at here: Audit reports it.
func (d *decoder) tail() error {
	at := d.data.Offset + d.data.Size
	c := layout.NewCursor(d.in, layout.APR1, at, d.end()-at)
	if d.file.Header.Flags.Has(HasVocab) {
		if err := d.vocabulary(&c); err != nil {
			return err
		}
	}
	if d.file.Header.Flags.Has(HasFilterbank) {
		return d.filterbank(&c)
	}
	return nil
}

// section reads the size of a section, and makes sure that it fits.
func section(c *layout.Cursor, field string) (size uint64) {
	at := c.Offset()
	size = uint64(c.U32(field))
	switch {
	case c.Err() != nil:
	case size > c.Left():
		c.Fail(at, field, layout.ErrTruncated, "%d bytes, but only %d are left before the checksum", size, c.Left())
	case size < countsSize:
		c.Fail(at, field, layout.ErrInvalid, "%d bytes, fewer than the %d of the counts", size, countsSize)
	}
	return size
}

// vocabulary finds the vocabulary section. Its strings are left for later.
func (d *decoder) vocabulary(c *layout.Cursor) error {
	at := c.Offset()
	size := section(c, "vocabulary_size")
	begin := c.Offset()
	tokens, merges := uint64(c.U32("n_tokens")), uint64(c.U32("n_merges"))
	if c.Err() == nil && 2*tokens+4*merges > size-countsSize {
		c.Fail(begin, "n_tokens", layout.ErrTruncated, "%d tokens and %d merges do not fit the %d bytes of the vocabulary", tokens, merges, size)
	}
	c.Skip("vocabulary", size-countsSize)
	if err := c.Err(); err != nil {
		return err
	}
	d.file.vocabulary = layout.Section{Name: "vocabulary", Offset: begin, Size: size}
	return d.builder.Section("vocabulary", at, at, sizeSize+size)
}

// filterbank finds the filterbank section, and makes a tensor of it unless one of the
// file's own has the name.
func (d *decoder) filterbank(c *layout.Cursor) error {
	at := c.Offset()
	size := section(c, "filterbank_size")
	span := filterbankSpan{mels: c.U32("n_mels"), freqs: c.U32("n_freqs"), offset: c.Offset()}
	// The product of two u32s does not wrap, but four times it may.
	if values := uint64(span.mels) * uint64(span.freqs); c.Err() == nil && (size%4 != 0 || values != (size-countsSize)/4) {
		c.Fail(at, "filterbank_size", layout.ErrInvalid, "%d bytes, not those of %d × %d values and their counts", size, span.mels, span.freqs)
	}
	if err := c.Err(); err != nil {
		return err
	}
	d.file.filterbank = span
	head := sizeSize + uint64(countsSize)
	if d.builder.Index().Find(filterbankName) >= 0 {
		return d.builder.Section("filterbank", at, at, head+span.size())
	}
	if err := d.builder.Section("filterbank", at, at, head); err != nil {
		return err
	}
	d.builder.Data(span.offset, span.size())
	t := d.builder.Next()
	t.Name, t.DType, t.Shape = []byte(filterbankName), layout.F32, []uint64{uint64(span.mels), uint64(span.freqs)}
	t.Offset, t.Stored = span.offset, span.size()
	return d.builder.Add(at)
}
