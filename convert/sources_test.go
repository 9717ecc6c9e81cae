package convert_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// typed makes a value of GGUF again of its JSON, its type and, where it is text that is not
// UTF-8, its bytes.
func typed(t *testing.T, v, kind, raw any) any {
	t.Helper()
	kindName, _ := kind.(string)
	elem, isArray := strings.CutPrefix(strings.TrimSuffix(kindName, "]"), "[")
	switch {
	case isArray:
		out := sliceOf(elem)
		for _, e := range list(v) {
			out = reflect.Append(out, reflect.ValueOf(typed(t, e, elem, nil)))
		}
		return out.Interface()
	case kindName != "" && kindName != "bool" && kindName != "string":
		return number(t, fmt.Sprint(v), kindName)
	}
	if texts, ok := layout.As[[]string](v); ok {
		out := append([]string{}, texts...)
		positions, _ := raw.(layout.Metadata)
		for key, b := range positions.All() {
			i, err := strconv.Atoi(key)
			if err != nil {
				t.Fatal(err)
			}
			out[i] = string(decoded(t, b))
		}
		return out
	}
	if raw != nil {
		return string(decoded(t, raw))
	}
	return v
}

func decoded(t *testing.T, v any) []byte {
	b, err := base64.StdEncoding.DecodeString(v.(string))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func list(v any) (all []any) {
	if all, ok := layout.As[[]any](v); ok {
		return all
	}
	for i := range reflect.ValueOf(v).Len() {
		all = append(all, reflect.ValueOf(v).Index(i).Interface())
	}
	return all
}

var goTypes = map[string]any{
	"u8": uint8(0), "i8": int8(0), "u16": uint16(0), "i16": int16(0), "u32": uint32(0), "i32": int32(0),
	"u64": uint64(0), "i64": int64(0), "f32": float32(0), "f64": float64(0), "bool": false, "string": "",
}

func sliceOf(kind string) reflect.Value {
	return reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(goTypes[kind])), 0, 0)
}

func number(t *testing.T, text, kind string) any {
	v := reflect.New(reflect.TypeOf(goTypes[kind])).Elem()
	var err error
	switch bits := v.Type().Bits(); kind[0] {
	case 'u':
		var n uint64
		n, err = strconv.ParseUint(text, 10, bits)
		v.SetUint(n)
	case 'i':
		var n int64
		n, err = strconv.ParseInt(text, 10, bits)
		v.SetInt(n)
	case 'f':
		var f float64
		f, err = strconv.ParseFloat(text, bits)
		v.SetFloat(f)
	}
	if err != nil {
		t.Error(err)
	}
	return v.Interface()
}

// same is equality to which a NaN is one like any other, and -0 is not 0.
func same(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && fmt.Sprintf("%v", a) == fmt.Sprintf("%v", b) && negativeZeros(a) == negativeZeros(b)
}

// negativeZeros shows which floats are -0, as fmt does not always.
func negativeZeros(v any) string {
	var s []string
	switch v := v.(type) {
	case []float32:
		for _, f := range v {
			s = append(s, fmt.Sprint(math.Signbit(float64(f)) && f == 0))
		}
	case []float64:
		for _, f := range v {
			s = append(s, fmt.Sprint(math.Signbit(f) && f == 0))
		}
	case float32:
		return negativeZeros([]float32{v})
	case float64:
		return negativeZeros([]float64{v})
	}
	return strings.Join(s, " ")
}

// TestGGUFValues: every value of every GGUF fixture, and its type, comes out of the APR2 file.
func TestGGUFValues(t *testing.T) {
	values := 0
	for path, m := range allFixtures(t) {
		if m.Format() != layout.GGUF {
			continue
		}
		out, _ := toAPR2(t, m, nil)
		values += checkTyped(t, path, metadata(t, out), metadata(t, m))
	}
	if values < 100 {
		t.Errorf("only %d values", values)
	}
}

func checkTyped(t *testing.T, path string, got, want layout.Metadata) (n int) {
	t.Helper()
	for key, value := range want.All() {
		if strings.HasPrefix(key, "split.") { // true of the files of the source alone
			if _, ok := got.Get("gguf", key); ok {
				t.Errorf("%s: %s is still there", path, key)
			}
			continue
		}
		v, ok := got.Get("gguf", key)
		kind, _ := got.Get("gguf_types", key)
		raw, _ := got.Get("gguf_bytes", key)
		if b, isBools := value.([]bool); isBools && len(b) > 0 && kind != "[bool]" || !ok {
			t.Errorf("%s: %s: type %v", path, key, kind)
			continue
		}
		is := typed(t, v, kind, raw)
		if _, nested := value.([]any); nested {
			is, value = asJSON(t, layout.Metadata{{Key: key, Value: is}}), asJSON(t, layout.Metadata{{Key: key, Value: value}})
		}
		if !same(is, value) {
			t.Errorf("%s: %s: %T %.100v, want %T %.100v", path, key, is, is, value, value)
		}
		n++
	}
	return n
}

