package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/slice"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func TestDump(t *testing.T) {
	file := modeltest.Small(t)
	elements := modeltest.Counting(32)
	npy := func(descr, shape string, elements []byte) string {
		dict := "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }"
		return "\x93NUMPY\x01\x00\x76\x00" + dict + strings.Repeat(" ", 117-len(dict)) + "\n" + string(elements)
	}
	// 24..31 as little-endian int16: 0x1918, 0x1b1a, … as float32.
	const shorts = "\x00\xc0\xc8\x45\x00\xd0\xd8\x45\x00\xe0\xe8\x45\x00\xf0\xf8\x45"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"a.weight"}, string(elements[:24])},
		{[]string{"a.weight", "--as", "f32"}, string(elements[:24])},
		{[]string{"a.weight", "-o", "-"}, string(elements[:24])},
		{[]string{"a.weight", "--as", "raw"}, string(elements[:24])},
		{[]string{"a.weight", "--as", "npy"}, npy("<f4", "(2, 3)", elements[:24])},
		{[]string{"b/bias", "--as=raw"}, string(elements[24:])},
		{[]string{"b/bias", "--as=npy"}, npy("<i2", "(4,)", elements[24:])},
		{[]string{"b/bias"}, shorts},
	} {
		args := append([]string{"dump", file}, test.args...)
		if got := done(t, args...); got != test.want {
			t.Errorf("%q: %q, want %q", test.args, got, test.want)
		}
		out := filepath.Join(t.TempDir(), "out")
		if said := done(t, append(args, "-o", out)...); said != "" {
			t.Errorf("%q -o: stdout %q", test.args, said)
		}
		if got, err := os.ReadFile(out); err != nil || string(got) != test.want {
			t.Errorf("%q -o: %q (%v)", test.args, got, err)
		}
	}
}

// TestDumpByName: -o NAME.npy writes what NumPy's save writes, unless --as says otherwise.
func TestDumpByName(t *testing.T) {
	file := modeltest.Small(t)
	for _, test := range []struct{ tensor, out, as, golden string }{
		{"a.weight", "a.npy", "", "small-a.npy"}, {"b/bias", "b.NPY", "", "small-b.npy"}, {"b/bias", "b.npy", "npy", "small-b.npy"},
		{"b/bias", "b.npy", "raw", ""}, {"b/bias", "npy", "raw", ""},
	} {
		want := modeltest.Counting(32)[24:]
		if test.golden != "" {
			var err error
			if want, err = os.ReadFile(filepath.Join("testdata", test.golden)); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(t.TempDir(), test.out)
		args := []string{"dump", file, test.tensor, "-o", out}
		if test.as != "" {
			args = append(args, "--as", test.as)
		}
		done(t, args...)
		if got, err := os.ReadFile(out); err != nil || string(got) != string(want) {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
}

// scaled is what f32 makes of the fixture's values, which know no scale.
func (e *expected) scaled(t *testing.T, name, f32Hex string) string {
	quantization, _ := e.Metadata["quantization"].(map[string]any)
	scales, _ := quantization["scales"].(map[string]any)
	zeros, _ := quantization["zero_points"].(map[string]any)
	scale, ok := scales[name].(float64)
	if !ok {
		return f32Hex
	}
	zero, _ := zeros[name].(float64)
	b, err := hex.DecodeString(f32Hex)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(b); at += 4 {
		q := math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))
		value := float32(float64(float32(scale)) * (float64(q) - zero))
		binary.LittleEndian.PutUint32(b[at:], math.Float32bits(value))
	}
	return hex.EncodeToString(b)
}

// What comes out is what the fixtures' writers say, by checksum and by value.
func TestDumpFixtures(t *testing.T) {
	fixtures(t, func(t *testing.T, path string, want expected) {
		for _, tensor := range want.Tensors {
			if tensor.Encoding == "lz4" {
				continue
			}
			sum := sha256.Sum256([]byte(done(t, "dump", path, tensor.Name, "--as", "raw")))
			if got := hex.EncodeToString(sum[:]); got != tensor.RawSHA256+tensor.SHA256 {
				t.Errorf("%s: raw has SHA-256 %s, want %s", tensor.Name, got, tensor.RawSHA256+tensor.SHA256)
			}
			if tensor.F32Hex == nil {
				continue
			}
			values := done(t, "dump", path, tensor.Name)
			if got, want := hex.EncodeToString([]byte(values)), want.scaled(t, tensor.Name, *tensor.F32Hex); got != want {
				t.Errorf("%s: f32 is %s, want %s", tensor.Name, got, want)
			}
			dtype, ok := layout.ParseDType(tensor.DType)
			if _, native := slice.NpyTypes[dtype]; !ok || native {
				continue
			}
			if got := done(t, "dump", path, tensor.Name, "--as", "npy"); got != string(slice.NumPyHeader("<f4", tensor.Shape))+values {
				t.Errorf("%s: npy is not header and float32", tensor.Name)
			}
		}
	})
}

func TestDumpFails(t *testing.T) {
	file := modeltest.Small(t)
	tensormap("dump", file, "a.wieght").failsWith(t, file+`: tensor "a.wieght": not found; did you mean "a.weight"?`)
	tensormap("dump", file, "BIAS").failsWith(t, `did you mean "b/bias"?`)
	tensormap("dump", file, "a\n\x1b[0m").failsWith(t, `tensor "a\n\x1b[0m": not found`)
	tensormap("dump", file, "a.weight", "-o", file).failsWith(t, file+": is the file that is being read")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err == nil {
		tensormap("dump", file, "a.weight", "-o", link).failsWith(t, link+": is the file that is being read")
	}
	nowhere := filepath.Join(t.TempDir(), "no", "out")
	tensormap("dump", file, "a.weight", "-o", nowhere).failsWith(t, nowhere+": no such file")
	tensormap("dump", file, "a.weight", "-o", t.TempDir()).failsWith(t, "is a directory")
	if _, err := os.Stat("/dev/full"); err == nil {
		tensormap("dump", file, "a.weight", "-o", "/dev/full").failsWith(t, "/dev/full: no space left on device")
	}

	valueless := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]}}`, 1, 2)
	out := filepath.Join(t.TempDir(), "out")
	for _, as := range []string{"f32", "npy"} {
		tensormap("dump", valueless, "a", "--as", as).failsWith(t, `tensor "a": unsupported operation: F4 without a scale`)
		tensormap("dump", valueless, "a", "--as", as, "-o", out).failsWith(t, `tensor "a": unsupported operation: F4 without a scale`)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written")
	}
	if got := done(t, "dump", valueless, "a", "--as", "raw"); got != "\x01\x02" {
		t.Errorf("raw %q", got)
	}
}

func TestDumpEmptyTensor(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"BF16","shape":[0,3],"data_offsets":[0,0]}}`)
	for as, want := range map[string]string{"f32": "", "raw": "", "npy": string(slice.NumPyHeader("<f4", []int{0, 3}))} {
		if got := done(t, "dump", file, "a", "--as", as); got != want {
			t.Errorf("%s: %q", as, got)
		}
	}
}

