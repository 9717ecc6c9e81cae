package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/slice"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/loader"
)

// slicesCase is what NumPy makes of one slice; see testdata/gen_slices.py.
type slicesCase struct {
	Shape  []int
	Slice  string
	Result []int
	Values []int32 // nil where NumPy refuses
}

func TestSlicesOfNumPy(t *testing.T) {
	text, err := os.ReadFile("testdata/slices.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []slicesCase
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 500 {
		t.Fatalf("%d cases (%v)", len(cases), err)
	}
	files := make(map[string]string)
	for _, c := range cases {
		key := fmt.Sprint(c.Shape)
		if files[key] == "" {
			files[key] = modeltest.CountingInts(t, c.Shape)
		}
		r := tensormap("dump", files[key], "x["+c.Slice+"]", "--as", "npy")
		if c.Values == nil {
			if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "x["+c.Slice+"]: ") {
				t.Errorf("%v[%s]: %+v, but NumPy refuses", c.Shape, c.Slice, r)
			}
			continue
		}
		want := slice.NumPyHeader("<i4", c.Result)
		for _, v := range c.Values {
			want = binary.LittleEndian.AppendUint32(want, uint32(v))
		}
		if r.status != exitDone || r.stdout != string(want) {
			t.Errorf("%v[%s]: %+v, want %v of %v", c.Shape, c.Slice, r, c.Values, c.Result)
		}
	}
}

// A slice of any encoding and type is what the whole has there.
func TestSliceOfFixtures(t *testing.T) {
	if testmode.Brief() {
		t.Skip("thousands of runs of dump, one after the other")
	}
	modeltest.EveryFixture(t, "../../testdata", openFixture, func(t *testing.T, path string) {
		m, err := loader.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		left := 12
		for x := range m.Tensors() {
			if left--; left < 0 {
				break
			}
			checkSlice(t, path, x)
		}
	})
}

// checkSlice compares the middle of x's rows with the same of the whole.
func checkSlice(t *testing.T, path string, x loader.Tensor) {
	shape := x.Shape()
	if len(shape) == 0 || len(shape) > 8 || x.Elements() == 0 || x.Elements() > 1<<12 || strings.HasPrefix(x.Name(), "-") {
		return
	}
	inner := shape[len(shape)-1]
	from, to := inner/3, inner-inner/4
	name := fmt.Sprintf("%s[..., %d:%d]", x.Name(), from, to)
	for _, as := range []string{"f32", "raw"} {
		size := 4
		if as == "raw" {
			size = x.DType().BlockBytes()
		}
		all := tensormap("dump", path, x.Name(), "--as", as)
		got := tensormap("dump", path, name, "--as", as)
		if as == "raw" && (x.DType().Quantized() || x.DType().BlockElems() != 1) {
			got.failsWith(t, "packs elements together", "--as f32")
			continue
		}
		if all.status != exitDone {
			if got.status != all.status || got.stdout != "" {
				t.Errorf("%s as %s: %+v, but the whole is %+v", name, as, got, all)
			}
			continue
		}
		var want strings.Builder
		for row := range int(x.Elements()) / inner {
			want.WriteString(all.stdout[(row*inner+from)*size : (row*inner+to)*size])
		}
		if got.stdout != want.String() || got.status != exitDone {
			t.Errorf("%s as %s: %q (%d), want %q", name, as, got.stdout, got.status, want.String())
		}
	}
}

