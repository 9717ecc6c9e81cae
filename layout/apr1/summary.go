package apr1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// Summary is what the specification's example of inspecting a file prints. The filterbank,
// though the index has it, is not one of the tensors that are counted. The sum of the
// filterbank's first band is one of binary32 numbers, from the lowest frequency on, as in
// the program that the example is of. That program says of a sum near 0.025 that the
// filterbank is Slaney-normalized, but has no test for it; so neither has this.
//
// It reads no more of a vocabulary than the number of tokens, and of a filterbank the first
// band. Of the container JSON it reads the metadata, which has the same things under the
// names that [File.Metadata] uses.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	var s summary
	var err error
	if f.Container == JSON {
		s, err = f.summarizeJSON(in)
	} else {
		s, err = f.summarize(in)
	}
	if err != nil {
		return nil, err
	}
	return s.facts(f.index.Size), nil
}

// summary is what is shown beyond the size.
type summary struct {
	model         string // empty: not known
	tensors       int
	hasVocabulary bool
	tokens        uint64
	hasFilterbank bool
	mels, freqs   uint64
	row0          []float32
}

func (s *summary) facts(size uint64) []layout.Fact {
	var facts []layout.Fact
	add := func(label, value string) { facts = append(facts, layout.Fact{Label: label, Value: value}) }
	if s.model != "" {
		add("Model", s.model)
	}
	add("Size", megabytes(size))
	add("Tensors", strconv.Itoa(s.tensors))
	add("Has Vocabulary", "false")
	if s.hasVocabulary {
		facts[len(facts)-1].Value = fmt.Sprintf("true (%d tokens)", s.tokens)
	}
	add("Has Filterbank", "false")
	if s.hasFilterbank {
		facts[len(facts)-1].Value = fmt.Sprintf("true (%dx%d)", s.mels, s.freqs)
		add("Filterbank row 0 sum", fmt.Sprintf("%.6f", sum(s.row0)))
	}
	return facts
}

func sum(values []float32) (s float32) {
	for _, x := range values {
		s += x
	}
	return s
}

// megabytes is n bytes as the example has them: "150.2 MB", which are millions.
func megabytes(n uint64) string {
	if n < 100_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func (f *File) summarize(in layout.Input) (s summary, err error) {
	s.model, s.tensors = f.Header.ModelType.String(), int(f.Header.Tensors)
	if v := f.vocabulary; v.Size > 0 {
		b, err := layout.Region(in, layout.APR1, v.Offset, "n_tokens", v.Offset, 4)
		if err != nil {
			return s, err
		}
		s.hasVocabulary, s.tokens = true, uint64(le.Uint32(b))
	}
	if fb := f.filterbank; fb.offset != 0 {
		s.hasFilterbank, s.mels, s.freqs = true, uint64(fb.mels), uint64(fb.freqs)
		s.row0, err = f.floats(in, min(4*s.freqs, fb.size()))
	}
	return s, err
}

func (f *File) summarizeJSON(in layout.Input) (s summary, err error) {
	md, err := f.Metadata(in)
	if err != nil {
		return s, err
	}
	s.tensors = len(f.index.Tensors)
	model, _ := md.Get("model_type")
	s.model, _ = model.(string)
	vocab, _ := md.Get("vocab")
	if v := reflect.ValueOf(vocab); v.Kind() == reflect.Slice { // of JSON: an array or an object
		s.hasVocabulary, s.tokens = true, uint64(v.Len())
	}
	values, _ := md.Get(filterbankName)
	shape, _ := md.Get(filterbankName + "_shape")
	s.filterbank(numbers(values), numbers(shape))
	return s, nil
}

// filterbank takes the first band of values of this shape, if that is what they are.
func (s *summary) filterbank(values, shape []json.Number) {
	if len(shape) != 2 {
		return
	}
	dims := [2]uint64{}
	for i := range dims {
		dims[i], _ = strconv.ParseUint(string(shape[i]), 10, 32) // what is no u32 becomes 0, or too large
	}
	if n := dims[0] * dims[1]; n == 0 || n != uint64(len(values)) {
		return
	}
	s.hasFilterbank, s.mels, s.freqs = true, dims[0], dims[1]
	for _, v := range values[:s.freqs] {
		x, _ := strconv.ParseFloat(string(v), 32)
		s.row0 = append(s.row0, float32(x))
	}
}

func numbers(v any) []json.Number {
	n, _ := v.([]json.Number)
	return n
}
