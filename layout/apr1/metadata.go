package apr1

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Metadata returns the fields of the header, under the names of the specification, and the
// vocabulary and filterbank:
//
//	version               uint16
//	model_type            string, such as "tiny.en"; of a type without a name its number, uint8
//	quantization          string: "f32", "f16" or "int8"
//	compressed            bool
//	n_vocab, …, n_mels    uint32
//	vocab                 []string, by token id
//	merges                [][]string, two of them each, first things first
//	vocab_bytes           layout.Blob
//	mel_filterbank        []float32, band by band
//	mel_filterbank_shape  []uint32: n_mels and n_freqs of the filterbank
//
// vocab and merges are there if the file has a vocabulary. Their strings have the bytes of
// the file. JSON can only hold UTF-8 and gets U+FFFD for the rest. If a string is not UTF-8,
// vocab_bytes has the vocabulary section of the file, from n_tokens on, so that nothing is lost.
//
// In the container JSON, Metadata returns the JSON of the file.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	if f.Container == JSON {
		b, err := f.readSection(in, f.metadata)
		if err != nil || len(b) == 0 {
			return layout.Metadata{}, err
		}
		return jsontext.Parse(b, layout.APR1, f.metadata.Offset, "metadata", f.lim)
	}
	md := f.Header.metadata()
	if f.vocabulary.Size > 0 {
		b, err := f.readSection(in, f.vocabulary)
		if err != nil {
			return nil, err
		}
		tokens, merges, allUTF8, err := parseVocabulary(string(b), f.vocabulary.Offset)
		if err != nil {
			return nil, err
		}
		md.Set("vocab", tokens)
		md.Set("merges", merges)
		if !allUTF8 {
			md.Set("vocab_bytes", layout.Blob(bytes.Clone(b)))
		}
	}
	if fb := f.filterbank; fb.offset != 0 {
		values, err := f.filterbankValues(in, fb.size())
		if err != nil {
			return nil, err
		}
		md.Set(filterbankName, values)
		md.Set(filterbankName+"_shape", []uint32{fb.mels, fb.freqs})
	}
	return md, nil
}

// metadata returns the fields of the header under the names of the specification.
func (h *Header) metadata() layout.Metadata {
	md := layout.Metadata{
		{Key: "version", Value: h.Version},
		{Key: "model_type", Value: h.ModelType.String()},
		{Key: "quantization", Value: h.Quantization.String()},
		{Key: "compressed", Value: h.Compressed},
	}
	if int(h.ModelType) >= len(modelTypes) { // it has no name
		md.Set("model_type", uint8(h.ModelType))
	}
	for i, n := range h.Dimensions {
		md = append(md, layout.Entry{Key: dimensionNames[i], Value: n})
	}
	return md
}

// readSection reads a whole section.
func (f *File) readSection(in layout.Input, s layout.Section) ([]byte, error) {
	return layout.LimitedRegion(in, layout.APR1, s.Offset, s.Name, s.Offset, s.Size, f.lim.HeaderBytes)
}

// parseVocabulary parses s, the section at offset at from n_tokens on. The strings are parts of s, and
// may hold any bytes: a token of byte-level BPE is often a part of a character. It checks again that
// the counts fit s: the file may have changed since Decode.
func parseVocabulary(s string, at uint64) (tokens []string, merges [][]string, allUTF8 bool, err error) {
	const lengthSize = 2
	ntokens, nmerges := uint64(le.Uint32([]byte(s[:4]))), uint64(le.Uint32([]byte(s[4:8])))
	if 2*ntokens+4*nmerges > uint64(len(s)-countsSize) {
		return nil, nil, false, errorf(at, "n_tokens", layout.ErrTruncated, "%d tokens and %d merges do not fit the %d bytes of the vocabulary", ntokens, nmerges, len(s))
	}
	count := ntokens + 2*nmerges
	all, rest := layout.CutStrings(s[countsSize:], int(count), lengthSize)
	at += uint64(len(s) - len(rest))
	switch n := uint64(len(all)); {
	case n < ntokens:
		return nil, nil, false, errorf(at, "tokens", layout.ErrTruncated, "token %d leaves the vocabulary, which has %d bytes left", n, len(rest))
	case n < count:
		return nil, nil, false, errorf(at, "merges", layout.ErrTruncated, "merge %d leaves the vocabulary, which has %d bytes left", (n-ntokens)/2, len(rest))
	case len(rest) > 0:
		return nil, nil, false, errorf(at, "vocabulary_size", layout.ErrInvalid, "%d bytes are left behind the last merge", len(rest))
	}
	merges = slices.AppendSeq(make([][]string, 0, nmerges), slices.Chunk(all[ntokens:], 2))
	allUTF8 = !slices.ContainsFunc(all, func(s string) bool { return !utf8.ValidString(s) })
	return all[:ntokens:ntokens], merges, allUTF8, nil
}

