package apr2

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensormap/tensormap/layout"
)

const fixtures = "../../testdata/apr2"

// expected is what gen_apr2.py, which wrote the fixtures, says about one.
type expected struct {
	Size     uint64
	CRC32    uint32
	Header   Header
	Flags    []string
	Metadata json.RawMessage
	Tensors  []struct {
		Name, DType, Encoding string
		Shape                 []uint64
		Offset, Stored, Raw   uint64
		StoredSHA256          string `json:"stored_sha256"`
	}
}

func fixtureNames(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(fixtures + "/*.apr")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), ".apr")
	}
	return paths
}

func fixture(t testing.TB, name string) layout.Bytes {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixtures, name+".apr"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func expectation(t *testing.T, name string) (want expected) {
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
	for _, name := range fixtureNames(t) {
		t.Run(name, func(t *testing.T) {
			data, want := fixture(t, name), expectation(t, name)
			f := mustDecode(t, data)
			if f.Header != want.Header {
				t.Errorf("header %+v, want %+v", f.Header, want.Header)
			}
			ix := f.Index()
			if v := fmt.Sprintf("2.%d", want.Header.Minor); ix.Version != v || ix.Size != want.Size || !slices.Equal(ix.Flags, want.Flags) {
				t.Errorf("version %s, size %d, flags %v, want %s, %d, %v", ix.Version, ix.Size, ix.Flags, v, want.Size, want.Flags)
			}
			if len(ix.Tensors) != len(want.Tensors) {
				t.Fatalf("%d tensors, want %d", len(ix.Tensors), len(want.Tensors))
			}
			for i, w := range want.Tensors {
				got := ix.Tensors[i]
				if string(got.Name) != w.Name || got.DType.String() != w.DType || got.Encoding.String() != w.Encoding ||
					!slices.Equal(got.Shape, w.Shape) || got.Offset != w.Offset || got.Stored != w.Stored || got.Raw != w.Raw {
					t.Errorf("tensor %d: got %+v, want %+v", i, got, w)
					continue
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
	for _, name := range fixtureNames(t) {
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
		var got, exp any
		if json.Unmarshal(b, &got) != nil || json.Unmarshal(want.Metadata, &exp) != nil || !reflect.DeepEqual(got, exp) {
			t.Errorf("%s: metadata %s, want %s", name, b, want.Metadata)
		}
	}
}

func TestWitnessChecksum(t *testing.T) {
	for _, name := range fixtureNames(t) {
		data, want := fixture(t, name), expectation(t, name)
		sums, err := mustDecode(t, data).Checksums(data)
		if err != nil || len(sums) != 1 {
			t.Fatalf("%s: %v, %v", name, sums, err)
		}
		end := want.Size - 16
		if s := sums[0]; s != (layout.Checksum{Field: "crc32", At: end, Offset: 0, Size: end, Want: want.CRC32}) {
			t.Errorf("%s: %+v, want %#x over %d bytes", name, s, want.CRC32, end)
		}
		if right := crc32.ChecksumIEEE(data[:end]) == want.CRC32; right != (name != "badcrc") {
			t.Errorf("%s: that the checksum is right is %t", name, right)
		}
	}
}

func TestWitnessAudit(t *testing.T) {
	want := map[string]string{
		"odd":         "flags@8",
		"nometadata":  "apr_version@32 model_type@32 architecture@32",
		"unaligned":   "offset@536 offset@548 offset@556 offset@561 offset@567 offset@579 offset@603",
		"flagliar":    "flags@8 architecture@32",
		"gap":         "padding@648 padding@1220",
		"misaligned":  "!offset@578 !offset@708",
		"badmagicend": "!magic_end@968",
		"badfilesize": "!file_size@972",
	}
	for _, name := range fixtureNames(t) {
		data := fixture(t, name)
		if got := findings(t, data); got != want[name] {
			t.Errorf("%s: findings %q, want %q", name, got, want[name])
		}
	}
}

// findings shows what Audit finds as field@offset, failures with a "!".
func findings(t testing.TB, in layout.Input) string {
	var got []string
	for _, f := range mustDecode(t, in).Audit(in) {
		mark := "!"
		if f.Warning {
			mark = ""
		}
		got = append(got, fmt.Sprintf("%s%s@%d", mark, f.Field, f.Offset))
	}
	return strings.Join(got, " ")
}

func TestWitnessScales(t *testing.T) {
	data := fixture(t, "scaled")
	f := mustDecode(t, data)
	md, err := f.Metadata(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Scales(md)
	want := map[string]layout.Quant{"w": {Scale: 0.1, Zero: -3}, "v": {Scale: 2.5e-3}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// TestWitnessEncode writes what the script has assembled, and compares every byte.
func TestWitnessEncode(t *testing.T) {
	for name, opts := range map[string]Options{
		"tiny":      {},
		"shapes":    {Align: 64},
		"aligned32": {Align: 32},
		"extension": {},
		"scaled":    {},
		"notensors": {Flags: Sharded | Streaming},
	} {
		t.Run(name, func(t *testing.T) {
			data := fixture(t, name)
			f := mustDecode(t, data)
			var err error
			if opts.Metadata, err = f.Metadata(data); err != nil {
				t.Fatal(err)
			}
			for _, streamed := range []bool{false, true} {
				if got := rewrite(t, f, data, &opts, streamed); !bytes.Equal(got, data) {
					t.Errorf("streamed=%t: differs from byte %d on", streamed, firstDifference(got, data))
				}
			}
		})
	}
}

func rewrite(t testing.TB, f *File, data []byte, opts *Options, streamed bool) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, f.Index().Tensors, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range f.Index().Tensors {
		b := data[x.Offset:][:x.Stored]
		if streamed {
			err = w.WriteTensorFrom(iotest.OneByteReader(bytes.NewReader(b)))
		} else {
			err = w.WriteTensor(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != uint64(out.Len()) {
		t.Errorf("Size is %d, but %d bytes were written", w.Size(), out.Len())
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