// ggufFile assembles a file without tensors from the description of the format; a value is its
// type's number and its bytes.
func ggufFile(pairs ...string) []byte {
	le := binary.LittleEndian
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, uint64(len(pairs)/2))
	for i := 0; i < len(pairs); i += 2 {
		b = append(append(b, ggufString(pairs[i])...), pairs[i+1]...)
	}
	return b
}

func ggufString(s string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(s)))) + s
}

// TestGGUFBytes: strings that JSON cannot hold, floats on the edge.
func TestGGUFBytes(t *testing.T) {
	text := func(s string) string { return "\x08\x00\x00\x00" + ggufString(s) }
	m := openBytes(t, ggufFile(
		"general.architecture", text("llama"),
		"llama.block_count", "\x04\x00\x00\x00\x20\x00\x00\x00",
		"llama.rope.freq_base", "\x06\x00\x00\x00\x00\x40\x1c\x46",
		"llamas", text("other"),
		"latin1", text("caf\xe9"),
		"fffd", text("\ufffd"),
		"tokenizer.ggml.tokens", "\x09\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00"+ggufString("a")+ggufString("\xff\xfe")+ggufString(""),
		"negative zero", "\x06\x00\x00\x00\x00\x00\x00\x80",
		"tiny", "\x0c\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
	))
	out, _ := toAPR2(t, m, nil)
	md := metadata(t, out)
	checkTyped(t, "assembled", md, metadata(t, m))
	want := `{"apr_version":"2.0.0","model_type":"llama","architecture":{"block_count":32,"rope.freq_base":10000},` +
		`"vocab":["a","` + "\ufffd\ufffd" + `",""],"gguf":{"general.architecture":"llama","llama.block_count":32,"llama.rope.freq_base":10000,` +
		`"llamas":"other","latin1":"caf` + "\ufffd" + `","fffd":"` + "\ufffd" + `","tokenizer.ggml.tokens":["a","` + "\ufffd\ufffd" + `",""],"negative zero":-0.0,"tiny":5e-324},` +
		`"gguf_types":{"llama.block_count":"u32","llama.rope.freq_base":"f32","negative zero":"f32","tiny":"f64"},` +
		`"gguf_bytes":{"latin1":"Y2Fm6Q==","tokenizer.ggml.tokens":{"1":"//4="}}}`
	if got := asJSON(t, md); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if v, _ := md.Get("gguf", "fffd"); v != "\ufffd" {
		t.Errorf("%q", v)
	}
}

// TestSourceMetadata: what other formats say is there as inspect --json shows it.
func TestSourceMetadata(t *testing.T) {
	for path, m := range allFixtures(t) {
		switch m.Format() {
		case layout.TSM, layout.BW2L, layout.April:
		default:
			continue
		}
		out, _ := toAPR2(t, m, nil)
		v, _ := metadata(t, out).Get(m.Format().String())
		got, ok := v.(layout.Metadata)
		if want := metadata(t, m); len(want) > 0 && !ok || asJSON(t, got) != asJSON(t, want) {
			t.Errorf("%s: %s, want %s", path, asJSON(t, got), asJSON(t, want))
		}
	}
	m := open(t, "../testdata/bw2l/odd.b2l", nil)
	out, _ := toAPR2(t, m, nil)
	md := metadata(t, out)
	blob, _ := metadata(t, m).Get("future")
	v, _ := md.Get("bw2l", "future")
	if kind, _ := md.Get("bw2l_types", "future"); kind != "bytes" || string(decoded(t, v)) != string(blob.(layout.Blob)) {
		t.Errorf("%v %v", kind, v)
	}
	april := open(t, "../testdata/april/streaming.april", nil)
	out, _ = toAPR2(t, april, nil)
	md = metadata(t, out)
	rate, _ := md.Get("architecture", "samplerate")
	if want, _ := metadata(t, april).Get("params", "samplerate"); fmt.Sprint(rate) != fmt.Sprint(want) || rate == nil {
		t.Errorf("samplerate %v, want %v", rate, want)
	}
	v, _ = md.Get("vocab")
	vocab, _ := layout.As[[]string](v)
	if want, _ := metadata(t, april).Get("params", "tokens"); !reflect.DeepEqual(any(vocab), want) || len(vocab) == 0 {
		t.Errorf("vocab %v", vocab)
	}
}

