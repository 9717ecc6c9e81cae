package peers

import (
	"flag"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

var (
	types  typeSet
	blocks = flag.Int("blocks", 20_000, "random blocks of each type for TestValues")
	seed   = flag.Uint64("seed", 3, "of the random numbers of TestValues")
	golden = flag.String("golden", "", "the `folder` of the module: TestGolden writes the golden vectors of dequant and quantize there")
	shared = flag.String("lib", "", "TestValues and BenchmarkExpand also expand with the dequantize_row_* of this shared library `file`")
)

func init() {
	flag.Func("type", "comma-separated `types` for TestValues and -golden (default all)", types.set)
}

// TestValues holds dequant, dot and quantize against ggml's C.
func TestValues(t *testing.T) {
	if contracts() {
		t.Skip("needs CGO_CFLAGS with -ffp-contract=off")
	}
	expanders, err := allExpanders()
	if err != nil {
		t.Fatal(err)
	}
	j := judge{w: t.Output(), expanders: expanders, blocks: *blocks, seed: *seed}
	if err := j.all(types); err != nil {
		t.Error(err)
	}
}

// TestLibrary has a library of one type written in C compete and be judged.
func TestLibrary(t *testing.T) {
	const source = `#include <stdint.h>
#include <string.h>
void dequantize_row_q1_0(const void *blocks, void *floats, int64_t n) {
	const uint8_t *b = blocks;
	for (uint32_t *y = floats; n > 0; n -= 128, y += 128, b += 18) {
		_Float16 h;
		memcpy(&h, b, 2);
		for (int i = 0; i < 128; i++) {
			float d = b[2 + i/8] >> i%8 & 1 ? h : -h;
			memcpy(y + i, &d, 4);
		}
	}
}
`
	dir := t.TempDir()
	c, lib := filepath.Join(dir, "q1.c"), filepath.Join(dir, "q1.so")
	if err := os.WriteFile(c, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O2", "-fPIC", "-shared", c, "-o", lib).CombinedOutput(); err != nil {
		t.Skipf("%v\n%s", err, out)
	}
	expanders, err := libraryExpanders(lib)
	if err != nil || len(expanders) != 1 || expanders[0].d != layout.Q1_0 {
		t.Fatalf("%v, %v", expanders, err)
	}
	var out strings.Builder
	if err := (&judge{w: &out, expanders: expanders, blocks: 20_000, seed: 4}).all(typeSet{layout.Q1_0}); err != nil || !strings.Contains(out.String(), "q1.so") {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, wrong := range []string{c, filepath.Join(dir, "none.so")} {
		if _, err := libraryExpanders(wrong); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}

// TestJudgeSees feeds the judge peers that differ in one place from what they should be.
func TestJudgeSees(t *testing.T) {
	for _, p := range ggmlExpanders {
		wrong := peer{p.d, p.name, func(floats []float32, blocks []byte, passes int) {
			p.run(floats, blocks, passes)
			last := &floats[len(floats)-1]
			if *last != *last {
				*last = 0
			} else {
				*last = math.Float32frombits(math.Float32bits(*last) ^ 1)
			}
		}}
		var v verdict
		j := judge{w: io.Discard, blocks: 1, seed: 1}
		j.expansions(wrong)(&v)
		if v.mismatches != 2 || v.first == "" {
			t.Errorf("%s: %+v; want one mismatch in each of two passes", p.name, v)
		}
	}
	for _, p := range ggmlQuantizers {
		wrong := peer{p.d, p.name, func(floats []float32, blocks []byte, passes int) {
			p.run(floats, blocks, passes)
			blocks[len(blocks)-1] ^= 1
		}}
		var v verdict
		j := judge{w: io.Discard, blocks: 1, seed: 2}
		j.quantizations(wrong, oursQuantizing(p.d, 1))(&v)
		if v.mismatches+v.undefined != 1 || v.compared != int64(weightedRow/rowOf(p.d)) {
			t.Errorf("%s: %d mismatches, %d undefined in %d rows; want one mismatch", p.name, v.mismatches, v.undefined, v.compared)
		}
	}
}

// TestRowKinds: all inputs of quantizers are finite.
func TestRowKinds(t *testing.T) {
	for _, x := range goldenRows(layout.F16) {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			t.Fatalf("%v", x)
		}
	}
}

// TestGolden makes the vectors that dequant and quantize test with: the files in testdata have the same bytes. With -golden it
// writes the files.
func TestGolden(t *testing.T) {
	if contracts() {
		t.Skip("needs CGO_CFLAGS with -ffp-contract=off")
	}
	if *golden != "" {
		if err := writeGolden(*golden, types); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	for _, pkg := range []string{"dequant", "quantize"} {
		if err := os.MkdirAll(filepath.Join(dir, pkg, "testdata"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeGolden(dir, nil); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "testdata", "*.ggml*"))
	if err != nil || len(files) != 52 {
		t.Fatalf("%d files, want 52 (%v)", len(files), err)
	}
	for _, name := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		own, _ := filepath.Rel(dir, name)
		want, err := os.ReadFile(filepath.Join("..", "..", own))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s has other bytes than that of the project", own)
		}
	}
}