// filterbankValues reads the first size bytes of the filterbank's values.
func (f *File) filterbankValues(in layout.Input, size uint64) ([]float32, error) {
	b, err := f.readSection(in, layout.Section{Name: "filterbank", Offset: f.filterbank.offset, Size: size})
	values := make([]float32, len(b)/4)
	binary.Decode(b, le, values) // which are as many
	return values, err
}

// Summary returns the lines that the specification's example of inspecting a file prints. The filterbank
// does not count as a tensor, though the index has it. Its first band is summed in binary32, from the
// lowest frequency on, as whisper.apr does. A sum near 0.025 means Slaney normalization there, but no
// test exists for it.
//
// It reads the first band of a filterbank. In the container JSON it reads the metadata, under the names that
// [File.Metadata] uses.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	model, tensors, tokens, bank := f.Header.ModelType.String(), int(f.Header.Tensors), f.tokens, f.filterbank
	var row0 []float32 // the first band of the filterbank; nil without one
	var err error
	switch {
	case f.Container == JSON:
		var md layout.Metadata
		md, err = f.Metadata(in)
		tensors = len(f.index.Tensors)
		model, tokens, bank, row0 = summarizeJSON(md)
	case bank.offset != 0:
		row0, err = f.filterbankValues(in, min(4*uint64(bank.freqs), bank.size()))
	}
	if err != nil {
		return nil, err
	}
	vocabulary, filterbank, sum := "false", "false", ""
	if tokens >= 0 {
		vocabulary = fmt.Sprintf("true (%d tokens)", tokens)
	}
	if row0 != nil {
		var total float32
		for _, x := range row0 {
			total += x
		}
		filterbank, sum = fmt.Sprintf("true (%dx%d)", bank.mels, bank.freqs), fmt.Sprintf("%.6f", total)
	}
	var facts layout.Facts
	facts.Add("Model", model)
	facts.Add("Size", megabytes(f.index.Size))
	facts.Add("Tensors", strconv.Itoa(tensors))
	facts.Add("Has Vocabulary", vocabulary)
	facts.Add("Has Filterbank", filterbank)
	facts.Add("Filterbank row 0 sum", sum)
	return facts, nil
}

// megabytes returns n bytes in the form of the example, "150.2 MB", in millions.
func megabytes(n uint64) string {
	if n < 100_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// summarizeJSON returns what md, the metadata of the container JSON, says of the model, or "", -1 and nil. A filterbank counts if it has as
// many values as its shape says.
func summarizeJSON(md layout.Metadata) (model string, tokens int, bank filterbankPlace, row0 []float32) {
	model, _ = layout.Get[string](md, "model_type")
	tokens = -1
	vocab, _ := md.Get("vocab")
	switch v := vocab.(type) {
	case []any:
		tokens = len(v)
	case layout.Metadata:
		tokens = len(v)
	}
	values, _ := layout.Get[[]float32](md, filterbankName)
	dims, _ := layout.Get[[]uint32](md, filterbankName+"_shape")
	if len(dims) == 2 && len(values) > 0 && uint64(dims[0])*uint64(dims[1]) == uint64(len(values)) {
		bank, row0 = filterbankPlace{mels: dims[0], freqs: dims[1]}, values[:dims[1]]
	}
	return model, tokens, bank, row0
}