// TestAPR1Metadata: what has a place in APR2 goes there, and the rest is under apr1.
func TestAPR1Metadata(t *testing.T) {
	for name, want := range map[string]string{
		"merges.apr": `{"apr_version":"2.0.0","model_type":"whisper","architecture":{"name":"tiny","n_vocab":51865,"n_audio_ctx":1500,` +
			`"n_audio_state":384,"n_audio_head":6,"n_audio_layer":4,"n_text_ctx":448,"n_text_state":384,"n_text_head":6,"n_text_layer":4,"n_mels":80},` +
			`"vocab":["a"],"apr1":{"version":1,"quantization":"f32","compressed":false,"merges":[["` + "\ufffd\ufffd" + `","` + "\ufffd" + `"],["",""]],` +
			`"vocab_bytes":"AQAAAAIAAAABAGECAOOBAQCCAAAAAA=="},"apr1_types":{"vocab_bytes":"bytes"}}`,
		"json_whisper.apr": `{"apr_version":"2.0.0","model_type":"whisper-tiny","architecture":{"n_mels":2},` +
			`"mel_filterbank":[-0.10843373835086823,0.1325301229953766,0.5421686768531799,1.1204819679260254,-1.1566264629364014,-0.2409638613462448],` +
			`"mel_filterbank_shape":[2,3],"vocab":["\u003c|endoftext|\u003e","é","Ġworld"],"apr1":{"nested":{"a":[1,2.5,null,true,{"b":"c"}]}},` +
			`"original_tensors":{"scalar":{"shape":[]}}}`,
	} {
		m := open(t, filepath.Join("../testdata/apr1", name), nil)
		out, _ := toAPR2(t, m, nil)
		if got := asJSON(t, metadata(t, out)); got != want {
			t.Errorf("%s: %s, want\n%s", name, got, want)
		}
	}
}

// TestManyTokens: a vocabulary as large as those of today's models.
func TestManyTokens(t *testing.T) {
	if testmode.Brief() {
		t.Skip("much metadata, one goroutine")
	}
	const n = 128_256
	tokens := "\x09\x00\x00\x00\x08\x00\x00\x00" + string(binary.LittleEndian.AppendUint64(nil, n))
	scores := "\x09\x00\x00\x00\x06\x00\x00\x00" + string(binary.LittleEndian.AppendUint64(nil, n))
	var text, floats strings.Builder
	for i := range n {
		text.WriteString(ggufString(fmt.Sprintf("Ġtoken%d", i)))
		floats.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(-float32(i)/3)))
	}
	m := openBytes(t, ggufFile("general.architecture", "\x08\x00\x00\x00"+ggufString("llama"),
		"tokenizer.ggml.tokens", tokens+text.String(), "tokenizer.ggml.scores", scores+floats.String()))
	out, _ := toAPR2(t, m, nil)
	checkTyped(t, "many", metadata(t, out), metadata(t, m))
	safe, _ := toSafeTensors(t, m, nil)
	v, _ := metadata(t, safe).Get("apr2.vocab")
	var vocab []string
	if err := json.Unmarshal([]byte(v.(string)), &vocab); err != nil || len(vocab) != n || vocab[n-1] != "Ġtoken128255" {
		t.Errorf("%d tokens, %v", len(vocab), err)
	}
}

// TestPackedOneByOne: of tensors that have to be unpacked, one is in memory at a time.
func TestPackedOneByOne(t *testing.T) {
	for _, dtype := range []layout.DType{layout.Invalid, layout.F16} {
		m := open(t, "../testdata/april/dtypes.april", &loader.Options{CacheBytes: -1})
		var largest, sum, most uint64
		for x := range m.Tensors() {
			if x.Encoding() == layout.Protobuf {
				largest = max(largest, x.RawBytes())
				sum += x.RawBytes()
			}
		}
		toAPR2(t, m, &convert.Options{DType: dtype, PlainF8: true, Progress: func(uint64, uint64) {
			most = max(most, m.Stats().HeapBytes)
		}})
		if most == 0 || most > largest || sum <= largest {
			t.Errorf("to %v: %d bytes in memory, where the largest tensor has %d, and all have %d", dtype, most, largest, sum)
		}
	}
}
