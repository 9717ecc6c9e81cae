//go:build unix

package attack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/trust"
)

// A folderReader reads a file of a folder, and others beside it, as if it were far away.
type folderReader struct {
	*bytes.Reader
	path string
}

func (r *folderReader) Name() string { return r.path }

func (r *folderReader) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	f := r
	if name != r.path {
		var err error
		if f, err = newFolderReader(filepath.Join(filepath.Dir(r.path), name)); err != nil {
			return loader.FolderFile{}, err
		}
	}
	return loader.FromReaderAt(f.path, f.Reader, f.Size()).Open(ctx, f.path)
}

func newFolderReader(path string) (*folderReader, error) {
	b, err := os.ReadFile(path)
	return &folderReader{bytes.NewReader(b), path}, err
}

// beginMutate damages files of every format, opens them by every way, and wants all to agree.
func beginMutate(a *arena) func(*round) {
	var paths []string
	check(filepath.WalkDir("../../../testdata", func(path string, e fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".apr", ".april", ".gguf", ".safetensors", ".tsm", ".b2l", ".json":
			if info, err := e.Info(); err == nil && info.Size() < 200_000 && !describes(path) {
				paths = append(paths, path)
			}
		}
		return err
	}))
	if len(paths) < 50 {
		panic("testdata is not there")
	}
	site := http.FileServer(http.Dir(a.dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", `"one"`)
		site.ServeHTTP(w, req)
	}))
	return func(r *round) {
		from := pick(r.Rand, paths)
		path := filepath.Join(r.dir, filepath.Base(from))
		if strings.Contains(from, "shards/") || strings.Contains(from, "-of-") {
			for _, e := range must(os.ReadDir(filepath.Dir(from))) {
				check(os.WriteFile(filepath.Join(r.dir, e.Name()), must(os.ReadFile(filepath.Join(filepath.Dir(from), e.Name()))), 0o666))
			}
		}
		if config := filepath.Join(filepath.Dir(from), "config.json"); strings.Contains(from, "quantized/") {
			if b, err := os.ReadFile(config); err == nil {
				check(os.WriteFile(filepath.Join(r.dir, "config.json"), b, 0o666))
			}
		}
		b := must(os.ReadFile(from))
		if !r.chance(10) {
			b = mutate(r.Rand, b)
		}
		check(os.WriteFile(path, b, 0o666))
		r.agree(from, path, server.URL+"/round/"+filepath.Base(path), r.split())
	}
}

// describes reports whether a file of testdata describes another.
func describes(path string) bool {
	return filepath.Ext(path) == ".json" && !strings.HasSuffix(path, ".index.json")
}

// mutate damages a file: its beginning, with headers and indexes, more often than the rest.
func mutate(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + rng.IntN(2)*rng.IntN(4) {
		if len(b) == 0 {
			return b
		}
		at := rng.IntN(len(b))
		if rng.IntN(2) == 0 {
			at = rng.IntN(min(len(b), 512))
		}
		switch rng.IntN(8) {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			b[at] = byte(rng.Uint32())
		case 2: // numbers that overflow
			for i, v := range pick(rng, [][]byte{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0x7f}, {0, 0, 0, 0, 0, 0, 0, 0x80}, {0, 0, 0, 0}, {1, 0, 0, 0}}) {
				if at+i < len(b) {
					b[at+i] = v
				}
			}
		case 3:
			b = b[:at]
		case 4:
			b = append(b, noise(rng, 1+rng.IntN(100))...)
		case 5: // a piece of the file at another place of it
			from := rng.IntN(len(b))
			copy(b[at:], b[from:min(len(b), from+rng.IntN(64))])
		case 6:
			n := rng.IntN(min(32, len(b)-at) + 1)
			b = append(b[:at], b[at+n:]...)
		case 7:
			b = append(b[:at], append(noise(rng, 1+rng.IntN(8)), b[at:]...)...)
		}
	}
	return b
}

