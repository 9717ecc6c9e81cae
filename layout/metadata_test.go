package layout_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

func TestMetadataGet(t *testing.T) {
	md := layout.Metadata{
		{Key: "a", Value: "first"},
		{Key: "o", Value: layout.Metadata{
			{Key: "p", Value: layout.Metadata{{Key: "q", Value: uint32(7)}}},
			{Key: "null", Value: nil},
		}},
		{Key: "a", Value: "second"},
		{Key: "list", Value: []any{layout.Metadata{{Key: "p", Value: true}}}},
	}
	tests := []struct {
		key    string
		nested []string
		want   any
		ok     bool
	}{
		{"a", nil, "first", true},
		{"o", []string{"p", "q"}, uint32(7), true},
		{"o", []string{"null"}, nil, true},
		{"o", []string{"x"}, nil, false},
		{"o", []string{"null", "x"}, nil, false},
		{"o", []string{"p", "q", "r"}, nil, false},
		{"a", []string{"p"}, nil, false},
		{"list", []string{"p"}, nil, false},
		{"p", nil, nil, false},
		{"", nil, nil, false},
	}
	for _, tt := range tests {
		if got, ok := md.Get(tt.key, tt.nested...); got != tt.want || ok != tt.ok {
			t.Errorf("Get(%q, %q) = %v, %t, want %v, %t", tt.key, tt.nested, got, ok, tt.want, tt.ok)
		}
	}
	if _, ok := layout.Metadata(nil).Get("a"); ok {
		t.Error("nil metadata has a key")
	}
}

func TestMetadataSetAll(t *testing.T) {
	var md layout.Metadata
	for i, key := range []string{"b", "a", "", "b", "c", "a"} {
		md.Set(key, i)
	}
	var keys []string
	var values []any
	for k, v := range md.All() {
		keys, values = append(keys, k), append(values, v)
	}
	if !slices.Equal(keys, []string{"b", "a", "", "c"}) || !slices.Equal(values, []any{3, 5, 2, 4}) {
		t.Errorf("keys %q have values %v", keys, values)
	}
	for k := range md.All() {
		if k != "b" {
			t.Errorf("All goes on to %q after break", k)
		}
		break
	}
}

// TestMetadataMerge: Merge does what Set of each key does, few or many as they are.
func TestMetadataMerge(t *testing.T) {
	keys := func(from, to int) (md layout.Metadata) {
		for i := from; i < to; i++ {
			md = append(md, layout.Entry{Key: strconv.Itoa(i % 1000), Value: i})
		}
		return md
	}
	for _, tt := range []struct{ m, add layout.Metadata }{
		{nil, nil},
		{nil, keys(0, 3)},
		{keys(0, 3), nil},
		{keys(0, 3), keys(2, 5)},
		{keys(0, 8), keys(4, 12)},         // 16 together
		{keys(0, 8), keys(4, 13)},         // 17
		{keys(0, 100), keys(50, 1200)},    // replaces, appends, and has keys twice
		{keys(0, 1100), keys(1050, 1070)}, // the first of two is replaced
		{layout.Metadata{{Key: "o", Value: keys(0, 2)}}, layout.Metadata{{Key: "o", Value: keys(1, 3)}}},
	} {
		want, got := slices.Clone(tt.m), slices.Clone(tt.m)
		for k, v := range tt.add.All() {
			want.Set(k, v)
		}
		got.Merge(tt.add)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v and %v: %v, want %v", tt.m, tt.add, got, want)
		}
	}
}

