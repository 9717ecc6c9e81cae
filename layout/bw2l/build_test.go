package bw2l_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
)

// Files of tests are put together from these, in the words of the specification.

func u64(v uint64) string { return string(binary.LittleEndian.AppendUint64(nil, v)) }

func str8(s string) string { return string([]byte{byte(len(s))}) + s }

func str64(s string) string { return u64(uint64(len(s))) + s }

// file has the name "m", so that sections begin at offset 15.
func file(version byte, sections ...string) layout.Bytes {
	return layout.Bytes("BW2L" + string([]byte{version}) + str8("m") + u64(uint64(len(sections))) + strings.Join(sections, ""))
}

// section has a one-byte name in all tests that look at offsets: its data_length is then at
// 11 + len(kind) from its start, its data 8 bytes on.
func section(name, kind, data string) string {
	return str8(name) + str8(kind) + str64("") + str64(data)
}

// array has dims in version 2, that is where they are not nil.
func array(kind string, n uint64, dims []uint64, data string) string {
	s := str8(kind) + u64(n)
	if dims != nil {
		s += string([]byte{byte(len(dims))})
		for _, d := range dims {
			s += u64(d)
		}
	}
	return s + data
}

func layer1(arch string, scale float32, offset int64, arrays ...string) string {
	bits := string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(scale)))
	return str64(arch) + bits + u64(uint64(offset)) + u64(uint64(len(arrays))) + strings.Join(arrays, "")
}

func layer2(arch string, arrays ...string) string {
	return str64(arch) + u64(uint64(len(arrays))) + strings.Join(arrays, "")
}

func layers(all ...string) string { return u64(uint64(len(all))) + strings.Join(all, "") }

const fixtures = "../../testdata/bw2l"

func fixtureNames(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(fixtures + "/*.b2l")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d fixtures: %v", len(paths), err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), ".b2l")
	}
	return paths
}

func fixture(t testing.TB, name string) layout.Bytes {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixtures, name+".b2l"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustDecode(t testing.TB, in layout.Input) *bw2l.File {
	t.Helper()
	f, err := bw2l.Decode(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tryAll asks everything of a file that may be damaged: it must be right, or refused in good
// form.
func tryAll(t testing.TB, data layout.Bytes) *bw2l.File {
	t.Helper()
	f, err := bw2l.Decode(data, nil)
	if err != nil {
		checkForm(t, err)
		return nil
	}
	checkIndex(t, f.Index(), data)
	md, err := f.Metadata(data)
	if err != nil {
		checkForm(t, err)
	} else if _, err := md.MarshalJSON(); err != nil {
		t.Error(err)
	}
	if _, err := f.Summary(data); err != nil {
		checkForm(t, err)
	}
	failed := slices.ContainsFunc(f.Audit(data), func(x layout.Finding) bool { return !x.Warning })
	if failed != (err != nil) {
		t.Errorf("that Audit fails is %t, but Metadata says %v", failed, err)
	}
	if sums, err := f.Checksums(data); sums != nil || err != nil {
		t.Errorf("Checksums are %v, %v", sums, err)
	}
	return f
}

func checkForm(t testing.TB, err error) {
	t.Helper()
	var fe *layout.FormatError
	if !errors.As(err, &fe) || fe.Format != layout.BW2L || fe.Field == "" || fe.Reason == "" || fe.Err == nil {
		t.Errorf("error of bad form: %v", err)
	}
}

// checkIndex makes sure of what an Index promises without a line of layout's checks.
func checkIndex(t testing.TB, ix *layout.Index, data []byte) {
	t.Helper()
	type span struct {
		off, end uint64
		what     string
	}
	var spans []span
	for _, s := range ix.Sections {
		spans = append(spans, span{s.Offset, s.Offset + s.Size, "section " + s.Name})
	}
	names := map[string]bool{}
	for i, x := range ix.Tensors {
		if names[string(x.Name)] || ix.Find(string(x.Name)) != i {
			t.Errorf("tensor %d: %q is not found, or another has its name", i, x.Name)
		}
		names[string(x.Name)] = true
		n := uint64(1)
		for _, d := range x.Shape {
			n *= d
		}
		if n*uint64(x.DType.BlockBytes()) != x.Raw || x.Stored != x.Raw || x.Encoding != layout.Raw || len(x.Shape) == 0 {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if x.Scaled && (x.Quant.Scale == 0 || x.Quant.Scale != x.Quant.Scale || x.DType.Kind() != layout.KindInt) {
			t.Errorf("tensor %d: %+v", i, x)
		}
		spans = append(spans, span{x.Offset, x.Offset + x.Stored, fmt.Sprintf("tensor %d", i)})
	}
	slices.SortStableFunc(spans, func(a, b span) int { return int(a.off) - int(b.off) })
	end := uint64(15)
	for _, s := range spans {
		if s.off < end || s.end < s.off || s.end > uint64(len(data)) {
			t.Errorf("%s is [%d, %d) of %d, behind what ends at %d", s.what, s.off, s.end, len(data), end)
		}
		end = s.end
	}
}
