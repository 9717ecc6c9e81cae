package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// inspected is what inspect --json says of a file, without what a copy may change.
func inspected(t *testing.T, path string, flags ...string) (in struct {
	Flags    []string
	Metadata map[string]any
	Tensors  []struct {
		Name, DType string
		Shape       []int
		Offset      uint64
		ZeroCopy    bool `json:"zero_copy"`
	}
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(done(t, append([]string{"inspect", path, "--json"}, flags...)...)), &in); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestConvert(t *testing.T) {
	for _, test := range []struct {
		flags []string
		align uint64
		flag  string
	}{{nil, 64, "ALIGNED_64"}, {[]string{"--align", "32"}, 32, "ALIGNED_32"}, {[]string{"--align=64"}, 64, "ALIGNED_64"}} {
		file := modeltest.Small(t)
		out := filepath.Join(t.TempDir(), "out.apr")
		r := tensormap(append([]string{"convert", file, out}, test.flags...)...)
		if r.status != exitDone || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, out+": wrote 2 tensors, ") {
			t.Fatalf("%+v", r)
		}
		if got := done(t, "verify", out); !strings.Contains(got, out+": ok: ") || strings.Contains(got, "warning") {
			t.Error(got)
		}
		in := inspected(t, out)
		if len(in.Flags) != 1 || in.Flags[0] != test.flag {
			t.Errorf("flags %q", in.Flags)
		}
		for _, tensor := range in.Tensors {
			if tensor.Offset%test.align != 0 || !tensor.ZeroCopy {
				t.Errorf("%+v", tensor)
			}
			if a, b := done(t, "dump", file, tensor.Name, "--as", "npy"), done(t, "dump", out, tensor.Name, "--as", "npy"); a != b {
				t.Errorf("%s: %q, was %q", tensor.Name, b, a)
			}
		}
		if len(in.Tensors) != 2 {
			t.Errorf("%d tensors", len(in.Tensors))
		}
	}
}

func TestConvertMetadata(t *testing.T) {
	config := modeltest.Write(t, "config.json", []byte(`{"model_type": "bert", "hidden_size": 384}`))
	out := filepath.Join(t.TempDir(), "out.apr")
	done(t, "convert", modeltest.Small(t), out, "--metadata", config)
	in := inspected(t, out)
	architecture, _ := in.Metadata["architecture"].(map[string]any)
	if in.Metadata["model_type"] != "bert" || architecture["hidden_size"] != 384.0 {
		t.Errorf("metadata %v", in.Metadata)
	}
}

func TestConvertFails(t *testing.T) {
	file := modeltest.Small(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "out.apr")
	bad := modeltest.Write(t, "config.json", []byte(`{"a": 1,, "b": 2}`))
	tensormap("convert", file, out, "--metadata", bad).failsWith(t, bad+": offset 8: ")
	twice := modeltest.Write(t, "config.json", []byte(`{"a": 1, "a": 2}`))
	tensormap("convert", file, out, "--metadata", twice).failsWith(t, twice+": offset ", "twice")
	tensormap("convert", file, out, "--metadata", out).failsWith(t, out+": no such file")
	tensormap("convert", file, out, "--metadata", dir).failsWith(t, dir+": is a directory")
	tensormap("convert", file, file).failsWith(t, file+": is the file that is being read")
	hard := filepath.Join(filepath.Dir(file), "hard.safetensors")
	if err := os.Link(file, hard); err == nil {
		tensormap("convert", file, hard).failsWith(t, hard+": is the file that is being read")
	}
	tensormap("convert", file, filepath.Join(dir, "no", "out.apr")).failsWith(t, filepath.Join(dir, "no", "out.apr"), "no such file")
	tensormap("convert", file, dir, "--format", "apr2").failsWith(t, dir, "is a directory")
	if r := tensormap("convert", file, "-"); r.status != exitUsage || !strings.Contains(r.stderr, "standard output") {
		t.Errorf("%+v", r)
	}
	empty(t, dir)
}

// empty wants no file in dir, whatever its name.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left in the directory", e.Name())
	}
}