// agree opens a file by every way and compares what they say.
func (r *round) agree(from, path, address string, rng *rand.Rand) {
	remote := &httprange.Options{PrefixBytes: 1 + rng.Int64N(2000), RequestBytes: 500 + rng.Int64N(5000)}
	type way struct {
		name string
		open func() (*loader.Model, error)
	}
	known := new(model)
	if strings.HasSuffix(filepath.ToSlash(from), "trust/encrypted.apr") && rng.IntN(4) > 0 { // else without its key
		known.key = must(trust.ParseKey(must(os.ReadFile(strings.TrimSuffix(from, ".apr") + ".key"))))
	}
	opts := known.with(loader.Options{TensorBytes: 64 << 20})
	noMap := known.with(loader.Options{TensorBytes: 64 << 20, NoMap: true})
	ways := []way{
		{"Open", func() (*loader.Model, error) { return loader.Open(path, opts) }},
		{"Open NoMap", func() (*loader.Model, error) { return loader.Open(path, noMap) }},
		{"OpenReaderAt", func() (*loader.Model, error) {
			f := must(newFolderReader(path))
			return loader.OpenReaderAt(context.Background(), f, f.Size(), opts)
		}},
		{"HTTP", func() (*loader.Model, error) {
			f, err := httprange.Open(context.Background(), address, remote)
			if err != nil {
				return nil, err
			}
			return loader.OpenReaderAt(context.Background(), f, f.Size(), opts)
		}},
		{"OpenFile", func() (*loader.Model, error) { return loader.OpenFile(must(os.Open(path)), opts) }},
		{"OpenBytes", func() (*loader.Model, error) { return loader.OpenBytes(must(os.ReadFile(path)), opts) }},
	}
	var first string
	for i, w := range ways {
		// A file that leads to others does so only by its name.
		if alone := w.name == "OpenFile" || w.name == "OpenBytes"; alone && len(must(os.ReadDir(r.dir))) > 1 {
			continue
		}
		// The footers of shards are asked for only where that costs no journey.
		if far := w.name == "OpenReaderAt" || w.name == "HTTP"; far && strings.Contains(first, "shards.crc32: shard ") {
			r.count("checksums that are not asked for from afar", 1)
			continue
		}
		text := r.everything(w.open, path+": ", address+": ", "memory: ", r.dir+"/", address[:strings.LastIndex(address, "/")+1])
		r.count("opened", 1)
		if i == 0 {
			if first = text; strings.HasPrefix(first, "error: ") {
				r.count("refused", 1)
			}
			continue
		}
		if text != first {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("attack-mutate-%d-%d", *seed, r.number))
			os.CopyFS(kept, os.DirFS(r.dir))
			r.errorf("%s (kept in %s): Open and %s differ:\n%s", from, kept, w.name, difference(first, text))
		}
	}
}

// difference shows the first line in which two texts differ.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			other := "(ends)"
			if i < len(y) {
				other = y[i]
			}
			return fmt.Sprintf("%.1000s\n%.1000s", x[i], other)
		}
	}
	return fmt.Sprintf("(%d lines)\n(%d lines)", len(x), len(y))
}

// ownName matches what an error says of the name of the file itself, which memory has not.
var ownName = regexp.MustCompile(`; this is ".*"`)

// everything writes down all that a model says of itself, with names of places left out.
func (r *round) everything(open func() (*loader.Model, error), places ...string) string {
	var out strings.Builder
	plain := func(text string) string {
		for _, p := range places {
			text = strings.ReplaceAll(text, p, "")
		}
		return ownName.ReplaceAllString(text, "")
	}
	fails := func(err error) string {
		var fe *layout.FormatError
		text := "error: " + err.Error()
		switch {
		case errors.As(err, &fe): // who says so may differ, but not what is wrong where
			return fmt.Sprintf("error: %v %d %s: %s", fe.Format, fe.Offset, fe.Field, plain(fe.Reason))
		case errors.Is(err, fs.ErrNotExist), strings.Contains(text, "404"):
			return "error: a file is missing"
		case errors.Is(err, loader.ErrTooLarge):
			return "error: too large"
		}
		return plain(text)
	}
	m, err := open()
	if err != nil {
		return fails(err)
	}
	defer m.Close()
	fmt.Fprintf(&out, "%v, %d tensors\n", m.Format(), m.Len())
	if md, err := m.Metadata(); err != nil {
		fmt.Fprintln(&out, "metadata:", fails(err))
	} else {
		fmt.Fprintf(&out, "metadata: %s\n", describe(md))
	}
	for x := range m.Tensors() {
		fmt.Fprintf(&out, "%q %v %v %v file %d at %d+%d: %d\n", x.Name(), x.DType(), x.Shape(), x.Encoding(), x.File(), x.Offset(), x.StoredBytes(), x.RawBytes())
		if q, scaled, err := x.Scale(); err != nil {
			fmt.Fprintln(&out, "\tscale:", fails(err))
		} else {
			fmt.Fprintln(&out, "\tscale:", q, scaled)
		}
		h := sha256.New()
		if n, err := x.WriteTo(h); err != nil {
			fmt.Fprintln(&out, "\telements:", fails(err))
		} else {
			fmt.Fprintf(&out, "\telements: %d %x\n", n, h.Sum(nil))
		}
		if b, err := x.Bytes(); err != nil {
			fmt.Fprintln(&out, "\tbytes:", fails(err))
		} else {
			fmt.Fprintf(&out, "\tbytes: %d %x\n", len(b), sha256.Sum256(b))
		}
		if v, err := x.Float32s(); err != nil {
			fmt.Fprintln(&out, "\tvalues:", fails(err))
		} else {
			fmt.Fprintf(&out, "\tvalues: %d %x\n", len(v), sum(v))
		}
	}
	report, err := m.Verify(context.Background(), nil)
	if err != nil {
		fmt.Fprintln(&out, "verify:", fails(err))
		return out.String()
	}
	fmt.Fprintln(&out, "checked:", report.Checked)
	for _, f := range report.Findings {
		fmt.Fprintf(&out, "finding: %v %d %s: %s\n", f.Finding.Warning, f.FormatError.Offset, f.FormatError.Field, plain(f.FormatError.Reason))
	}
	return out.String()
}

// sum is a digest of the bits of values.
func sum(v []float32) [32]byte {
	h := sha256.New()
	fmt.Fprint(h, len(v))
	var buf [4096]byte
	for len(v) > 0 {
		n := min(len(v), len(buf)/4)
		for i, x := range v[:n] {
			putFloat(buf[4*i:], x)
		}
		h.Write(buf[:4*n])
		v = v[n:]
	}
	return [32]byte(h.Sum(nil))
}
