package apr1

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// literal is a file byte by byte from the tables of the specification.
var literal = layout.Bytes("" +
	"APR1" + // 0 magic
	"\x01\x00" + "\x01" + "\x02" + "\x00" + "\x01\x00" + "\x03" + // 4 version, tiny.en, int8, compressed, n_tensors, flags
	"\x99\xca\x00\x00" + "\xdc\x05\x00\x00" + "\x80\x01\x00\x00" + "\x06\x00\x00\x00" + "\x04\x00\x00\x00" + // 12 n_vocab, n_audio_*
	"\xc0\x01\x00\x00" + "\x80\x01\x00\x00" + "\x06\x00\x00\x00" + "\x04\x00\x00\x00" + // 32 n_text_*
	"\x02\x00\x00\x00" + // 48 n_mels
	"a.weight" + layouttest.Zeros(40) + // 52 name
	layouttest.Zeros(8) + // 100 offset
	"\x03\x00\x00\x00\x00\x00\x00\x00" + // 108 size
	"\x03\x00\x00\x00\x00\x00\x00\x00" + // 116 n_elements
	"\x03\x00\x00\x00" + "\x01\x00\x00\x00" + layouttest.Zeros(8) + // 124 shape
	"\x02" + layouttest.Zeros(7) + // 140 n_dims, reserved
	"\x00\x00\x00\x3f" + // 148 scale 0.5
	"\x81\x00\x7f" + // 152 -127, 0, 127
	"\x15\x00\x00\x00" + // 155 vocabulary size
	"\x02\x00\x00\x00" + "\x01\x00\x00\x00" + // 159 n_tokens, n_merges
	"\x01\x00" + "x" + "\x02\x00" + "yz" + // 167 tokens
	"\x01\x00" + "y" + "\x01\x00" + "z" + // 174 a merge
	"\x10\x00\x00\x00" + // 180 filterbank size
	"\x02\x00\x00\x00" + "\x01\x00\x00\x00" + // 184 n_mels, n_freqs
	"\x00\x00\x80\x3f" + "\x00\x00\x00\xc0" + // 192 1, -2
	"\x00\x00\x00\x00") // 200 crc32, not that of the file