// A file that shrinks while it is mapped is an error, whether Go or the kernel reads it.
func TestDumpShrunkFile(t *testing.T) {
	const size = 1 << 20
	file := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"F32","shape":[262144],"data_offsets":[0,1048576]}}`, make([]byte, size)...)
	for _, as := range slice.Formats {
		err := dumpShrunk(t, file, as)
		if err == nil || !strings.Contains(err.Error(), "memory fault") {
			t.Errorf("%s: %v", as, err)
		}
	}
}

// dumpShrunk writes tensor "a" of the file, which is cut off meanwhile and whole again
// afterwards, to another file.
func dumpShrunk(t *testing.T, file, as string) error {
	t.Helper()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := loader.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tensor, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 4096); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	failed := slice.Write(&parallel.Writer{Ctx: t.Context(), W: out}, as, slice.All(tensor))
	if err := os.WriteFile(file, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	return failed
}

// TestHintIsCheap: of many long names, only some are compared.
func TestHintIsCheap(t *testing.T) {
	testmode.Sequential(t)
	const names = 2000 // of which each takes 190 * 190 steps
	typed := strings.Repeat("z", 190)
	for _, at := range []int{0, names - 1} {
		var header strings.Builder
		for i := range names {
			n := fmt.Sprintf("%0190d", i)
			if i == at {
				n = typed[1:] + "!"
			}
			fmt.Fprintf(&header, `,"%s":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, n)
		}
		r := tensormap("dump", modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}"), typed)
		if hinted := strings.Contains(r.stderr, "did you mean"); hinted != (at == 0) {
			t.Errorf("the similar name is number %d: hint %v", at, hinted)
		}
	}
}

// TestDumpAsShown: what a verb shows of a name can be typed.
func TestDumpAsShown(t *testing.T) {
	var header, rest strings.Builder
	names := []string{"a\nb", "zero\u200bwidth", "", "a\\tb", "a\tb", "plain"}
	for i, name := range names {
		text, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&header, `,%s:{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, text, i, i+1)
		rest.WriteByte(byte('0' + i))
	}
	file := modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}", []byte(rest.String())...)
	for shown, want := range map[string]string{`a\nb`: "0", `zero\u200bwidth`: "1", `""`: "2", `a\tb`: "3", "a\tb": "4", "a\nb": "0", `a\nb[0]`: "0"} {
		if got := done(t, "dump", file, shown, "--as", "raw"); got != want {
			t.Errorf("%s is tensor %s, want %s", shown, got, want)
		}
	}
	if out := done(t, "hash", file); !strings.Contains(out, "  \"\"\n") {
		t.Errorf("%s", out)
	}
	tensormap("dump", file, `plain\n`).failsWith(t, "not found")
}

// meddler changes a file as soon as something of it has been written out.
type meddler struct {
	path string
	done bool
}

func (m *meddler) Write(b []byte) (int, error) {
	if !m.done {
		m.done = true
		if err := os.Truncate(m.path, 4096); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// TestChangingFile: what was written may be of no file that ever was.
func TestChangingFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be cut")
	}
	path := filepath.Join(t.TempDir(), "types.gguf")
	b, err := os.ReadFile("../../testdata/gguf/types.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := loader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	name := ""
	for x := range m.Tensors() {
		name = x.Name()
	}
	for _, args := range [][]string{
		{"dump", path, name, "--as", "raw"}, {"inspect", path}, {"inspect", path, "--json"}, {"map", path},
	} {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		if status := run(t.Context(), args, &meddler{path: path}, &stderr); status != exitFailed {
			t.Errorf("%v: status %d, %q", args[0], status, stderr.String())
		}
		oneLine(t, stderr.String(), "types.gguf", "not the one that was opened")
	}
}
