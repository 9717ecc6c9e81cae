package gguf

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// Summary returns what a person wants to know of a language model first: its name, its size, its
// quantization and the numbers of its architecture. It leaves out facts that the file does not state.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	s := summary{file: f, in: in}
	arch := s.text(keyArchitecture)
	s.Add("name", s.text("general.name"))
	s.Add("architecture", arch)
	s.Add("file type", s.fileType())
	s.Add("parameters", s.parameters())
	s.Add("context length", s.text(arch+".context_length"))
	s.Add("embedding length", s.text(arch+".embedding_length"))
	s.Add("layers", s.text(arch+".block_count"))
	s.Add("heads", s.heads(arch))
	s.Add("experts", s.text(arch+".expert_count"))
	s.Add("tokenizer", s.tokenizer())
	if f.split.count > 0 {
		s.Add("split", fmt.Sprintf("file %d of %d, %d tensors in all", f.split.no+1, f.split.count, f.split.tensors))
	}
	return s.Facts, s.err
}

type summary struct {
	layout.Facts
	file *File
	in   layout.Input
	err  error
}

// get returns the value of key, or nil if there is none. An error is left in s.err.
func (s *summary) get(key string) any {
	v, _, err := s.file.Get(s.in, key)
	s.err = cmp.Or(s.err, err)
	return v
}

// text returns the value of key. If that is an array of numbers, as in models whose layers differ, it returns the smallest and the
// greatest.
func (s *summary) text(key string) string {
	switch v := s.get(key).(type) {
	case nil:
		return ""
	case []uint32, []int32:
		list, _ := layout.As[[]int64](v)
		return rangeText(list)
	case []any:
		return fmt.Sprintf("%d of %v", len(v), TypeArray)
	default:
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
			return fmt.Sprintf("%d of %v", list.Len(), list.Type().Elem())
		}
		return fmt.Sprint(v)
	}
}

// rangeText returns the smallest and the greatest of some numbers, as text.
func rangeText(v []int64) string {
	if len(v) == 0 {
		return ""
	}
	lowest, highest := slices.Min(v), slices.Max(v)
	if lowest == highest {
		return fmt.Sprint(lowest)
	}
	return fmt.Sprintf("%d to %d", lowest, highest)
}

// fileTypes are llama.cpp's names for general.file_type (llama.h, enum llama_ftype).
var fileTypes = map[uint32]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1",
	10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M",
	16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S",
	22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
	28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
	36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0",
}

// FileType returns llama.cpp's name for a value of general.file_type, such as Q4_K_M: how most of a model's weights are
// quantized. It is empty for a value without one.
func FileType(value uint32) string { return fileTypes[value] }

// fileType returns the name of general.file_type, or its number if it has none.
func (s *summary) fileType() string {
	const key = "general.file_type"
	v, ok := s.get(key).(uint32)
	if name := FileType(v); ok && name != "" {
		return name
	}
	return s.text(key)
}

// parameters returns the number of elements in the model. A shard of a split does not know it.
func (s *summary) parameters() string {
	if s.file.split.count > 1 {
		return ""
	}
	n := uint64(0)
	for i := range s.file.index.Tensors {
		n += s.file.index.Tensors[i].Elements()
	}
	switch {
	case len(s.file.index.Tensors) == 0:
		return ""
	case n >= 1e9:
		return fmt.Sprintf("%.2f billion", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f million", float64(n)/1e6)
	}
	return strconv.FormatUint(n, 10)
}

// heads returns the number of attention heads, and the number of keys and values if it differs.
func (s *summary) heads(arch string) string {
	heads, kv := s.text(arch+".attention.head_count"), s.text(arch+".attention.head_count_kv")
	if kv == "" || kv == heads {
		return heads
	}
	return heads + ", " + kv + " for keys and values"
}

// tokenizer returns the kind of tokenizer and the number of tokens.
func (s *summary) tokenizer() string {
	model := s.text("tokenizer.ggml.model")
	tokens, ok := s.count("tokenizer.ggml.tokens")
	switch {
	case !ok:
		return model
	case model == "":
		return fmt.Sprintf("%d tokens", tokens)
	}
	return fmt.Sprintf("%s, %d tokens", model, tokens)
}

// count returns the number of elements in the array of key. It does not read the elements: a
// vocabulary is most of a header.
func (s *summary) count(key string) (n uint64, ok bool) {
	k := &s.file.keys
	i := k.find(key)
	if i < 0 || k.typ(i) != TypeArray {
		return 0, false
	}
	const elementType = 4
	r := reader{Cursor: layout.NewCursor(s.in, layout.GGUF, k.kvs[i].value, elementType+k.width.bytes), width: k.width}
	r.Skip("value", elementType)
	n = r.count("value")
	s.err = cmp.Or(s.err, r.Err())
	return n, r.Err() == nil
}