// waitForFile returns once work has begun: once there is a file in dir.
func waitForFile(t *testing.T, dir string) {
	for range 60_000 {
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the command has not begun")
}

// An interrupt in the middle of the work leaves the directory as it was.
func TestConvertInterrupted(t *testing.T) {
	const size = 4 << 30 // sparse
	file := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]}}`)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()+size); err != nil {
		t.Skip(err)
	}
	for _, verb := range []string{"convert", "dump"} {
		dir := t.TempDir()
		args := []string{"convert", file, filepath.Join(dir, "out.apr")}
		if verb == "dump" {
			args = []string{"dump", file, "a", "--as", "raw", "-o", filepath.Join(dir, "out")}
		}
		ctx, cancel := interruptible(t)
		go func() {
			defer cancel()
			waitForFile(t, dir)
		}()
		r := tensormapContext(ctx, args...)
		r.failsWith(t, "interrupted\n")
		empty(t, dir)
	}
}

func TestInterruptedBefore(t *testing.T) {
	ctx, cancel := interruptible(t)
	cancel()
	file := modeltest.Small(t)
	dir := t.TempDir()
	tensormapContext(ctx, "convert", file, filepath.Join(dir, "out.apr")).failsWith(t, "interrupted")
	tensormapContext(ctx, "dump", file, "a.weight", "-o", filepath.Join(dir, "out")).failsWith(t, "interrupted")
	tensormapContext(ctx, "dump", file, "a.weight").failsWith(t, "interrupted")
	tensormapContext(ctx, "verify", apr2Fixtures+"tiny.apr", "--json").failsWith(t, "interrupted")
	empty(t, dir)
}

// TestConvertDType re-encodes a slice of a real model, and holds what dump says of the
// result against the original.
func TestConvertDType(t *testing.T) {
	source := filepath.Join("..", "..", "testdata", "safetensors", "minilm-slice.safetensors")
	out := filepath.Join(t.TempDir(), "out.apr")
	r := tensormap("convert", source, out, "--dtype", "Q8_0", "--keep", "*LayerNorm*", "--keep", "*.bias")
	if r.status != exitDone || r.stdout != "" {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{
		": wrote 6 tensors, ",
		"left as stored: 3 tensors (by request): embeddings.LayerNorm.bias, embeddings.LayerNorm.weight, encoder.layer.0.attention.output.dense.bias\n",
		"left as stored: 1 tensor (I64 without a scale): embeddings.position_ids\n",
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in %q", want, r.stderr)
		}
	}
	if r := tensormap("convert", source, out, "--dtype", "q8_0", "--keep", "*norm*"); !strings.Contains(r.stderr, "warning: --keep *norm* matches no tensor") {
		t.Errorf("%+v", r)
	}
	done(t, "convert", source, out, "--dtype", "q8_0", "--keep", "*LayerNorm*", "--keep", "*.bias")
	in := inspected(t, out)
	dtypes := make(map[string]string)
	for _, tensor := range in.Tensors {
		dtypes[tensor.Name] = tensor.DType
	}
	if q, _ := in.Metadata["quantization"].(map[string]any); q["method"] != "Q8_0" {
		t.Errorf("quantization %v", in.Metadata["quantization"])
	}
	const name = "embeddings.word_embeddings.weight"
	if dtypes[name] != "Q8_0" || dtypes["embeddings.LayerNorm.weight"] != "F32" || dtypes["embeddings.position_ids"] != "I64" {
		t.Errorf("dtypes %v", dtypes)
	}
	before, after := done(t, "dump", source, name), done(t, "dump", out, name)
	if len(after) != len(before) || after == before {
		t.Fatalf("%d bytes after, %d before", len(after), len(before))
	}
	// Of a block of 32 no value moves by more than half a step, which is the largest
	// magnitude / 127, but for the rounding of the step itself to binary16.
	for at := 0; at < len(before); at += 32 * 4 {
		was, is := floats(before[at:at+32*4]), floats(after[at:at+32*4])
		most := 0.0
		for _, x := range was {
			most = max(most, math.Abs(x))
		}
		for i := range was {
			if math.Abs(is[i]-was[i]) > most/127*(0.5+127.0/2048) {
				t.Fatalf("value %d: %v, was %v among magnitudes up to %v", at/4+i, is[i], was[i], most)
			}
		}
	}
}

func floats(b string) []float64 {
	var v []float64
	for i := 0; i < len(b); i += 4 {
		v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32([]byte(b[i:])))))
	}
	return v
}

// TestConvertI8 checks the scale in the metadata, by which the tensors expand.
func TestConvertI8(t *testing.T) {
	source := filepath.Join("..", "..", "testdata", "safetensors", "minilm-slice.safetensors")
	out := filepath.Join(t.TempDir(), "out.apr")
	done(t, "convert", source, out, "--dtype", "i8", "--keep", "*position_ids")
	const name = "embeddings.word_embeddings.weight"
	was, is := floats(done(t, "dump", source, name)), floats(done(t, "dump", out, name))
	most := 0.0
	for _, x := range was {
		most = max(most, math.Abs(x))
	}
	for i := range was {
		if math.Abs(is[i]-was[i]) > most/127*0.5001 {
			t.Fatalf("value %d: %v, was %v", i, is[i], was[i])
		}
	}
	scale := float32(most) / 127
	if text := done(t, "inspect", out, "--json"); !strings.Contains(text, strconv.FormatFloat(float64(scale), 'g', -1, 32)) {
		t.Errorf("no scale %v in %s", scale, text)
	}
}

func TestConvertUsage(t *testing.T) {
	for _, flags := range [][]string{{"--dtype", "q9"}, {"--dtype", "i16"}, {"--keep", "*"}, {"--dtype", "f16", "--keep", "[a"}} {
		if r := tensormap(append([]string{"convert", "a", "b"}, flags...)...); r.status != exitUsage {
			t.Errorf("%v: %+v", flags, r)
		}
	}
}

// TestOutputErrors: what is wrong with the new file is said of it, by its own name.
func TestOutputErrors(t *testing.T) {
	file := modeltest.Small(t)
	nowhere := filepath.Join(t.TempDir(), "no", "out.apr")
	outputs := map[string]string{nowhere: "open " + nowhere + ": no such file or directory", "": `open "": no such file or directory`}
	if _, err := os.Stat("/dev/full"); err == nil {
		outputs["/dev/full"] = "write /dev/full: no space left on device"
	}
	for out, says := range outputs {
		for _, args := range [][]string{{"convert", file, out, "--format=apr2"}, {"dump", file, "a.weight", "-o", out}, {"dump", file, "a.weight", "--as=raw", "-o", out},
			{"split", file, out, "--shard-size=100B", "--format=apr2"}} {
			if args[0] == "split" && out == "/dev/full" {
				continue // shards have names beside it
			}
			if out == "" && args[0] == "dump" {
				continue // standard output
			}
			r := tensormap(args...)
			r.failsWith(t)
			if want := "tensormap: " + says + "\n"; r.stderr != want {
				t.Errorf("%q: %q, want %q", args, r.stderr, want)
			}
		}
	}
}

// TestConvertSigned sets the flag SIGNED, bit 5 of the flags at offset 8, in a file
// whose checksum is then wrong, which only verify looks at.
func TestConvertSigned(t *testing.T) {
	file, out := modeltest.Small(t), filepath.Join(t.TempDir(), "out.apr")
	first := filepath.Join(t.TempDir(), "first.apr")
	const says = ": signature not carried over\n"
	done(t, "convert", file, first)
	if r := tensormap("convert", first, out); r.status != exitDone || strings.Contains(r.stderr, says) {
		t.Errorf("%+v", r)
	}
	b, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b[8] |= 1 << 5
	signed := modeltest.Write(t, "signed.apr", b)
	if r := tensormap("convert", signed, out); r.status != exitDone || !strings.HasSuffix(r.stderr, signed+says) {
		t.Errorf("%+v", r)
	}
}

func TestConvertCompress(t *testing.T) {
	const source = "../../testdata/apr2/compressed.apr"
	raw := filepath.Join(t.TempDir(), "raw.apr")
	done(t, "convert", source, raw)
	for flag, lines := range map[string][]string{
		"--compress":      {"wrote 4 tensors, ", "compressed 2 of 4 tensors: 100 KiB to "},
		"--compress=fast": {"wrote 4 tensors, ", "compressed 2 of 4 tensors: 100 KiB to "},
		"--compress=hc":   {"wrote 4 tensors, ", "compressed 2 of 4 tensors: 100 KiB to "},
	} {
		out := filepath.Join(t.TempDir(), "out.apr")
		r := tensormap("convert", raw, out, flag)
		if r.status != exitDone || strings.Count(r.stderr, "\n") != len(lines) {
			t.Fatalf("%+v", r)
		}
		for i, line := range strings.SplitAfter(strings.TrimSuffix(r.stderr, "\n"), "\n") {
			if !strings.Contains(line, lines[i]) || i == 1 && !strings.Contains(line, ", ratio ") {
				t.Errorf("%s: %q, want …%s…", flag, line, lines[i])
			}
		}
		for _, tensor := range inspected(t, out).Tensors {
			if want := tensor.Name != "zeros" && tensor.Name != "literals"; tensor.ZeroCopy != want {
				t.Errorf("%s: %+v", flag, tensor)
			}
			if a, b := done(t, "dump", source, tensor.Name, "--as", "raw"), done(t, "dump", out, tensor.Name, "--as", "raw"); a != b {
				t.Errorf("%s: %s: other bytes", flag, tensor.Name)
			}
		}
		if a, b := done(t, "dump", raw, "zeros", "--as", "npy"), done(t, "dump", out, "zeros", "--as", "npy"); a != b {
			t.Errorf("%s: other values", flag)
		}
	}
	none := tensormap("convert", modeltest.Small(t), filepath.Join(t.TempDir(), "out.apr"), "--compress")
	if none.status != exitDone || !strings.Contains(none.stderr, "compressed none of 2 tensors: none would be 3% smaller\n") {
		t.Errorf("%+v", none)
	}
	if r := tensormap("convert", raw, filepath.Join(t.TempDir(), "out.apr"), "--compress=zstd"); r.status != exitUsage || !strings.Contains(r.stderr, "fast, hc") {
		t.Errorf("%+v", r)
	}
}
