package apr1

import (
	"bytes"
	"encoding/hex"
	"hash/crc32"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode. What is said of the fixtures has the program
// that wrote them said, or its reader.
var format = layouttest.Format[*File]{
	ID: layout.APR1, Decode: Decode, Dir: "../../testdata/apr1", Ext: ".apr", Least: 50,
	Normal: binary32, Promises: checkPromises,
}

// binary32 takes the filterbank for the numbers that its decimals stand for: programs write
// these in different ways.
func binary32(metadata any) {
	values, _ := metadata.(map[string]any)["mel_filterbank"].([]any)
	for i, v := range values {
		if x, ok := v.(*big.Rat); ok {
			values[i], _ = x.Float32()
		}
	}
}

func fixture(t testing.TB, name string) layout.Bytes { return format.Read(t, name) }

func mustDecode(t testing.TB, in layout.Input) *File { return format.MustDecode(t, in) }

func TestWitness(t *testing.T) {
	format.Witness(t, func(t *testing.T, f *File, data layout.Bytes, _ string) {
		sums, err := f.Checksums(data)
		end := data.Size() - 4
		if err != nil || len(sums) != 1 || sums[0] != (layout.Checksum{Field: "crc32", At: end, Size: end, Want: le.Uint32(data[end:])}) {
			t.Errorf("%+v, %v", sums, err)
		}
	})
}

// TestWitnessEncode writes again what other programs have written, and compares every byte.
func TestWitnessEncode(t *testing.T) {
	for _, name := range []string{"whisper_f32", "whisper_bare", "whisper_int8", "whisper_mel80", "f32", "f16", "int8", "merges", "novocab", "filterbank", "nofilterbank"} {
		t.Run(name, func(t *testing.T) {
			data := fixture(t, name)
			f := mustDecode(t, data)
			if got := rewrite(t, f, data, nil); !bytes.Equal(got, asWritten(name, data)) {
				t.Errorf("differs from byte %d on", layouttest.FirstDifference(got, data))
			}
		})
	}
}

// TestWitnessQuantize gives the writer the values that the Rust writer was given, and
// compares every byte, scales too.
func TestWitnessQuantize(t *testing.T) {
	for _, name := range []string{"whisper_f32", "whisper_int8"} {
		var want struct {
			Given []string `json:"given_f32_hex"` // for each tensor
		}
		if format.Description(t, name, &want); len(want.Given) == 0 {
			t.Fatalf("%s: the values are not there", name)
		}
		data := fixture(t, name)
		f := mustDecode(t, data)
		var values [][]float32
		for _, text := range want.Given {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, floats(b))
		}
		if got := rewrite(t, f, data, values); !bytes.Equal(got, asWritten(name, data)) {
			t.Errorf("%s: differs from byte %d on", name, layouttest.FirstDifference(got, data))
		}
	}
}

func floats(b []byte) []float32 {
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(le.Uint32(b[4*i:]))
	}
	return values
}

// asWritten is data as the Writer has it, which neither fills fields that it ignores nor cuts names.
func asWritten(name string, data layout.Bytes) layout.Bytes {
	out := slices.Clone(data)
	if name == "f32" {
		clear(out[headSize+3*entrySize+inDims+1:][:7])   // reserved
		clear(out[headSize+6*entrySize+inShape+4:][:12]) // unused dimensions
	}
	if strings.HasPrefix(name, "whisper_") && name != "whisper_mel80" {
		out[headSize+4*entrySize+46] = 0 // the half of a character
	}
	end := len(out) - crcSize
	le.PutUint32(out[end:], crc32.ChecksumIEEE(out[:end]))
	return out
}

// rewrite writes the tensors of data, or values in their place.
func rewrite(t testing.TB, f *File, data layout.Bytes, values [][]float32) layout.Bytes {
	t.Helper()
	v, err := f.Vocabulary(data)
	if err != nil {
		t.Fatal(err)
	}
	fb, err := f.Filterbank(data)
	if err != nil {
		t.Fatal(err)
	}
	tensors := slices.Clone(f.Index().Tensors[:f.Header.Tensors])
	for i := range tensors {
		tensors[i].Name = bytes.TrimSuffix(tensors[i].Name, []byte("\uFFFD"))
		if values != nil {
			tensors[i].Quant.Scale = Scale(values[i])
		}
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, tensors, &Options{ModelType: f.Header.ModelType, Dimensions: f.Header.Dimensions, Vocabulary: v, Filterbank: fb})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range tensors {
		if values != nil {
			err = w.WriteValues(values[i])
		} else {
			err = w.WriteTensor(data[x.Offset:][:x.Stored])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || w.Size() != uint64(out.Len()) {
		t.Fatalf("%v; Size is %d, but %d bytes were written", err, w.Size(), out.Len())
	}
	return out.Bytes()
}
