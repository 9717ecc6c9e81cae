package apr2

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode. These fixtures gen_apr2.py has written.
var format = layouttest.Format[*File]{
	ID: layout.APR2, Decode: Decode, Dir: "../../testdata/apr2", Ext: ".apr", Least: 15, Promises: checkPromises,
}

// expected is what gen_apr2.py says about a fixture beside what descriptions have in common.
type expected struct {
	CRC32  uint32
	Header Header
	Flags  []string
}

func expectation(t testing.TB, name string) (want expected) {
	t.Helper()
	format.Description(t, name, &want)
	return want
}

func TestWitness(t *testing.T) {
	for _, x := range format.Fixtures(t) {
		t.Run(x.Name, func(t *testing.T) {
			f, want := format.MustDecode(t, x.Data), expectation(t, x.Name)
			ix := f.Index()
			if f.Header != want.Header || !slices.Equal(ix.Flags, want.Flags) {
				t.Errorf("header %+v, flags %v; want %+v, %v", f.Header, ix.Flags, want.Header, want.Flags)
			}
			if v := fmt.Sprintf("2.%d", want.Header.Minor); ix.Format != layout.APR2 || ix.Version != v || ix.Size != x.Want.Size {
				t.Errorf("%v version %s, %d bytes; want %s, %d", ix.Format, ix.Version, ix.Size, v, x.Want.Size)
			}
			layouttest.CheckTensors(t, f, x.Data, x.Want.Tensors)
			format.CheckMetadata(t, f, x.Data, x.Want.Metadata)
		})
	}
}

func TestWitnessChecksum(t *testing.T) {
	for _, x := range format.Fixtures(t) {
		sums, err := format.MustDecode(t, x.Data).Checksums(x.Data)
		if err != nil || len(sums) != 1 {
			t.Fatalf("%s: %v, %v", x.Name, sums, err)
		}
		want, end := expectation(t, x.Name).CRC32, x.Want.Size-16
		if s := sums[0]; s != (layout.Checksum{Field: "crc32", At: end, Offset: 0, Size: end, Want: want}) {
			t.Errorf("%s: %+v, want %#x over %d bytes", x.Name, s, want, end)
		}
		if right := crc32.ChecksumIEEE(x.Data[:end]) == want; right != (x.Name != "badcrc") {
			t.Errorf("%s: that the checksum is right is %t", x.Name, right)
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
	for _, x := range format.Fixtures(t) {
		if got := format.Found(t, x.Data); got != want[x.Name] {
			t.Errorf("%s: findings %q, want %q", x.Name, got, want[x.Name])
		}
	}
}

func TestWitnessScales(t *testing.T) {
	data := format.Read(t, "scaled")
	f := format.MustDecode(t, data)
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
			data := format.Read(t, name)
			f := format.MustDecode(t, data)
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

// firstDifference returns the first offset at which a and b differ, or at which the shorter ends.
func firstDifference(a, b []byte) (at int) {
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	return at
}

func rewrite(t testing.TB, f *File, data []byte, opts *Options, streamed bool) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, slices.Values(f.Index().Tensors), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range f.Index().Tensors {
		b := data[x.Offset:][:x.Stored]
		if streamed {
			err = writeFrom(w, iotest.OneByteReader(bytes.NewReader(b)))
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
