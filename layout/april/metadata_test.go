package april

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestParamBounds tries each number just inside and just outside of its bounds.
func TestParamBounds(t *testing.T) {
	const far = math.MaxInt32
	for _, tc := range []struct {
		field string
		index int
		good  []int32
		bad   []int32
	}{
		{field: "batch_size", index: 0, good: []int32{1}, bad: []int32{0, 2, -1, far}},
		{field: "segment_size", index: 1, good: []int32{4, 99}, bad: []int32{0, 100, -1, far}},
		{field: "segment_step", index: 2, good: []int32{1, 9}, bad: []int32{0, 10, -1, far}},
		{field: "mel_features", index: 3, good: []int32{1, 255}, bad: []int32{0, 256, -far - 1}},
		{field: "samplerate", index: 4, good: []int32{21, 143_999}, bad: []int32{0, 144_000, -far - 1}},
		{field: "frame_shift_ms", index: 5, good: []int32{1, 25}, bad: []int32{0, 26, far}},
		{field: "frame_length_ms", index: 6, good: []int32{10, 5000}, bad: []int32{5001, far}},
		{field: "round_pow2", index: 7, good: []int32{0, 1, -1, far}},
		{field: "mel_low", index: 8, good: []int32{1, 15_999}, bad: []int32{0, 16_000, -far - 1, far}},
		{field: "mel_high", index: 9, good: []int32{0, 21, far}, bad: []int32{20, 1, -1}},
		{field: "snip_edges", index: 10, good: []int32{0, 1, -1, far}},
		{field: "token_count", index: 11, good: []int32{1, 2}, bad: []int32{0, -1, 16_384, far}},
		{field: "blank_token_id", index: 12, good: []int32{0, 1, 2}, bad: []int32{3, -1, far}},
	} {
		m := good()
		try := func(v int32) error {
			numbers := []int32{1, 9, 4, 80, 16000, 10, 25, 1, 20, 0, 0, 3, 0}
			numbers[tc.index] = v
			m.params = params13(numbers, "a", "b", "c")
			data := m.assemble()
			_, err := format.MustDecode(t, data).Metadata(data)
			return err
		}
		for _, v := range tc.good {
			if err := try(v); err != nil {
				t.Errorf("%s %d: %v", tc.field, v, err)
			}
		}
		at := uint64(m.network(3) + 8 + 4*tc.index)
		for _, v := range tc.bad {
			format.CheckError(t, try(v), layout.ErrInvalid, tc.field, at, "")
		}
	}
}

func TestParamErrors(t *testing.T) {
	const numbers = 8 + 13*4
	long := goodParams("a", "b")
	le.PutUint32(long[numbers+5:], 2)
	negative := goodParams("a")
	le.PutUint32(negative[numbers:], 1<<31)
	huge := goodParams("a")
	le.PutUint32(huge[numbers:], 1<<31-1)
	for _, tc := range []struct {
		name     string
		params   []byte
		sentinel error
		field    string
		inside   int
		says     string
	}{
		{"nothing", nil, layout.ErrTruncated, "magic", 0, "8 bytes, but only 0"},
		{"magic", []byte("PARAMS\x00\x01" + string(goodParams("a")[8:])), layout.ErrInvalid, "magic", 0, `"PARAMS\x00\x01"`},
		{"cut", goodParams("a")[:numbers-4], layout.ErrTruncated, "blank_token_id", numbers - 4, "4 bytes, but only 0"},
		{"no room", params13([]int32{1, 9, 4, 80, 16000, 10, 25, 1, 20, 0, 0, 3, 0}, "a"), layout.ErrTruncated, "token_count", numbers - 8, "3 records"},
		{"last token", goodParams("a", "b")[:numbers+9], layout.ErrTruncated, "token_length", numbers + 5, "token 1 leaves"},
		{"long token", long, layout.ErrTruncated, "token_length", numbers + 5, "token 1 leaves"},
		{"huge token", huge, layout.ErrTruncated, "token_length", numbers, "more than 100000000 bytes"},
		{"negative token", negative, layout.ErrTruncated, "token_length", numbers, "token 0 leaves"},
		{"text", goodParams("ok", "\xff"), layout.ErrInvalid, "token", numbers + 4 + 2 + 4, `token 1: "\xff" is not valid UTF-8`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := good()
			m.params = tc.params
			data := m.assemble()
			f := format.MustDecode(t, data)
			_, err := f.Metadata(data)
			at := uint64(m.network(3) + tc.inside)
			format.CheckError(t, err, tc.sentinel, tc.field, at, tc.says)
			_, err = f.Summary(data)
			format.CheckError(t, err, tc.sentinel, tc.field, at, tc.says)
			found := f.Audit(data)
			if len(found) != 1 || found[0].Warning {
				t.Fatalf("findings %v", found)
			}
			format.CheckError(t, found[0].FormatError, tc.sentinel, tc.field, at, tc.says)
		})
	}
}

