// Package kerneltest has what tests of kernels share: recorded inputs and outputs, aligned memory, memory between pages
// that cannot be read, calls at any depth of a small stack.
package kerneltest

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// EachRecorded runs f with the input and output of every file of testdata with extension ext, and fails if there are
// fewer than count files. A file is named after its type. It has the size of the input in four bytes, the input, and
// the output.
func EachRecorded(t *testing.T, ext string, count int, f func(t *testing.T, d layout.DType, in, out []byte)) {
	files, err := filepath.Glob("testdata/*" + ext)
	if err != nil || len(files) < count {
		t.Fatalf("%d files %s in testdata, want %d or more (%v)", len(files), ext, count, err)
	}
	for _, name := range files {
		d, ok := layout.ParseDType(strings.TrimSuffix(filepath.Base(name), ext))
		if !ok {
			t.Fatalf("%s names no type", name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.LittleEndian.Uint32(b)
		t.Run(d.String(), func(t *testing.T) { f(t, d, b[4:4+n], b[4+n:]) })
	}
}

// Floats returns the little-endian float32s in b.
func Floats(b []byte) []float32 {
	f := make([]float32, len(b)/4)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return f
}

// FirstDifference returns the first index at which x and y differ, or -1. They have the same length.
func FirstDifference(x, y []byte) int {
	for i := range x {
		if x[i] != y[i] {
			return i
		}
	}
	return -1
}

// Halves has the places of the binary16 scales in a block of each type.
var Halves = map[layout.DType][]int{
	layout.Q4_0: {0}, layout.Q4_1: {0, 2}, layout.Q5_0: {0}, layout.Q5_1: {0, 2}, layout.Q8_0: {0}, layout.Q8_1: {0, 2},
	layout.Q2_K: {80, 82}, layout.Q3_K: {108}, layout.Q4_K: {0, 2}, layout.Q5_K: {0, 2}, layout.Q6_K: {208},
	layout.IQ4_NL: {0}, layout.IQ4_XS: {0}, layout.APR_Q4: {0},
	layout.IQ2_XXS: {0}, layout.IQ2_XS: {0}, layout.IQ2_S: {0}, layout.IQ3_XXS: {0}, layout.IQ3_S: {0}, layout.IQ1_S: {0},
	layout.IQ1_M: {48}, layout.TQ1_0: {52}, layout.TQ2_0: {64}, layout.Q1_0: {0}, layout.Q2_0: {0},
}

// PutScale puts a binary16 into b, which begins at a place of Halves. IQ1_M has it in the upper nibbles of four words.
func PutScale(d layout.DType, b []byte, h uint16) {
	if d != layout.IQ1_M {
		binary.LittleEndian.PutUint16(b, h)
		return
	}
	for k := range 4 {
		b[2*k+1] = b[2*k+1]&15 | byte(h>>(4*k))<<4
	}
}

// Ends returns the first and the last n elements of s.
func Ends[E any](s []E, n int) [2][]E { return [2][]E{s[:n], s[len(s)-n:]} }

// Aligned returns n floats whose first lies skip floats after a multiple of 64 bytes.
func Aligned(n, skip int) []float32 {
	buf := make([]float32, n+32)
	at := int(-uintptr(unsafe.Pointer(&buf[0]))%64/4) + skip
	return buf[at : at+n : at+n]
}

// NoBoundsChecks compiles the package of the test and expects the compiler to have proved every index of the portable
// loops, in files named *_generic.go. File checked has bounds checks, which show that the compiler reports any.
func NoBoundsChecks(t *testing.T, checked string) {
	if testmode.Brief() {
		t.Skip("runs the go command")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(goTool, "build", "-gcflags=-d=ssa/check_bce/debug=1", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), checked) {
		t.Fatalf("no bounds check reported in %s:\n%s", checked, out)
	}
	for _, found := range regexp.MustCompile(`(?m)^.*_generic\.go:.*$`).FindAllString(string(out), -1) {
		t.Error(found)
	}
}
