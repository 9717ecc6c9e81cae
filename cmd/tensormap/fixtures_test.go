package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/inspection"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/slice"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// described is what stands beside a fixture: what the program that wrote it, or another
// reader of its format, says is in it.
type described struct {
	File     string
	Format   string
	Version  string
	Size     uint64
	Sharded  bool
	Files    []inspection.FileInfo
	Metadata json.RawMessage
	Tensors  []describedTensor
	Verify   string
	Findings []string
	Error    *struct {
		Field  string
		Offset uint64
	}
}

type describedTensor struct {
	Name      string
	DType     string
	Shape     []int
	File      int
	Offset    uint64
	Stored    uint64
	Raw       uint64
	Encoding  string
	ZeroCopy  bool `json:"zero_copy"`
	Scale     *float64
	ZeroPoint *int64 `json:"zero_point"`

	StoredSHA256 string  `json:"stored_sha256"`
	RawSHA256    string  `json:"raw_sha256"`
	F32Hex       *string `json:"f32_hex"`
	F32SHA256    *string `json:"f32_sha256"`
}

// describedFixtures are the fixtures with a description in the common form, by path.
func describedFixtures(t *testing.T) map[string]described {
	t.Helper()
	all := make(map[string]described)
	err := filepath.WalkDir("../../testdata", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var d described
		if json.Unmarshal(text, &d) == nil && d.File != "" && d.Format != "" {
			all[filepath.Join(filepath.Dir(path), d.File)] = d
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d fixtures have a description", len(all))
	}
	return all
}

// TestFixtures holds the command against what other programs say of the same files.
func TestFixtures(t *testing.T) {
	checked := 0
	for path, want := range describedFixtures(t) {
		if checked++; testmode.Races() && checked > 40 {
			return // any of them show the detector the same goroutines
		}
		t.Run(strings.TrimPrefix(filepath.ToSlash(path), "../../testdata/"), func(t *testing.T) {
			if want.Error != nil {
				checkRefused(t, path, &want)
				return
			}
			checkInspect(t, path, &want)
			checkVerify(t, path, &want)
			for i := range want.Tensors {
				if testmode.Brief() && i == 4 {
					break
				}
				checkDump(t, path, &want, &want.Tensors[i])
			}
		})
	}
}

func checkRefused(t *testing.T, path string, want *described) {
	at := "offset " + strconv.FormatUint(want.Error.Offset, 10) + ": " + want.Error.Field + ": "
	for _, verb := range []string{"inspect", "verify"} {
		tensormap(verb, path).failsWith(t, filepath.Base(path), want.Format+": ", at)
	}
}

// shown is what inspect --json says, as far as it is compared.
type shown struct {
	Version  string
	Sharded  bool
	Files    []inspection.FileInfo
	Metadata json.RawMessage
	Tensors  []shownTensor
}

type shownTensor struct {
	Name, DType, Encoding string
	Shape                 []int
	Elements              uint64
	File                  int
	Offset                uint64
	StoredBytes           uint64 `json:"stored_bytes"`
	RawBytes              uint64 `json:"raw_bytes"`
	ZeroCopy              bool   `json:"zero_copy"`
	Scale                 *float32
	ZeroPoint             *int64 `json:"zero_point"`
}

func checkInspect(t *testing.T, path string, want *described) {
	var got shown
	if err := json.Unmarshal([]byte(done(t, "inspect", "--json", path)), &got); err != nil {
		t.Fatal(err)
	}
	done(t, "inspect", "--metadata", path) // whatever it says, it has to say it
	if got.Version != want.Version || got.Sharded != want.Sharded {
		t.Errorf("version %q, sharded %t; want %q, %t", got.Version, got.Sharded, want.Version, want.Sharded)
	}
	for i := range got.Files {
		got.Files[i].Path = filepath.Base(got.Files[i].Path)
	}
	if files := want.files(); !slices.Equal(got.Files, files) {
		t.Errorf("files %v, want %v", got.Files, files)
	}
	if !sameJSON(t, got.Metadata, want.Metadata) {
		t.Errorf("metadata\n%s\nwant\n%s", got.Metadata, want.Metadata)
	}
	if len(got.Tensors) != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for i := range got.Tensors {
		if w := want.Tensors[i].shown(); !reflect.DeepEqual(got.Tensors[i], w) {
			t.Errorf("tensor %d is\n%+v, want\n%+v", i, got.Tensors[i], w)
		}
	}
}

func (d *described) files() []inspection.FileInfo {
	if d.Files != nil {
		return d.Files
	}
	return []inspection.FileInfo{{Path: d.File, Size: d.Size}}
}

// shown is what inspect has to say of the tensor.
func (d *describedTensor) shown() shownTensor {
	elements, _ := layout.Elements(d.Shape)
	in := shownTensor{
		Name: d.Name, DType: d.DType, Shape: append([]int{}, d.Shape...), Elements: elements, File: d.File, Offset: d.Offset,
		StoredBytes: d.Stored, RawBytes: d.Raw, Encoding: d.Encoding, ZeroCopy: d.ZeroCopy && mapsFiles,
	}
	if d.Scale != nil {
		scale := float32(*d.Scale)
		in.Scale, in.ZeroPoint = &scale, new(int64)
		if d.ZeroPoint != nil {
			in.ZeroPoint = d.ZeroPoint
		}
	}
	return in
}

// mapsFiles is what the platform can do.
const mapsFiles = runtime.GOOS != "windows" && runtime.GOARCH != "wasm"

func checkVerify(t *testing.T, path string, want *described) {
	r := tensormap("verify", "--json", path)
	var got struct {
		OK       bool
		Findings []struct{ Field string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v in %q, %s", err, r.stdout, r.stderr)
	}
	if ok := want.Verify == "ok"; got.OK != ok || (r.status == exitDone) != ok {
		t.Errorf("verify: ok is %t, status %d; want %q\n%s", got.OK, r.status, want.Verify, r.stdout)
	}
	var fields []string
	for _, f := range got.Findings {
		fields = append(fields, f.Field)
	}
	for _, tensor := range want.Tensors {
		if tensor.f8Weight() || tensor.bareBytes() && want.Format == "safetensors" {
			want.Findings = append(want.Findings, "quantized")
		}
	}
	slices.Sort(fields)
	slices.Sort(want.Findings)
	if !slices.Equal(fields, want.Findings) {
		t.Errorf("verify finds %q, want %q\n%s", fields, want.Findings, r.stdout)
	}
}

func checkDump(t *testing.T, path string, file *described, want *describedTensor) {
	raw := done(t, "dump", path, want.Name, "--as", "raw")
	if sum := sha256Hex(raw); sum != want.RawSHA256 || uint64(len(raw)) != want.Raw {
		t.Errorf("%s: %d raw bytes of sha256 %s; want %d of %s", want.Name, len(raw), sum, want.Raw, want.RawSHA256)
	}
	if !file.Sharded {
		stored, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256Hex(string(stored[want.Offset:][:want.Stored])); sum != want.StoredSHA256 {
			t.Errorf("%s: the stored bytes have sha256 %s, not %s", want.Name, sum, want.StoredSHA256)
		}
	}
	r := tensormap("dump", path, want.Name)
	switch {
	case want.f8Weight():
		r.failsWith(t, want.Name, "without a scale")
		return
	case want.F32Hex == nil && want.F32SHA256 == nil:
		r.failsWith(t, want.Name, "no values in float32")
		return
	case r.status != exitDone:
		t.Errorf("%s: dump: status %d, %s", want.Name, r.status, r.stderr)
		return
	case want.F32Hex != nil:
		sameValues(t, want, r.stdout)
	case sha256Hex(r.stdout) != *want.F32SHA256:
		t.Errorf("%s: float32 values of sha256 %s, not %s", want.Name, sha256Hex(r.stdout), *want.F32SHA256)
	}
	npy := done(t, "dump", path, want.Name, "--as", "npy")
	if _, ok := slice.NpyTypes[want.dtype()]; !ok && !strings.HasSuffix(npy, r.stdout) {
		t.Errorf("%s: npy has other values than f32", want.Name)
	} else if ok && !strings.HasSuffix(npy, raw) {
		t.Errorf("%s: npy has other values than raw", want.Name)
	}
}

// f8Weight reports whether the tensor looks like codes whose scale is missing.
func (d *describedTensor) f8Weight() bool {
	return strings.HasPrefix(d.DType, "F8_E") && d.DType != layout.F8_E8M0.String() && (len(d.Shape) > 1 || strings.HasSuffix(d.Name, "weight"))
}

// bareBytes reports whether verify warns that the tensor may be codes, where files have no scales of their own.
func (d *describedTensor) bareBytes() bool {
	return (d.DType == "I8" || d.DType == "U8") && len(d.Shape) > 1 && strings.HasSuffix(d.Name, "weight")
}

func (d *describedTensor) dtype() layout.DType {
	dtype, _ := layout.ParseDType(d.DType)
	return dtype
}

// sameValues compares bit by bit; of a block type any NaN is as good as another.
func sameValues(t *testing.T, want *describedTensor, got string) {
	b, err := hex.DecodeString(*want.F32Hex)
	if err != nil || len(got) != len(b) {
		t.Errorf("%s: %d bytes of values, want %d; %v", want.Name, len(got), len(b), err)
		return
	}
	anyNaN := want.dtype().Quantized()
	for i := 0; i < len(b); i += 4 {
		g, w := binary.LittleEndian.Uint32([]byte(got[i:])), binary.LittleEndian.Uint32(b[i:])
		nan := math.IsNaN(float64(math.Float32frombits(g))) && math.IsNaN(float64(math.Float32frombits(w)))
		if g != w && !(anyNaN && nan) {
			t.Errorf("%s: value %d is %08x, want %08x", want.Name, i/4, g, w)
			return
		}
	}
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// sameJSON compares values; numbers by their value, so that 1, 1.0 and 1e0 are the same.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	return same(parseJSON(t, a), parseJSON(t, b))
}

func parseJSON(t *testing.T, text []byte) (v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Errorf("%v in %.100s", err, text)
	}
	return v
}

func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key := range a {
			if _, ok := b[key]; !ok || !same(a[key], b[key]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(b))
	}
	return a == b
}

// sameNumber compares integers digit by digit, and others as what is nearest to them.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a+b, ".eE") {
		return false
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	// A binary32 may be written as what is nearest to it in either size.
	return err1 == nil && err2 == nil && (x == y || float32(x) == float32(y) && (len(a) < 12 || len(b) < 12))
}