func TestDecodeLiteral(t *testing.T) {
	f := format.MustDecode(t, literal)
	want := Header{
		Version: 1, ModelType: 1, Quantization: Int8, Tensors: 1, Flags: HasVocab | HasFilterbank,
		Dimensions: Dimensions{51865, 1500, 384, 6, 4, 448, 384, 6, 4, 2},
	}
	if f.Header != want || f.Container != Binary {
		t.Errorf("header %+v, container %d", f.Header, f.Container)
	}
	ix := f.Index()
	tensors := []layout.Tensor{
		{Name: []byte("a.weight"), DType: layout.I8, Shape: []int{3, 1}, Offset: 152, Stored: 3, Raw: 3, Quant: &layout.Quant{Scale: 0.5}},
		{Name: []byte("mel_filterbank"), DType: layout.F32, Shape: []int{2, 1}, Offset: 192, Stored: 8, Raw: 8},
	}
	if !reflect.DeepEqual(ix.Tensors, tensors) || !slices.Equal(ix.Flags, []string{"has_vocab", "has_filterbank"}) || ix.Version != "1" {
		t.Errorf("%+v", ix)
	}
	md, err := f.Metadata(literal)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"n_vocab": uint32(51865), "n_mels": uint32(2), "vocab": []string{"x", "yz"}, "merges": [][]string{{"y", "z"}},
		"mel_filterbank": []float32{1, -2}, "mel_filterbank_shape": []uint32{2, 1},
	} {
		if v, _ := md.Get(key); !reflect.DeepEqual(v, want) {
			t.Errorf("%s: %v, want %v", key, v, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	const all8 = "\xff\xff\xff\xff\xff\xff\xff\xff"
	format.CheckRefused(t, []layouttest.Refusal{
		{"empty", nil, layout.ErrTruncated, "magic", 0, "0 bytes"},
		{"magic", layouttest.Patched(literal, 0, "APR3"), layout.ErrFormat, "magic", 0, `"APR3", not "APR1"`},
		{"short", literal[:51], layout.ErrTruncated, "magic", 0, "51 bytes"},
		{"head alone", literal[:52], layout.ErrTruncated, "n_tensors", 9, "only 0 for it"},
		{"no checksum", literal[:151], layout.ErrTruncated, "n_tensors", 9, "100 bytes, but the file has only 95"},
		{"short late", layouttest.Patched(literal, 0, "APR\x00\x02")[:67], layout.ErrTruncated, "magic", 0, "67 bytes"},
		{"late version", layouttest.Patched(slices.Concat([]byte("APR\x00"), literal[4:52], make([]byte, 16), literal[52:]), 4, "\x01"), layout.ErrUnsupported, "version", 4, "1, not 2"},
		{"namesake", layouttest.Patched(literal, 0, "APR\x00\x02"), layout.ErrFormat, "reserved", 52, "61 2e 77"},
		{"version", layouttest.Patched(literal, 4, "\x02"), layout.ErrUnsupported, "version", 4, "2, not 1"},
		{"int4", layouttest.Patched(literal, 7, "\x03"), layout.ErrUnsupported, "quantization", 7, "3, not 0 (f32)"},
		{"compressed", layouttest.Patched(literal, 8, "\x02"), layout.ErrUnsupported, "compressed", 8, "2, not 0 or 1"},
		{"no tensors", layouttest.Patched(literal, 9, "\x00\x00"), layout.ErrInvalid, "n_tensors", 9, "0: "},
		{"tensors", layouttest.Patched(literal, 9, "\xff\xff"), layout.ErrTruncated, "n_tensors", 9, "65535 tensors take an index of 6553500 bytes"},
		{"size", layouttest.Patched(literal, 108, all8), layout.ErrTruncated, "size", 108, "tensor 0: 18446744073709551615 bytes, but only 48"},
		{"name NUL", layouttest.Patched(literal, 52, strings.Repeat("n", 48)), layout.ErrInvalid, "name", 52, "does not end"},
		{"name UTF-8", layouttest.Patched(literal, 53, "\xff"), layout.ErrInvalid, "name", 52, "UTF-8"},
		{"name tail", layouttest.Patched(literal, 59, "\xff"), layout.ErrInvalid, "name", 52, "UTF-8"},
		{"dims", layouttest.Patched(literal, 140, "\x05"), layout.ErrInvalid, "n_dims", 140, `"a.weight": 5, more than 4`},
		{"elements", layouttest.Patched(literal, 116, "\x04"), layout.ErrInvalid, "n_elements", 116, "4, but the shape is [3 1]"},
		{"shape", layouttest.Patched(literal, 124, all8+all8+"\x04"), layout.ErrInvalid, "n_elements", 116, "3, but the shape is [4294967295"},
		{"offset", layouttest.Patched(literal, 100, "\x01"), layout.ErrInvalid, "offset", 52, "3 bytes at 153 leave the data section"},
		{"far offset", layouttest.Patched(literal, 100, all8), layout.ErrInvalid, "offset", 100, "past the end of the data of 3 bytes"},
		{"scale", layouttest.Patched(literal, 148, "\x00\x00\x80\x7f"), layout.ErrInvalid, "scale", 148, "+Inf is not finite"},
		{"vocabulary size", layouttest.Patched(literal, 155, "\x2a"), layout.ErrTruncated, "vocabulary_size", 155, "42 bytes, but only 41 are left before the checksum"},
		{"no counts", layouttest.Patched(literal, 155, "\x07"), layout.ErrInvalid, "vocabulary_size", 155, "fewer than the 8"},
		{"tokens", layouttest.Patched(literal, 159, "\x05"), layout.ErrTruncated, "n_tokens", 159, "5 tokens and 1 merges do not fit"},
		{"filterbank size", layouttest.Patched(literal, 180, "\x11"), layout.ErrTruncated, "filterbank_size", 180, "17 bytes, but only 16"},
		{"filterbank odd", layouttest.Patched(literal, 180, "\x0f"), layout.ErrInvalid, "filterbank_size", 180, "2 × 1 values"},
		{"filterbank", layouttest.Patched(literal, 184, "\x01"), layout.ErrInvalid, "filterbank_size", 180, "1 × 1 values"},
	})
}

// container assembles a file of the container JSON.
func jsonFile(metadata, index string, n int, data string) layout.Bytes {
	b := append([]byte(magic), byte(len(metadata)), 0, 0, 0)
	b = append(b, metadata...)
	b = append(b, byte(n), 0, 0, 0, byte(len(index)), byte(len(index)>>8), 0, 0)
	b = append(b, index...)
	return append(append(b, data...), 1, 2, 3, 4)
}

func TestDecodeJSONErrors(t *testing.T) {
	entry := func(s string) layout.Bytes { return jsonFile("{}", "["+s+"]", 1, "abcd") }
	const good = `{"name":"a","dtype":"F32","shape":[1],"offset":0,"size":4}`
	if f, err := Decode(entry(good), nil); err != nil || f.Container != JSON {
		t.Fatalf("%v, %v", f, err)
	}
	format.CheckRefused(t, []layouttest.Refusal{
		{"short", layout.Bytes("APR1\x02\x00\x00\x00{"), layout.ErrTruncated, "magic", 0, "9 bytes"},
		{"metadata", layouttest.Patched(entry(good), 4, "\xff\xff\xff\xff"), layout.ErrTruncated, "metadata_len", 8, "4294967295 bytes"},
		{"index length", layouttest.Patched(entry(good), 14, "\xff\xff\x00\x00"), layout.ErrTruncated, "index_len", 18, "65535 bytes"},
		{"index too long", layouttest.Patched(entry(good), 14, "\xff\xff\xff\xff"), layout.ErrLimit, "index_len", 14, "more than 100000000"},
		{"count", layouttest.Patched(entry(good), 10, "\x02"), layout.ErrInvalid, "n_tensors", 10, "2, but the index has 1 entries"},
		{"count 1", jsonFile("{}", "["+good+`,{"name":"b","dtype":"F32","shape":[0],"offset":4,"size":0}]`, 1, "abcd"), layout.ErrInvalid, "n_tensors", 10, "1, but the index has more entries"},
		{"syntax", entry(good + "}"), layout.ErrInvalid, "index", 18 + 1 + 58, ""},
		{"object", jsonFile("{}", `{"a":1}`, 1, ""), layout.ErrInvalid, "index", 18, `'{' where an array`},
		{"two values", jsonFile("{}", `[],"a":[]`, 0, ""), layout.ErrInvalid, "index", 20, `bytes after`},
		{"no object", entry(good + ",[]"), layout.ErrInvalid, "index", 78, "tensor 1: '[' where an object"},
		{"array", entry(`[]`), layout.ErrInvalid, "index", 19, `'[' where an object`},
		{"name", entry(`{"name":1,"dtype":"F32","shape":[1],"offset":0,"size":4}`), layout.ErrInvalid, "name", 27, `tensor 0: '1' where a string`},
		{"dtype", entry(`{"name":"a","dtype":"f\n","shape":[1],"offset":0,"size":4}`), layout.ErrUnsupported, "dtype", 39, `"f\n" is no dtype`},
		{"invalid", entry(`{"name":"a","dtype":"INVALID","shape":[1],"offset":0,"size":4}`), layout.ErrUnsupported, "dtype", 39, `"INVALID"`},
		{"no shape", entry(`{"name":"a","dtype":"F32","offset":0,"size":4}`), layout.ErrInvalid, "shape", 19, `no shape`},
		{"shape of text", entry(`{"name":"a","dtype":"F32","shape":["1"],"offset":0,"size":4}`), layout.ErrInvalid, "shape", 54, `'"' where a non-negative integer`},
		{"fraction", entry(`{"name":"a","dtype":"F32","shape":[1.0],"offset":0,"size":4}`), layout.ErrInvalid, "shape", 54, `fraction or an exponent`},
		{"exponent", entry(`{"name":"a","dtype":"F32","shape":[1],"offset":0,"size":4e0}`), layout.ErrInvalid, "size", 75, `fraction or an exponent`},
		{"no offset", entry(`{"name":"a","dtype":"F32","shape":[1],"size":4}`), layout.ErrInvalid, "offset", 19, `no offset`},
		{"offset", entry(`{"name":"a","dtype":"F32","shape":[1],"offset":18446744073709551615,"size":4}`), layout.ErrTruncated, "offset", 66, "past the end of the data of 4 bytes"},
		{"into checksum", entry(`{"name":"a","dtype":"F32","shape":[1],"offset":1,"size":4}`), layout.ErrInvalid, "offset", 19, "leave the data section"},
		{"size", entry(`{"name":"a","dtype":"F32","shape":[1],"offset":0,"size":3}`), layout.ErrInvalid, "offset", 19, "3 bytes stored"},
		{"twice", jsonFile("{}", "["+good+","+good+"]", 2, "abcd"), layout.ErrDuplicate, "name", 78, "same name"},
	})
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		data  layout.Bytes
		lim   layout.Limits
		field string
	}{
		{"tensors", literal, layout.Limits{Tensors: 1}, "tensor_count"},
		{"name", literal, layout.Limits{NameBytes: 7}, "name"},
		{"rank", literal, layout.Limits{Rank: 1}, "shape"},
		{"index", format.Read(t, "json"), layout.Limits{HeaderBytes: 100}, "index_len"},
	} {
		if _, err := Decode(tc.data, &tc.lim); !errors.Is(err, layout.ErrLimit) || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	for name, data := range map[string]layout.Bytes{"vocabulary": literal, "filterbank": format.Read(t, "filterbank"), "metadata": format.Read(t, "json_gap")} {
		lim := layout.Limits{HeaderBytes: 6}
		if name == "metadata" {
			lim.HeaderBytes = uint64(len(data)) // of which the index takes as much
		}
		f, err := Decode(data, &lim)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.lim.HeaderBytes = 6
		if _, err := f.Metadata(data); !errors.Is(err, layout.ErrLimit) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVocabularyErrors(t *testing.T) {
	for _, tc := range []layouttest.Refusal{
		{"token", layouttest.Patched(literal, 167, "\xff\xff"), layout.ErrTruncated, "tokens", 167, "token 0 leaves"},
		{"merge", layouttest.Patched(literal, 177, "\x02"), layout.ErrTruncated, "merges", 177, "merge 0 leaves"},
		{"length", layouttest.Patched(literal, 174, "\x04"), layout.ErrTruncated, "merges", 180, "merge 0 leaves"},
		{"left", layouttest.Patched(literal, 163, "\x00"), layout.ErrInvalid, "vocabulary_size", 174, "6 bytes are left"},
	} {
		f := format.MustDecode(t, tc.File)
		_, err := f.Metadata(tc.File)
		format.CheckError(t, err, tc.Want, tc.Field, tc.Offset, tc.Reason)
		findings := f.Audit(tc.File)
		if len(findings) != 1 || findings[0].Warning || findings[0].Field != tc.Field {
			t.Errorf("%s: findings %v", tc.Name, findings)
		}
	}
}

// TestStringsAreExact makes sure that no byte of a vocabulary is lost: not in Go, and not in
// JSON, which cannot hold all.
func TestStringsAreExact(t *testing.T) {
	v := &vocabulary{Tokens: []string{"a", "\x80", "é", "\xe3\x81"}, Merges: [][2]string{{"\xff", ""}}}
	data := withVocabulary(v)
	f := format.MustDecode(t, data)
	md, err := f.Metadata(data)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _ := md.Get("vocab")
	merges, _ := md.Get("merges")
	blob, _ := md.Get("vocab_bytes")
	if !reflect.DeepEqual(tokens, v.Tokens) || !reflect.DeepEqual(merges, [][]string{{"\xff", ""}}) ||
		!bytes.Equal(blob.(layout.Blob), data[f.vocabulary.Offset:][:f.vocabulary.Size]) {
		t.Errorf("%q, %q, %q", tokens, merges, blob)
	}
	data = withVocabulary(&vocabulary{Tokens: []string{"a", "é"}})
	if md, err = format.MustDecode(t, data).Metadata(data); err != nil {
		t.Fatal(err)
	}
	if _, ok := md.Get("vocab_bytes"); ok {
		t.Error("vocab_bytes though JSON can hold all")
	}
}

func TestRestoreCut(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"", ""}, {"abc", "abc"}, {"é", "é"}, {"a\xc3", "a\ufffd"}, {"a\xe3\x81", "a\ufffd"}, {"a\xf0\x9f\x98", "a\ufffd"},
		{"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}, {"a\x81", "a\x81"}, {"\x81\x81\x81\x81\x81", "\x81\x81\x81\x81\x81"},
		{"a\xff", "a\xff"}, {"a\xed\xa0", "a\xed\xa0"}, {"\xc3", "\ufffd"}, {"é\xe3", "é\ufffd"},
	} {
		d := decoder{file: &File{}}
		if got := string(d.restoreCut([]byte(tc.name), 7)); got != tc.want || (len(d.file.cutNames) == 1) != (got != tc.name) {
			t.Errorf("%q: %q, want %q; cut names %d", tc.name, got, tc.want, d.file.cutNames)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{ModelType(12).String(), "large-v3-turbo"}, {ModelType(13).String(), "ModelType(13)"},
		{Int8.String(), "int8"}, {Quantization(3).String(), "Quantization(3)"},
		{strings.Join(Flags(0xfe).Names(), " "), "has_filterbank"},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
}