func TestMetadataMarshalJSON(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		value any
		want  string
	}{
		{nil, `null`},
		{true, `true`},
		{"", `""`},
		{"<a href=\"x\">&</a>", `"<a href=\"x\">&</a>"`}, // not for HTML
		{"\x00\n\u2028é\xff", `"\u0000\n\u2028é\ufffd"`},
		{json.Number("1.10e+400"), `1.10e+400`},
		{int8(math.MinInt8), `-128`},
		{int16(math.MinInt16), `-32768`},
		{int32(math.MinInt32), `-2147483648`},
		{int64(math.MinInt64), `-9223372036854775808`},
		{uint8(math.MaxUint8), `255`},
		{uint16(math.MaxUint16), `65535`},
		{uint32(math.MaxUint32), `4294967295`},
		{uint64(math.MaxUint64), `18446744073709551615`},
		{float32(0.1), `0.1`}, // the shortest that reads back as the same float32
		{float32(math.MaxFloat32), `3.4028235e+38`},
		{float64(0.1), `0.1`},
		{math.SmallestNonzeroFloat64, `5e-324`},
		{math.Copysign(0, -1), `-0.0`},
		{nan, `"NaN"`}, {inf, `"Infinity"`}, {-inf, `"-Infinity"`},
		{float32(nan), `"NaN"`}, {float32(inf), `"Infinity"`}, {float32(-inf), `"-Infinity"`},
		{[]float32{1.5, float32(nan), float32(-inf)}, `[1.5,"NaN","-Infinity"]`},
		{[]float64{inf, 0.1}, `["Infinity",0.1]`},
		{[]float64{}, `[]`},
		{[]string{"a", "<", ""}, `["a","<",""]`},
		{[]string{}, `[]`},
		{[]json.Number{"1.10e+400", "-0"}, `[1.10e+400,-0]`},
		{[]bool{true, false}, `[true,false]`},
		{[]int8{-1, 2}, `[-1,2]`},
		{[]int16{-1}, `[-1]`}, {[]int32{-1}, `[-1]`}, {[]int64{-1}, `[-1]`},
		{[]uint8{1, 255}, `[1,255]`}, // no blob in base64
		{[]uint16{1}, `[1]`}, {[]uint32{1}, `[1]`}, {[]uint64{1}, `[1]`},
		{[]any{}, `[]`},
		{[]any{nan, nil, "<", []any{float32(inf)}, layout.Metadata{{Key: "k", Value: -inf}}},
			`["NaN",null,"<",["Infinity"],{"k":"-Infinity"}]`},
		{layout.Metadata{}, `{}`},
		{layout.Metadata(nil), `{}`},
		{layout.Metadata{{Key: "z", Value: 1}, {Key: "<\"\n", Value: 2}, {Key: "a", Value: layout.Metadata{{Key: "n", Value: nan}}}},
			`{"z":1,"<\"\n":2,"a":{"n":"NaN"}}`},
	}
	for _, tt := range tests {
		got, err := layout.Metadata{{Key: "v", Value: tt.value}}.MarshalJSON()
		if want := `{"v":` + tt.want + `}`; string(got) != want || err != nil {
			t.Errorf("%T %v: %s, %v, want %s", tt.value, tt.value, got, err, want)
		}
		if !json.Valid(got) {
			t.Errorf("%T %v: %s is not JSON", tt.value, tt.value, got)
		}
	}
}

func TestMetadataMarshalJSONError(t *testing.T) {
	for _, value := range []any{make(chan int), func() {}, json.Number("1x"), []json.Number{"1", "x"}, []any{make(chan int)}, layout.Metadata{{Value: complex(1, 2)}}} {
		if got, err := (layout.Metadata{{Key: "v", Value: value}}).MarshalJSON(); got != nil || err == nil {
			t.Errorf("%T: %s, %v, want an error", value, got, err)
		}
	}
}

// Metadata within a larger document keeps its order there.
func TestMetadataInJSON(t *testing.T) {
	doc := struct {
		Metadata layout.Metadata `json:"metadata"`
	}{layout.Metadata{{Key: "b", Value: uint8(1)}, {Key: "a", Value: []float32{float32(math.NaN())}}}}
	got, err := json.Marshal(doc)
	if want := `{"metadata":{"b":1,"a":["NaN"]}}`; string(got) != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestMarshalLong holds texts that are written in pieces against encoding/json.
func TestMarshalLong(t *testing.T) {
	var b strings.Builder
	for _, piece := range []string{"é", "\xe9", "\x80", "\xf0\x9f", "😀", `"\`, "\x00<&>\u2028"} {
		for shift := range 5 {
			s := strings.Repeat("a", 4096-shift) + strings.Repeat(piece, 3000)
			got, err := layout.Metadata{{Key: s, Value: []string{s, ""}}}.MarshalJSON()
			b.Reset()
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := errors.Join(err, enc.Encode(map[string][]string{s: {s, ""}})); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimSpace(b.String()); string(got) != want {
				t.Errorf("%q after %d bytes: %d bytes, want %d", piece, 4096-shift, len(got), len(want))
			}
		}
	}
	for _, v := range []any{[]string(nil), []json.Number(nil), []int8(nil), layout.Blob(nil), []bool{true, false}, []int64{-1, math.MinInt64}, json.Number("-0"), json.Number("10")} {
		want, _ := json.Marshal(map[string]any{"a": v})
		if got, err := (layout.Metadata{{Key: "a", Value: v}}).MarshalJSON(); err != nil || string(got) != string(want) {
			t.Errorf("%T: %s, %v, want %s", v, got, err, want)
		}
	}
	blob := layout.Blob(strings.Repeat("\x01\xfe", 5000))
	want, _ := json.Marshal(map[string][]byte{"a": blob})
	if got, _ := (layout.Metadata{{Key: "a", Value: blob}}).MarshalJSON(); string(got) != string(want) {
		t.Error("base64 differs")
	}
}

// TestNoJSON: a value that JSON does not have is an error, not a text.
func TestNoJSON(t *testing.T) {
	if text, err := layout.EncodeJSON(layout.Metadata{{Key: "a", Value: func() {}}}); err == nil {
		t.Errorf("a func has become %s", text)
	}
}
