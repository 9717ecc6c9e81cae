package apr1

import (
	"bytes"
	"fmt"
	"math"
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
	if err := f.addVocabulary(&md, in); err != nil {
		return nil, err
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
	if !h.ModelType.known() {
		md.Set("model_type", uint8(h.ModelType))
	}
	for i, n := range h.Dimensions {
		md = append(md, layout.Entry{Key: dimensionNames[i], Value: n})
	}
	return md
}

// addVocabulary adds tokens and merges to md, if the file has a vocabulary.
func (f *File) addVocabulary(md *layout.Metadata, in layout.Input) error {
	if f.vocabulary.Size == 0 {
		return nil
	}
	b, err := f.readSection(in, f.vocabulary)
	if err != nil {
		return err
	}
	tokens, merges, allUTF8, err := parseVocabulary(string(b), f.vocabulary.Offset)
	if err != nil {
		return err
	}
	md.Set("vocab", tokens)
	md.Set("merges", merges)
	if !allUTF8 {
		md.Set("vocab_bytes", layout.Blob(bytes.Clone(b)))
	}
	return nil
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
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(le.Uint32(b[4*i:]))
	}
	return values, nil
}

// Summary returns the lines that the specification's example of inspecting a file prints. The filterbank
// does not count as a tensor, though the index has it. Its first band is summed in binary32, from the
// lowest frequency on, as whisper.apr does. A sum near 0.025 means Slaney normalization there, but no
// test exists for it.
//
// It reads the number of tokens of a vocabulary and the first band of a filterbank. In the
// container JSON it reads the metadata, under the names that [File.Metadata] uses.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	s := summary{vocabulary: "false", filterbank: "false"}
	summarize := f.summarize
	if f.Container == JSON {
		summarize = f.summarizeJSON
	}
	if err := summarize(&s, in); err != nil {
		return nil, err
	}
	var facts layout.Facts
	facts.Add("Model", s.model)
	facts.Add("Size", megabytes(f.index.Size))
	facts.Add("Tensors", strconv.Itoa(s.tensors))
	facts.Add("Has Vocabulary", s.vocabulary)
	facts.Add("Has Filterbank", s.filterbank)
	facts.Add("Filterbank row 0 sum", s.row0)
	return facts, nil
}

// summary holds the facts beyond the size. They are "" if they are not known, or there is nothing to say.
type summary struct {
	model                        string
	tensors                      int
	vocabulary, filterbank, row0 string
}

// megabytes returns n bytes in the form of the example, "150.2 MB", in millions.
func megabytes(n uint64) string {
	if n < 100_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// setTokens says that there is a vocabulary of n tokens.
func (s *summary) setTokens(n int) { s.vocabulary = fmt.Sprintf("true (%d tokens)", n) }

// setFilterbank says that there is a filterbank, whose first band is row0.
func (s *summary) setFilterbank(mels, freqs uint32, row0 []float32) {
	var sum float32
	for _, x := range row0 {
		sum += x
	}
	s.filterbank, s.row0 = fmt.Sprintf("true (%dx%d)", mels, freqs), fmt.Sprintf("%.6f", sum)
}

// summarize reads the facts about the containers Binary and Binary2.
func (f *File) summarize(s *summary, in layout.Input) error {
	s.model, s.tensors = f.Header.ModelType.String(), int(f.Header.Tensors)
	if v := f.vocabulary; v.Size > 0 {
		b, err := layout.Region(in, layout.APR1, v.Offset, "n_tokens", v.Offset, 4)
		if err != nil {
			return err
		}
		s.setTokens(int(le.Uint32(b)))
	}
	if fb := f.filterbank; fb.offset != 0 {
		row0, err := f.filterbankValues(in, min(4*uint64(fb.freqs), fb.size()))
		if err != nil {
			return err
		}
		s.setFilterbank(fb.mels, fb.freqs, row0)
	}
	return nil
}

// summarizeJSON reads the facts about the container JSON from its metadata. A filterbank counts if it has as many values as its shape says.
func (f *File) summarizeJSON(s *summary, in layout.Input) error {
	md, err := f.Metadata(in)
	if err != nil {
		return err
	}
	s.tensors = len(f.index.Tensors)
	s.model, _ = layout.Get[string](md, "model_type")
	vocab, _ := md.Get("vocab")
	switch v := vocab.(type) {
	case []any:
		s.setTokens(len(v))
	case layout.Metadata:
		s.setTokens(len(v))
	}
	values, _ := layout.Get[[]float32](md, filterbankName)
	dims, _ := layout.Get[[]uint32](md, filterbankName+"_shape")
	if len(dims) == 2 && len(values) > 0 && uint64(dims[0])*uint64(dims[1]) == uint64(len(values)) {
		s.setFilterbank(dims[0], dims[1], values[:dims[1]])
	}
	return nil
}