// TestTexts checks what a language tag and a name may be.
func TestTexts(t *testing.T) {
	for _, tc := range []struct{ language, name, wantLanguage, wantName string }{
		{"en-us\x00\x00\x00", "a", "en-us", "a"},
		{"en-us-xx", "", "en-us-xx", ""},
		{"\x00\x00\x00\x00\x00\x00\x00\x00", "日本\n", "", "日本\n"},
		{"de\x00\xffjunk", "a\x00\xff", "de", "a"}, // C strings
	} {
		m := good()
		m.language, m.name = tc.language, tc.name
		data := m.assemble()
		md, err := format.MustDecode(t, data).Metadata(data)
		if err != nil {
			t.Errorf("%q: %v", tc, err)
			continue
		}
		language, _ := md.Get("language_tag")
		name, _ := md.Get("name")
		if language != tc.wantLanguage || name != tc.wantName {
			t.Errorf("%q: language_tag %q, name %q", tc, language, name)
		}
	}
	for _, tc := range []struct {
		field    string
		language string
		desc     string
		at       uint64
	}{{"language_tag", "\xc3\x28\x00\x00\x00\x00\x00\x00", "", 20}, {"description", "en\x00\x00\x00\x00\x00\x00", "\xff", 28 + 8 + 6 + 8}} {
		m := good()
		m.language, m.desc = tc.language, tc.desc
		data := m.assemble()
		_, err := format.MustDecode(t, data).Metadata(data)
		format.CheckError(t, err, layout.ErrInvalid, tc.field, tc.at, "is not valid UTF-8")
	}
}

// TestMetadataForm checks keys, their order and the types of their values.
func TestMetadataForm(t *testing.T) {
	data := good().assemble()
	md, err := format.MustDecode(t, data).Metadata(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := keys(md); got != "language_tag name description model params" {
		t.Errorf("keys %s", got)
	}
	p, _ := md.Get("params")
	const want = "batch_size segment_size segment_step mel_features samplerate frame_shift_ms frame_length_ms round_pow2 " +
		"mel_low mel_high snip_edges token_count blank_token_id tokens"
	if got := keys(p.(layout.Metadata)); got != want {
		t.Errorf("params %s", got)
	}
	tokens, _ := md.Get("params", "tokens")
	rate, _ := md.Get("params", "samplerate")
	model, _ := md.Get("model")
	if !slices.Equal(tokens.([]string), []string{"<blk>", " a", "é"}) || rate != int32(16000) || model != uint32(1) {
		t.Errorf("tokens %q, samplerate %v, model %v", tokens, rate, model)
	}
	// What was handed out does not change with the file.
	clear(data)
	if !slices.Equal(tokens.([]string), []string{"<blk>", " a", "é"}) {
		t.Errorf("tokens became %q", tokens)
	}
}

func keys(md layout.Metadata) string {
	var k []string
	for key := range md.All() {
		k = append(k, key)
	}
	return strings.Join(k, " ")
}
