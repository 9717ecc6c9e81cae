package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// file puts a header and so many bytes of data together.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

// dtypesOfFormat are all dtypes, with their bits, from the format's documents.
var dtypesOfFormat = []struct {
	name string
	bits int
}{
	{"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
	{"BOOL", 8}, {"U8", 8}, {"I8", 8}, {"F8_E5M2", 8}, {"F8_E4M3", 8},
	{"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
	{"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16},
	{"I32", 32}, {"U32", 32}, {"F32", 32},
	{"I64", 64}, {"U64", 64}, {"F64", 64}, {"C64", 64},
}

func TestDTypes(t *testing.T) {
	for _, d := range dtypesOfFormat {
		size := 4 * d.bits / 8
		for _, format := range []string{
			`{"x":{"dtype":"%s","shape":[2,2],"data_offsets":[0,%d]}}`,
			`{"x":{"dtype": "%s","shape":[2,2],"data_offsets":[0,%d]}}`, // not as usual
		} {
			f, err := Decode(layout.Bytes(file(fmt.Sprintf(format, d.name, size), size)), nil)
			if err != nil {
				t.Error(err)
				continue
			}
			if x := f.Index().Tensors[0]; x.DType.String() != d.name || x.Stored != uint64(size) {
				t.Errorf("%s: got %v of %d bytes, want %d", d.name, x.DType, x.Stored, size)
			}
		}
	}
	for _, name := range []string{"F8", "f32", "F32 ", "", "Q4_0", "C128", "INVALID"} {
		_, err := Decode(layout.Bytes(file(fmt.Sprintf(`{"x":{"dtype":%q,"shape":[],"data_offsets":[0,4]}}`, name), 4)), nil)
		if !errors.Is(err, layout.ErrUnsupported) || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("dtype %q: %v", name, err)
		}
	}
}

// desc is a tensor's description with the quotes and braces that tests need not repeat.
func desc(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"dtype":%q,"shape":[%s],"data_offsets":[%s]}`, dtype, shape, offsets)
}

func TestAccepted(t *testing.T) {
	two := `"a":` + desc("U8", "2", "0,2") + `,"b":` + desc("U8", "2", "2,4")
	for _, c := range []struct {
		name, header string
		data         int
		want         []string // name dtype shape offset in the data + size
	}{
		{"nothing", `{}`, 0, nil},
		{"white space after", "{} \t\r\n", 0, nil},
		{"white space before", "\t\n{}\r ", 0, nil}, // of the reference's test_whitespace_leading_padded_header
		{"white space within", " \n{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 1 , 2 ] ,\t\"data_offsets\"\r:[ 0 , 2 ] } } "[2:], 2, []string{"a U8 [1 2] 0+2"}},
		{"two", `{` + two + `}`, 4, []string{"a U8 [2] 0+2", "b U8 [2] 2+2"}},
		{"scalar", `{"a":` + desc("F32", "", "0,4") + `}`, 4, []string{"a F32 [] 0+4"}},
		{"empty", `{"a":` + desc("F32", "0", "0,0") + `}`, 0, []string{"a F32 [0] 0+0"}},
		{"zero after a product past 64 bits", `{"a":` + desc("F32", "4294967296,4294967296,0", "0,0") + `}`, 0, []string{"a F32 [4294967296 4294967296 0] 0+0"}},
		{"largest dimension", `{"a":` + desc("U8", fmt.Sprintf("%d,0", math.MaxInt), "0,0") + `}`, 0, []string{fmt.Sprintf("a U8 [%d 0] 0+0", math.MaxInt)}},
		{"empty between", `{"a":` + desc("U8", "2", "0,2") + `,"e":` + desc("U8", "0", "2,2") + `,"b":` + desc("U8", "2", "2,4") + `}`, 4,
			[]string{"a U8 [2] 0+2", "e U8 [0] 2+0", "b U8 [2] 2+2"}},
		{"empty listed late", `{` + two + `,"e":` + desc("U8", "0", "2,2") + `,"f":` + desc("U8", "0", "0,0") + `}`, 4,
			[]string{"a U8 [2] 0+2", "b U8 [2] 2+2", "e U8 [0] 2+0", "f U8 [0] 0+0"}},
		{"out of order", `{"b":` + desc("U8", "2", "2,4") + `,"a":` + desc("U8", "2", "0,2") + `}`, 4, []string{"b U8 [2] 2+2", "a U8 [2] 0+2"}},
		{"metadata", `{"__metadata__":{"k":"v"},` + two + `}`, 4, []string{"a U8 [2] 0+2", "b U8 [2] 2+2"}},
		{"metadata last", `{` + two + `,"__metadata__":{}}`, 4, []string{"a U8 [2] 0+2", "b U8 [2] 2+2"}},
		{"metadata null", `{"__metadata__":null}`, 0, nil},
		{"keys in another order", `{"a":{"data_offsets":[0,2],"shape":[2],"dtype":"U8"}}`, 2, []string{"a U8 [2] 0+2"}},
		{"keys and dtype escaped", `{"\u0061":{"dtyp\u0065":"\u00558","sh\u0061pe":[2],"data\u005Foffsets":[0,2]}}`, 2, []string{"a U8 [2] 0+2"}},
		{"unknown keys", `{"a":{"x":[1,-2.5e+3,{"y":[true,false,null,"\n"]},[],{}],"dtype":"U8","shape":[2],"":0,"data_offsets":[0,2],"z":-0}}`, 2, []string{"a U8 [2] 0+2"}},
		{"every escape", `{"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude42\u20AC":` + desc("U8", "", "0,1") + `}`, 1, []string{"\"\\/\b\f\n\r\té🙂€ U8 [] 0+1"}},
		{"names of other scripts", `{"重み🙂":` + desc("U8", "", "0,1") + `}`, 1, []string{"重み🙂 U8 [] 0+1"}},
		{"empty name", `{"":` + desc("U8", "", "0,1") + `}`, 1, []string{" U8 [] 0+1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Decode(layout.Bytes(file(c.header, c.data)), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range f.Index().Tensors {
				got = append(got, fmt.Sprintf("%s %v %v %d+%d", x.Name, x.DType, x.Shape, x.Offset-8-uint64(len(c.header)), x.Stored))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

var (
	rank65  = strings.TrimSuffix(strings.Repeat("1,", 65), ",")
	deep    = strings.Repeat("[", 63) + strings.Repeat("]", 63) // within two objects
	bytesOf = func(s string) []byte { return []byte(s) }
)

// TestErrors has the bytes of every error: where it is, in which field, and what it says.
func TestErrors(t *testing.T) {
	ok := desc("U8", "2", "0,2")
	for _, c := range []struct {
		file     []byte
		sentinel error
		at       uint64
		field    string
		reason   string
	}{
		// The size.
		{nil, layout.ErrTruncated, 0, "header_size", "8 bytes at 0 leave the file of 0 bytes"},
		{bytesOf("\x02\x00\x00\x00\x00\x00\x00"), layout.ErrTruncated, 0, "header_size", "8 bytes at 0 leave the file of 7 bytes"},
		{bytesOf("\x03\x00\x00\x00\x00\x00\x00\x00{}"), layout.ErrTruncated, 0, "header_size", "3 bytes at 8 leave the file of 10 bytes"},
		{bytesOf("\x01\xe1\xf5\x05\x00\x00\x00\x00{}"), layout.ErrLimit, 0, "header_size", "100000001 bytes, more than 100000000"},
		{bytesOf("\xff\xff\xff\xff\xff\xff\xff\xff{}"), layout.ErrLimit, 0, "header_size", "18446744073709551615 bytes"},
		// JSON.
		{file(``, 0), layout.ErrInvalid, 8, "header", "the end of the JSON where '{' should be"},
		{file(` []`, 0), layout.ErrInvalid, 9, "header", `'[' where '{' should be`},
		{file("\xef\xbb\xbf{}", 0), layout.ErrInvalid, 8, "header", `'\ufeff' where '{' should be`},
		{file(`[]`, 0), layout.ErrInvalid, 8, "header", `'[' where '{' should be`},
		{file(`{`, 0), layout.ErrInvalid, 9, "header", "the end of the JSON where a key should be"},
		{file(`{}}`, 0), layout.ErrInvalid, 10, "header", "bytes after the JSON"},
		{file("{}\x00", 0), layout.ErrInvalid, 10, "header", "bytes after the JSON"},
		{file("{}\v", 0), layout.ErrInvalid, 10, "header", "bytes after the JSON"},
		{file(`{"a":`+ok+`,}`, 2), layout.ErrInvalid, 13 + uint64(len(ok)) + 1, "header", `'}' where a key should be`},
		{file(`{"a":`+ok+` "b"`, 2), layout.ErrInvalid, 13 + uint64(len(ok)) + 1, "header", `'"' where ',' or '}' should be`},
		{file(`{a:1}`, 0), layout.ErrInvalid, 9, "header", `'a' where a key should be`},
		{file(`{"a"}`, 0), layout.ErrInvalid, 12, "header", `'}' where ':' should be`},
		{file(`{"a":1}`, 0), layout.ErrInvalid, 13, "header", `tensor "a": '1' where a tensor's '{' should be`},
		{file(`{"a":{"x":tru}}`, 0), layout.ErrInvalid, 18, "header", `tensor "a": 't' where a value should be`},
		{file(`{"a":{"x":nulll}}`, 0), layout.ErrInvalid, 22, "header", `'l' where ',' or '}' should be`},
		{file(`{"a":{"x":-}}`, 0), layout.ErrInvalid, 19, "header", `'}' where a digit should be`},
		{file(`{"a":{"x":1.}}`, 0), layout.ErrInvalid, 20, "header", `'}' where a digit should be`},
		{file(`{"a":{"x":1e+}}`, 0), layout.ErrInvalid, 21, "header", `'}' where a digit should be`},
		{file(`{"a":{"x":01}}`, 0), layout.ErrInvalid, 19, "header", `'1' where ',' or '}' should be`},
		{file(`{"a":{"x":[1,]}}`, 0), layout.ErrInvalid, 21, "header", `']' where a value should be`},
		{file(`{"a":{"x":[1}}`, 0), layout.ErrInvalid, 20, "header", `'}' where ',' or ']' should be`},
		{file(`{"a":{"x":[`+deep+`]}}`, 0), layout.ErrLimit, 18 + 62, "header", "JSON nested deeper than 64"},
		// Strings.
		{file(`{"abc`, 0), layout.ErrInvalid, 9, "header", "string that does not end"},
		{file(`{"abcdefghijklm`, 0), layout.ErrInvalid, 9, "header", "string that does not end"},
		{file(`{"a\`, 0), layout.ErrInvalid, 11, "header", `invalid escape "\\"`},
		{file("{\"ab\x1fc\":1}", 0), layout.ErrInvalid, 12, "header", "control character 0x1f in a string"},
		{file("{\"ab\xffc\":1}", 0), layout.ErrInvalid, 12, "header", "string that is not valid UTF-8: 0xff"},
		{file("{\"\\n ab\xed\xa0\x80\":1}", 0), layout.ErrInvalid, 15, "header", "string that is not valid UTF-8: 0xed"},
		{file(`{"\x41":1}`, 0), layout.ErrInvalid, 10, "header", `invalid escape "\\x41\":"`},
		{file(`{"\u12g4":1}`, 0), layout.ErrInvalid, 10, "header", `invalid escape "\\u12g4"`},
		{file(`{"\ud800":1}`, 0), layout.ErrInvalid, 10, "header", `invalid escape "\\ud800"`},
		{file(`{"\udc00\ud800":1}`, 0), layout.ErrInvalid, 10, "header", `invalid escape "\\udc00"`},
		{file(`{"\ud800\u0041":1}`, 0), layout.ErrInvalid, 10, "header", `invalid escape "\\ud800"`},
		// Names and keys.
		{file(`{"a":`+ok+`,"\u0061":`+ok+`}`, 2), layout.ErrDuplicate, 61, "name", `tensor "a": tensors 0 and 1 have the same name`},
		{file(`{"a\u0000":`+ok+`}`, 2), layout.ErrInvalid, 9, "name", `tensor "a\x00": holds a NUL byte`},
		{file(`{"`+strings.Repeat("a", 1<<16)+`":`+ok+`}`, 2), layout.ErrLimit, 9, "name", "65536 bytes, more than 65535"},
		{file(`{"a":{"dtype":"U8","dtype":"U8"}}`, 0), layout.ErrDuplicate, 27, "header", `tensor "a": key "dtype" occurs twice`},
		{file(`{"a":{"shape":[],"sh\u0061pe":[]}}`, 0), layout.ErrDuplicate, 25, "header", `tensor "a": key "shape" occurs twice`},
		{file(`{"a":{"data_offsets":[0,0], "data_offsets":[0,0]}}`, 0), layout.ErrDuplicate, 36, "header", `tensor "a": key "data_offsets" occurs twice`},
		{file(`{"a":{"x":1,"y":2,"x":3,"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), layout.ErrDuplicate, 26, "header", `tensor "a": key "x" occurs twice`},
		{file(`{"a":{"x":{"y":1,"y":2}}}`, 0), layout.ErrDuplicate, 25, "header", `tensor "a": key "y" occurs twice`},
		{file(`{"a":{}}`, 0), layout.ErrInvalid, 9, "dtype", `tensor "a": no dtype`},
		{file(`{"a":{"dtype":"U8","data_offsets":[0,0]}}`, 0), layout.ErrInvalid, 9, "shape", `tensor "a": no shape`},
		{file(`{"a":{"DType":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), layout.ErrInvalid, 9, "dtype", `tensor "a": no dtype`},
		// Fields of a tensor.
		{file(`{"a":{"dtype":8}}`, 0), layout.ErrInvalid, 22, "dtype", `tensor "a": '8' where a string should be`},
		{file(`{"a":`+desc("F7", "2", "0,2")+`}`, 2), layout.ErrUnsupported, 22, "dtype", `tensor "a": unknown dtype "F7"`},
		{file(`{"a":{"shape":2}}`, 0), layout.ErrInvalid, 22, "shape", `tensor "a": '2' where an array should be`},
		{file(`{"a":{"shape":[-1]}}`, 0), layout.ErrInvalid, 23, "shape", `tensor "a": '-' where a non-negative integer should be`},
		{file(`{"a":{"shape":["1"]}}`, 0), layout.ErrInvalid, 23, "shape", `'"' where a non-negative integer should be`},
		{file(`{"a":{"shape":[null]}}`, 0), layout.ErrInvalid, 23, "shape", `'n' where a non-negative integer should be`},
		{file(`{"a":`+desc("U8", "2,", "0,2")+`}`, 2), layout.ErrInvalid, 38, "shape", `']' where a non-negative integer should be`},
		{file(`{"a":`+desc("U8", "02", "0,2")+`}`, 2), layout.ErrInvalid, 36, "shape", "integer 02 has leading zeros"},
		{file(`{"a":`+desc("U8", "2.0", "0,2")+`}`, 2), layout.ErrInvalid, 36, "shape", "2.… is a number with a fraction or an exponent"},
		{file(`{"a":`+desc("U8", "2e0", "0,2")+`}`, 2), layout.ErrInvalid, 36, "shape", "2e… is a number with a fraction or an exponent"},
		{file(`{"a":`+desc("U8", "2,18446744073709551615", "0,2")+`}`, 2), layout.ErrInvalid, 38, "shape", `tensor "a": dimension 1 is 18446744073709551615, beyond 9223372036854775807`},
		{file(`{"a":`+desc("U8", "18446744073709551616", "0,2")+`}`, 2), layout.ErrInvalid, 36, "shape", "integer 18446744073709551616 (20 digits) does not fit 64 bits"},
		{file(`{"a":`+desc("U8", strings.Repeat("9", 50), "0,2")+`}`, 2), layout.ErrInvalid, 36, "shape", "(50 digits) does not fit 64 bits"},
		{file(`{"a":`+desc("U8", rank65, "0,1")+`}`, 1), layout.ErrLimit, 36 + 128, "shape", "more than 64 dimensions"},
		{file(`{"a":`+desc("U8", "4294967296,4294967296", "0,2")+`}`, 2), layout.ErrInvalid, 9, "shape", "shape [4294967296 4294967296] has"},
		{file(`{"a":`+desc("F64", "4294967296,2147483648", "0,2")+`}`, 2), layout.ErrInvalid, 9, "shape", "shape [4294967296 2147483648] of F64 has"},
		{file(`{"a":`+desc("F4", "3", "0,2")+`}`, 2), layout.ErrInvalid, 9, "shape", "3 elements are no multiple of F4's block of 2"},
		{file(`{"a":`+desc("U8", "3", "0,2")+`}`, 2), layout.ErrInvalid, 9, "data_offsets", `tensor "a": 2 bytes stored, but U8 [3] takes 3`},
		{file(`{"a":{"data_offsets":{}}}`, 0), layout.ErrInvalid, 29, "data_offsets", `'{' where an array should be`},
		{file(`{"a":{"data_offsets":[]}}`, 0), layout.ErrInvalid, 29, "data_offsets", "0 elements instead of 2"},
		{file(`{"a":{"data_offsets":[0]}}`, 0), layout.ErrInvalid, 29, "data_offsets", "1 elements instead of 2"},
		{file(`{"a":{"data_offsets":[0,-1]}}`, 0), layout.ErrInvalid, 32, "data_offsets", `'-' where a non-negative integer should be`},
		{file(`{"a":{"data_offsets":[0,0,0]}}`, 0), layout.ErrInvalid, 34, "data_offsets", "more than 2 elements"},
		{file(`{"a":`+desc("U8", "2", "2,0")+`}`, 2), layout.ErrInvalid, 54, "data_offsets", `tensor "a": begins at 2 but ends at 0`},
		{file(`{"a":`+desc("U8", "2", "0,2")+`}`, 1), layout.ErrTruncated, 54, "data_offsets", `tensor "a": ends at 2 of 1 bytes of data`},
		{file(`{"a":`+desc("U8", "2", "18446744073709551613,18446744073709551615")+`}`, 2), layout.ErrTruncated, 54, "data_offsets", "ends at 18446744073709551615 of 2"},
		// The tensors together; the data of one is at 8+53, of two at 8+105.
		{file(`{"a":`+ok+`}`, 3), layout.ErrInvalid, 61 + 2, "data_offsets", "the tensors end at 2 of 3 bytes of data"},
		{file(`{}`, 1), layout.ErrInvalid, 10, "data_offsets", "the tensors end at 0 of 1 bytes of data"},
		{file(`{"a":`+desc("U8", "2", "1,3")+`}`, 3), layout.ErrInvalid, 61, "data_offsets", `tensor "a" begins at 1, but the one before it ends at 0`},
		{file(`{"a":`+ok+`,"b":`+desc("U8", "1", "3,4")+`}`, 4), layout.ErrInvalid, 113 + 2, "data_offsets", `tensor "b" begins at 3, but the one before it ends at 2`},
		{file(`{"a":`+ok+`,"b":`+desc("U8", "0", "1,1")+`}`, 2), layout.ErrInvalid, 113 + 2, "data_offsets", `tensor "b" begins at 1, but the one before it ends at 2`},
		{file(`{"a":`+ok+`,"b":`+desc("U8", "2", "1,3")+`}`, 3), layout.ErrOverlap, 113 + 1, "data_offsets", `tensor "a" (2 bytes at 113) and tensor "b" (2 bytes at 114) overlap`},
		{file(`{"a":`+ok+`,"b":`+ok+`}`, 2), layout.ErrOverlap, 113, "data_offsets", "overlap"},
		// Metadata.
		{file(`{"__metadata__":[]}`, 0), layout.ErrInvalid, 24, "__metadata__", `'[' where an object of strings should be`},
		{file(`{"__metadata__":{"k":1}}`, 0), layout.ErrInvalid, 29, "__metadata__", `'1' where the string of key "k" should be`},
		{file(`{"__metadata__":{"k":null}}`, 0), layout.ErrInvalid, 29, "__metadata__", `'n' where the string of key "k" should be`},
		{file(`{"__metadata__":{"k":"\q"}}`, 0), layout.ErrInvalid, 30, "__metadata__", "invalid escape"},
		{file(`{"__metadata__":{"k":"1","\u006b":"2"}}`, 0), layout.ErrDuplicate, 33, "__metadata__", `key "k" occurs twice`},
		{file(`{"__metadata__":{},"__metadata__":{}}`, 0), layout.ErrDuplicate, 27, "__metadata__", `key "__metadata__" occurs twice`},
		{file(`{"__metadata__":null,"__metadata__":{}}`, 0), layout.ErrDuplicate, 29, "__metadata__", `key "__metadata__" occurs twice`},
	} {
		_, err := Decode(layout.Bytes(c.file), nil)
		format.CheckError(t, err, c.sentinel, c.field, c.at, c.reason)
	}
}

func TestLimits(t *testing.T) {
	header := `{"a":` + desc("U8", "1,2", "0,2") + `,"b":{"x":[[]],"dtype":"U8","shape":[0],"data_offsets":[2,2]}}`
	b := layout.Bytes(file(header, 2))
	for _, c := range []struct {
		lim  layout.Limits
		want string // "" where the limit is just met
	}{
		{layout.Limits{HeaderBytes: uint64(len(header)), Tensors: 2, NameBytes: 1, Rank: 2, Depth: 4}, ""},
		{layout.Limits{HeaderBytes: uint64(len(header)) - 1}, "header_size"},
		{layout.Limits{Tensors: 1}, "tensor_count"},
		{layout.Limits{Rank: 1}, "shape"},
		{layout.Limits{Depth: 3}, "header"},
	} {
		_, err := Decode(b, &c.lim)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.lim, err)
			}
			continue
		}
		e, ok := errors.AsType[*layout.FormatError](err)
		if !ok || !errors.Is(err, layout.ErrLimit) || e.Field != c.want {
			t.Errorf("%+v: %v, want a limit of %s", c.lim, err, c.want)
		}
	}
}

func TestMetadata(t *testing.T) {
	b := layout.Bytes(file(`{"a":`+desc("U8", "", "0,1")+`,"__metadata__" : {"z":"1","\u0061":"\ud83d\ude42","":""} }`, 1))
	f, err := Decode(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	md, err := f.Metadata(b)
	want := layout.Metadata{{Key: "z", Value: "1"}, {Key: "a", Value: "🙂"}, {Key: "", Value: ""}}
	if err != nil || !slices.Equal(md, want) {
		t.Errorf("got %v, %v; want %v", md, err, want)
	}

	// The file changed after it was decoded.
	b[slices.Index(b, 'z')+3] = '1'
	_, err = f.Metadata(b)
	if e, ok := errors.AsType[*layout.FormatError](err); !ok || e.Field != "__metadata__" || e.Offset != uint64(slices.Index(b, 'z')+3) {
		t.Errorf("changed metadata: %v", err)
	}
	if _, err := f.Metadata(b[:20]); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("truncated metadata: %v", err)
	}
}

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		header string
		data   int
		want   []string
	}{
		{`{"a":` + desc("U8", "2", "0,2") + `}  `, 2, []string{"header_size"}},
		{`{"a":` + desc("U8", "2", "0,2") + `}   `, 2, nil},
		{"  \n" + `{"a":` + desc("U8", "2", "0,2") + `}`, 2, []string{"header"}},
		{`{"a":` + desc("F32", "1", "0,4") + `}`, 4, []string{"header_size", "data_offsets"}},
		{`{"a":` + desc("U8", "1", "0,1") + `,"b":` + desc("F16", "1", "1,3") + `,"e":` + desc("F16", "0", "3,3") + `} `, 3, []string{"data_offsets"}},
	} {
		b := layout.Bytes(file(c.header, c.data))
		f, err := Decode(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range f.Audit(b) {
			got = append(got, x.Field)
			if !x.Warning || !errors.Is(x, layout.ErrMisaligned) && !strings.Contains(x.Error(), "3 bytes of white space before '{'") {
				t.Errorf("%s: not a warning of misalignment: %v", c.header, x)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s (%d bytes): findings about %q, want %q", c.header, len(c.header), got, c.want)
		}
		if sums, err := f.Checksums(b); len(sums) != 0 || err != nil {
			t.Errorf("checksums %v, %v", sums, err)
		}
	}
}
