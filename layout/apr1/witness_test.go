package apr1

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

const fixtures = "../../testdata/apr1"

// expected is what the program that wrote a fixture, or its reader, says of it.
type expected struct {
	Size     uint64
	Version  string
	Metadata json.RawMessage
	Tensors  []struct {
		Name, DType, Encoding string
		Shape                 []uint64
		Offset, Stored, Raw   uint64
		Scale                 *float64
		StoredSHA256          string `json:"stored_sha256"`
	}
	Verify   string
	Findings []string
	Error    *struct {
		Field  string
		Offset uint64
	}
	// The values that a Rust writer was given for each tensor.
	Given []string `json:"given_f32_hex"`
}

// fixtureNames are those of the files that are read, or of those that are refused.
func fixtureNames(t testing.TB, refused bool) []string {
	t.Helper()
	paths, err := filepath.Glob(fixtures + "/*.apr")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d fixtures: %v", len(paths), err)
	}
	var names []string
	for _, p := range paths {
		name := strings.TrimSuffix(filepath.Base(p), ".apr")
		if (expectation(t, name).Error != nil) == refused {
			names = append(names, name)
		}
	}
	return names
}

func fixture(t testing.TB, name string) layout.Bytes {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixtures, name+".apr"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func expectation(t testing.TB, name string) (want expected) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	return want
}

func mustDecode(t testing.TB, in layout.Input) *File {
	t.Helper()
	f, err := Decode(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.(*File)
}

func TestWitnessIndex(t *testing.T) {
	for _, name := range fixtureNames(t, false) {
		t.Run(name, func(t *testing.T) {
			data, want := fixture(t, name), expectation(t, name)
			ix := mustDecode(t, data).Index()
			if ix.Format != layout.APR1 || ix.Version != want.Version || ix.Size != want.Size || len(ix.Tensors) != len(want.Tensors) {
				t.Fatalf("%v %s, %d bytes, %d tensors; want %s, %d, %d", ix.Format, ix.Version, ix.Size, len(ix.Tensors), want.Version, want.Size, len(want.Tensors))
			}
			for i, w := range want.Tensors {
				got := ix.Tensors[i]
				if string(got.Name) != w.Name || got.DType.String() != w.DType || got.Encoding.String() != w.Encoding ||
					!slices.Equal(got.Shape, w.Shape) || got.Offset != w.Offset || got.Stored != w.Stored || got.Raw != w.Raw {
					t.Errorf("tensor %d: got %+v, want %+v", i, got, w)
					continue
				}
				if got.Scaled != (w.Scale != nil) || got.Scaled && got.Quant != (layout.Quant{Scale: float32(*w.Scale)}) {
					t.Errorf("tensor %q: scaled %t by %v", w.Name, got.Scaled, got.Quant)
				}
				sum := sha256.Sum256(data[got.Offset:][:got.Stored])
				if hex.EncodeToString(sum[:]) != w.StoredSHA256 {
					t.Errorf("tensor %q: stored bytes differ", w.Name)
				}
				if ix.Find(w.Name) != i {
					t.Errorf("Find(%q) = %d, want %d", w.Name, ix.Find(w.Name), i)
				}
			}
		})
	}
}

func TestWitnessMetadata(t *testing.T) {
	for _, name := range fixtureNames(t, false) {
		data, want := fixture(t, name), expectation(t, name)
		md, err := mustDecode(t, data).Metadata(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := md.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := parseJSON(t, b), parseJSON(t, want.Metadata); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: metadata %s, want %s", name, b, want)
		}
	}
}

// parseJSON parses metadata, with the filterbank as the binary32 that its decimals stand
// for: programs write these in different ways.
func parseJSON(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var md map[string]any
	if err := json.Unmarshal(b, &md); err != nil {
		t.Fatal(err)
	}
	values, _ := md["mel_filterbank"].([]any)
	for i, v := range values {
		if x, ok := v.(float64); ok {
			values[i] = float32(x)
		}
	}
	return md
}

func TestWitnessVerify(t *testing.T) {
	for _, name := range fixtureNames(t, false) {
		data, want := fixture(t, name), expectation(t, name)
		f := mustDecode(t, data)
		var got []string
		for _, finding := range f.Audit(data) {
			got = append(got, finding.Field)
			if !finding.Warning {
				t.Errorf("%s: %v", name, finding)
			}
		}
		sums, err := f.Checksums(data)
		end := want.Size - 4
		if err != nil || len(sums) != 1 || sums[0] != (layout.Checksum{Field: "crc32", At: end, Size: end, Want: le.Uint32(data[end:])}) {
			t.Fatalf("%s: %+v, %v", name, sums, err)
		}
		if right := crc32.ChecksumIEEE(data[:end]) == sums[0].Want; !right {
			got = append(got, "crc32")
		}
		if !slices.Equal(got, want.Findings) || slices.Contains(got, "crc32") != (want.Verify == "fail") {
			t.Errorf("%s: findings %q, want %q and to %s", name, got, want.Findings, want.Verify)
		}
	}
}

func TestWitnessRefused(t *testing.T) {
	names := fixtureNames(t, true)
	if len(names) < 20 {
		t.Errorf("only %d", len(names))
	}
	for _, name := range names {
		want := expectation(t, name).Error
		_, err := Decode(fixture(t, name), nil)
		var fe *layout.FormatError
		if !errors.As(err, &fe) || fe.Field != want.Field || fe.Offset != want.Offset {
			t.Errorf("%s: %v, want %s at %d", name, err, want.Field, want.Offset)
		}
	}
}

// TestWitnessEncode writes again what other programs have written, and compares every byte.
func TestWitnessEncode(t *testing.T) {
	for _, name := range []string{"whisper_f32", "whisper_bare", "whisper_int8", "whisper_mel80", "f32", "f16", "int8", "merges", "novocab", "filterbank", "nofilterbank"} {
		t.Run(name, func(t *testing.T) {
			data := fixture(t, name)
			f := mustDecode(t, data)
			if got := rewrite(t, f, data, nil); !bytes.Equal(got, asWritten(name, data)) {
				t.Errorf("differs from byte %d on", firstDifference(got, data))
			}
		})
	}
}

// TestWitnessQuantize gives the writer the values that the Rust writer was given, and
// compares every byte, scales too.
func TestWitnessQuantize(t *testing.T) {
	for _, name := range []string{"whisper_f32", "whisper_int8"} {
		data, given := fixture(t, name), expectation(t, name).Given
		if len(given) == 0 {
			t.Fatalf("%s: the values are not there", name)
		}
		f := mustDecode(t, data)
		var values [][]float32
		for _, text := range given {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, floats(b))
		}
		if got := rewrite(t, f, data, values); !bytes.Equal(got, asWritten(name, data)) {
			t.Errorf("%s: differs from byte %d on", name, firstDifference(got, data))
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

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
