// Package modeltest makes the model files that tests of several packages need.
package modeltest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Tensor is a tensor of a file.
type Tensor struct {
	Name  string
	DType layout.DType
	Shape []int
	Data  []byte
	LZ4   []byte // blocks that an APR2 file has instead of Data; nil for Data itself
}

// SameFloats compares bit by bit, but for NaNs: arithmetic does not specify theirs.
func SameFloats(a, b []float32) bool { return len(a) == len(b) && Differ(a, b) < 0 }

// Differ returns the first place where a and b are not the same floats, or -1.
func Differ(a, b []float32) int {
	if SameBits(a, b) {
		return -1
	}
	for i := range min(len(a), len(b)) {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return i
		}
	}
	return -1
}

// SameBits compares as bytes. A loop over values takes the race detector twenty times as long.
func SameBits(a, b []float32) bool { return bytes.Equal(mmapio.Bytes(a), mmapio.Bytes(b)) }

// Float32s returns the little-endian bytes of v.
func Float32s(v ...float32) []byte { return bytes.Clone(mmapio.Bytes(v)) }

// Counting returns n bytes that count from 0.
func Counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// SafeTensors returns a SafeTensors file of the tensors, one behind the other.
func SafeTensors(tensors ...Tensor) []byte { return SafeTensorsAt(0, "", tensors...) }

// SafeTensorsAt returns a SafeTensors file whose data starts at phase modulo 8. metadata is a JSON
// object, or "".
func SafeTensorsAt(phase int, metadata string, tensors ...Tensor) []byte {
	var members []string
	if metadata != "" {
		members = append(members, `"__metadata__":`+metadata)
	}
	var data []byte
	for _, x := range tensors {
		name, _ := json.Marshal(x.Name)
		shape, _ := json.Marshal(append([]int{}, x.Shape...))
		members = append(members, fmt.Sprintf(`%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`,
			name, x.DType, shape, len(data), len(data)+len(x.Data)))
		data = append(data, x.Data...)
	}
	header := "{" + strings.Join(members, ",") + "}"
	return WithHeader(header+strings.Repeat(" ", (8+phase-len(header)%8)%8), data...)
}

// Opened returns m and closes it when the test ends. It fails the test if err is not nil. Call it with the results of
// an open function.
func Opened[M io.Closer](t testing.TB, m M, err error) M {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// WithHeader returns a SafeTensors file with a header given as text.
func WithHeader(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(header)+len(data)), uint64(len(header)))
	return append(append(b, header...), data...)
}

// Write writes a file to a directory of the test's own.
func Write(t testing.TB, name string, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	WriteTo(t, path, content)
	return path
}

// WriteTo writes a file called path.
func WriteTo(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// WriteSafeTensors writes a SafeTensors file with a header given as text.
func WriteSafeTensors(t testing.TB, header string, data ...byte) (path string) {
	t.Helper()
	return Write(t, "model.safetensors", WithHeader(header, data...))
}

// Small writes a file of two tensors and metadata. Its header has 240 bytes, so its data begins
// at 248.
func Small(t testing.TB) (path string) {
	header := `{"__metadata__":{"format":"pt","note":"<a> & b"},` +
		`"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},` +
		`"b/bias":{"dtype":"I16","shape":[4],"data_offsets":[24,32]}}`
	return WriteSafeTensors(t, header+strings.Repeat(" ", 240-len(header)), Counting(32)...)
}

// Plain fails the test if output has characters that a terminal would interpret: if printable changes a line.
func Plain(t testing.TB, output string, printable func(string) string) {
	t.Helper()
	for line := range strings.SplitSeq(output, "\n") {
		if printable(line) != line {
			t.Errorf("%q has something raw", line)
			return
		}
	}
}

// EveryFixture calls f for every file under the folder testdata that open opens.
func EveryFixture[M io.Closer](t *testing.T, testdata string, open func(path string) (M, error), f func(t *testing.T, path string)) {
	count := 0
	err := filepath.WalkDir(testdata, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".py") || strings.HasSuffix(path, ".md") {
			return err
		}
		m, err := open(path)
		if err != nil {
			return nil
		}
		m.Close()
		if count++; testmode.Races() && count%8 != 0 {
			return nil // the detector sees the same goroutines with each
		}
		name, err := filepath.Rel(testdata, path)
		t.Run(filepath.ToSlash(name), func(t *testing.T) { f(t, path) })
		return err
	})
	if err != nil || count < 50 {
		t.Errorf("%d files (%v)", count, err)
	}
}

// CountingInts writes a model of one tensor "x" of int32, which counts from 0.
func CountingInts(t testing.TB, shape []int) (path string) {
	x := Random("x", layout.I32, shape...)
	for i := range len(x.Data) / 4 {
		binary.LittleEndian.PutUint32(x.Data[4*i:], uint32(i))
	}
	return Write(t, "model.safetensors", SafeTensors(x))
}