// dumps wants the output that dump has for tensors of file.
func dumps(t *testing.T, file, as string, want map[string]string) {
	t.Helper()
	for name, want := range want {
		if got := done(t, "dump", file, name, "--as", as); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestSliceNames(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"a[0]":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},`+
		`"b[":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"":{"dtype":"U8","shape":[1],"data_offsets":[6,7]}}`, 1, 2, 3, 4, 5, 6, 7)
	dumps(t, file, "raw", map[string]string{
		"a[0]":    "\x01\x02", // its very name
		"a[0][1]": "\x02",
		"a[1]":    "\x04",
		"a[]":     "\x03\x04",
		"a[...]":  "\x03\x04",
		"b[":      "\x05\x06",
		"b[[1]":   "\x06",
		"[0]":     "\x07",
	})
	tensormap("dump", file, "aa[0]").failsWith(t, `tensor "aa": not found; did you mean "a"`)
	tensormap("dump", file, "c]").failsWith(t, `tensor "c]": not found`)
}

func TestDumpText(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"f":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"i":{"dtype":"I64","shape":[2],"data_offsets":[16,32]},`+
		`"e":{"dtype":"BF16","shape":[0,3],"data_offsets":[32,32]},"d":{"dtype":"F64","shape":[],"data_offsets":[32,40]},`+
		`"b":{"dtype":"BOOL","shape":[3],"data_offsets":[40,43]},"h\u001b":{"dtype":"I8","shape":[1],"data_offsets":[43,44]}}`,
		// 1, -0.1, NaN, 1e-10
		0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0xbd, 0, 0, 0xc0, 0x7f, 0xff, 0xe6, 0xdb, 0x2e,
		// 2^53+1, which no float has, and -1
		1, 0, 0, 0, 0, 0, 0x20, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		// 0.1 as float64; three truth values; -128
		0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f, 1, 0, 1, 0x80)
	dumps(t, file, "text", map[string]string{
		"f":      "# f  F32  2×2\n    1   -0.1\n  NaN  1e-10\n",
		"f[1]":   "# f  F32  2 of 2×2\n  NaN  1e-10\n",
		"f[:,1]": "# f  F32  2 of 2×2\n -0.1  1e-10\n",
		"f[0,0]": "# f  F32  scalar of 2×2\n1\n",
		"i":      "# i  I64  2\n9007199254740993                -1\n",
		"e":      "# e  BF16  0×3\n",
		"d":      "# d  F64  scalar\n0.1\n",
		"b":      "# b  BOOL  3\n1  0  1\n",
		"h\x1b":  "# h\\x1b  I8  1\n-128\n",
	})
}

func TestDumpTextMatrices(t *testing.T) {
	file := modeltest.CountingInts(t, []int{2, 3, 2, 2})
	got := done(t, "dump", file, "x[:, 1:, 1]", "--as", "text")
	const want = `# x  I32  2×2×2 of 2×3×2×2
# [0, 1:3, 1, 0:2]
 6   7
10  11

# [1, 1:3, 1, 0:2]
18  19
22  23
`
	if got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestDumpScaledText(t *testing.T) {
	m, err := loader.Open(apr2Fixtures+"scaled.apr", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for x := range m.Tensors() {
		if _, scaled, _ := x.Scale(); !scaled {
			continue
		}
		values, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(strings.Join(slices.DeleteFunc(strings.Split(done(t, "dump", apr2Fixtures+"scaled.apr", x.Name(), "--as", "text"), "\n"),
			func(line string) bool { return strings.HasPrefix(line, "#") }), "\n"))
		for i, v := range values {
			if words[i] != fmt.Sprint(v) {
				t.Errorf("%s: value %d is %s, want %v", x.Name(), i, words[i], v)
			}
		}
		return
	}
	t.Error("no scaled tensor")
}

// Numbers of all types come out as loader has them.
func TestDumpTextFixtures(t *testing.T) {
	modeltest.EveryFixture(t, "../../testdata", openFixture, func(t *testing.T, path string) {
		m, err := loader.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for x := range m.Tensors() {
			if x.Elements() > 1<<12 || strings.HasPrefix(x.Name(), "-") {
				continue
			}
			r := tensormap("dump", path, x.Name(), "--as", "text")
			if _, err := x.Float32s(); (err == nil) != (r.status == exitDone) {
				t.Errorf("%s: %+v, but values: %v", x.Name(), r, err)
			}
			words := 0
			for line := range strings.Lines(r.stdout) {
				if !strings.HasPrefix(line, "#") {
					words += len(strings.Fields(line))
				}
			}
			if r.status == exitDone && uint64(words) != x.Elements() {
				t.Errorf("%s: %d numbers of %d elements", x.Name(), words, x.Elements())
			}
			plain(t, r.stdout)
		}
	})
}

func TestSliceToFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	done(t, "dump", modeltest.Small(t), "a.weight[1, :2]", "-o", out)
	if got, err := os.ReadFile(out); err != nil || string(got) != string(modeltest.Counting(20)[12:]) {
		t.Errorf("%q (%v)", got, err)
	}
	failed := filepath.Join(t.TempDir(), "failed")
	tensormap("dump", modeltest.Small(t), "a.weight[7]", "-o", failed)
	if _, err := os.Stat(failed); err == nil {
		t.Error("a file was written")
	}
}

func TestSliceInterrupted(t *testing.T) {
	ctx, cancel := interruptible(t)
	cancel()
	tensormapContext(ctx, "dump", modeltest.Small(t), "a.weight[1]").failsWith(t, "interrupted")
}
