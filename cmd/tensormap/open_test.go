package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/inspection"
	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// site is a server of testdata that counts, and lets in who has the key.
type site struct {
	*httptest.Server
	requests, bytes atomic.Int64
	lastKey         atomic.Value
}

func serve(t *testing.T, files http.Handler) *site {
	s := new(site)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.requests.Add(1)
		s.lastKey.Store(strings.Join(req.Header["X-Key"], ","))
		files.ServeHTTP(modeltest.CountedResponse{ResponseWriter: w, N: &s.bytes}, req)
	}))
	t.Cleanup(s.Close)
	return s
}

const testdata = "../../testdata/"

func serveTestdata(t *testing.T) *site { return serve(t, http.FileServer(http.Dir(testdata))) }

// TestAddress: every verb says of an address what it says of the file.
func TestAddress(t *testing.T) {
	s := serveTestdata(t)
	for _, path := range []string{
		"safetensors/minilm-slice.safetensors", "apr2/tiny.apr", "lz4/liblz4-fast.apr",
		"shards/apr2/model.apr", "shards/gguf/model-00003-of-00004.gguf", "shards/safetensors/model.safetensors.index.json",
	} {
		file, address := testdata+path, s.URL+"/"+path
		// Both list the files, of which only the names differ.
		near, far := parseInspection(t, file), parseInspection(t, address+"?sig=secret")
		for i, f := range far.Files {
			if want := s.URL + "/" + filepath.ToSlash(strings.TrimPrefix(near.Files[i].Path, filepath.FromSlash(testdata))); f.Path != want || f.Size != near.Files[i].Size {
				t.Errorf("%s: file %d is %+v, want %s", path, i, f, want)
			}
		}
		if len(far.Files) != len(near.Files) || far.Format != near.Format || len(far.Tensors) != len(near.Tensors) || len(near.Tensors) == 0 {
			t.Errorf("%s: %+v, want %+v", path, far, near)
		}
		name := near.Tensors[len(near.Tensors)-1].Name
		for _, as := range []string{"raw", "npy"} {
			if got := done(t, "dump", address, name, "--as", as); got != done(t, "dump", file, name, "--as", as) {
				t.Errorf("%s: dump --as %s of other bytes", path, as)
			}
		}
		if out := done(t, "verify", address+"?sig=secret"); !strings.HasPrefix(out, address+": ok: ") && !strings.Contains(out, "\n"+address+": ok: ") {
			t.Errorf("verify says %s", out)
		}
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a.apr"), filepath.Join(dir, "b.apr")
		done(t, "convert", address, a)
		done(t, "convert", file, b)
		if !bytes.Equal(read(t, a), read(t, b)) {
			t.Errorf("%s: converted to other bytes", path)
		}
	}
}

type parsedInspection struct {
	Format  string
	Files   []inspection.FileInfo
	Tensors []struct{ Name string }
}

func parseInspection(t *testing.T, name string) (in parsedInspection) {
	t.Helper()
	if err := json.Unmarshal([]byte(done(t, "inspect", "--json", name)), &in); err != nil {
		t.Fatal(err)
	}
	return in
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// zeros are n bytes after a head.
type zeros struct {
	head []byte
	n    int64
}

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), int64(len(z.head))+z.n-off))
	clear(p[:n])
	if off < int64(len(z.head)) {
		copy(p[:n], z.head[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TestInspectFetchesTheIndex, and no more, of a gigabyte; dump fetches one tensor.
func TestInspectFetchesTheIndex(t *testing.T) {
	const n, each = 1000, 1_000_000
	var header strings.Builder
	for i := range n {
		fmt.Fprintf(&header, `,"model.layers.%d.weight":{"dtype":"F32","shape":[250,1000],"data_offsets":[%d,%d]}`, i, i*each, (i+1)*each)
	}
	text := "{" + header.String()[1:] + "}"
	file := zeros{append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), n * each}
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.ServeContent(w, req, "", time.Unix(1e9, 0), io.NewSectionReader(file, 0, int64(len(file.head))+file.n))
	}))
	for _, args := range [][]string{{"inspect"}, {"inspect", "--json"}, {"inspect", "--metadata"}} {
		s.bytes.Store(0)
		done(t, append(args, s.URL)...)
		if got := s.bytes.Load(); got > 256<<10+int64(len(file.head)) || got >= 1_000_000 {
			t.Errorf("%q fetched %d bytes for an index of %d", args, got, len(file.head))
		}
	}
	s.bytes.Store(0)
	done(t, "dump", s.URL, "model.layers.500.weight")
	if got := s.bytes.Load() - each; got > 128<<10+int64(len(file.head)) {
		t.Errorf("dump fetched %d bytes more than the tensor's", got)
	}
	s.requests.Store(0)
	if names, _, _ := strings.Cut(done(t, "__complete", "dump", s.URL, "model"), ":"); names != "" || s.requests.Load() != 0 {
		t.Errorf("completion offers %q after %d requests", names, s.requests.Load())
	}
}

func TestAddressErrors(t *testing.T) {
	s := serveTestdata(t)
	host := strings.TrimPrefix(s.URL, "http://")
	missing := "http://secret:secret@" + host + "/missing.apr?sig=secret#secret"
	for _, verb := range [][]string{{"inspect", missing}, {"verify", missing}, {"dump", missing, "x"}, {"convert", missing, t.TempDir() + "/x.apr"}} {
		r := tensormap(verb...)
		r.failsWith(t, "tensormap: read "+s.URL+"/missing.apr: offset 0: ", "404 Not Found: 404 page not found\n")
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s", r.stderr)
		}
	}
	if r := tensormap("verify", "--json", missing); strings.Contains(r.stdout+r.stderr, "secret") || !strings.Contains(r.stdout, "404") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	tensormap("inspect", s.URL+"/README.md?secret").failsWith(t, "tensormap: "+s.URL+"/README.md: unknown: offset 0: ")
	tensormap("inspect", "http://").failsWith(t, "not an http or https address")
	tensormap("inspect", "https://[::1/secret").failsWith(t, "not an address")
	for typed, meant := range map[string]string{"hf:/org/name": "hf://org/name", "OCI:host/repo": "oci://host/repo", "https:/h/x?secret": "https://h/x", "file:/none/x": "file:///none/x"} {
		tensormap("inspect", typed).failsWith(t, typed+": ", "; an address has two slashes: "+meant+"\n")
	}
	for _, name := range []string{"org/name", "Qwen/Qwen2.5-0.5B-Instruct"} {
		tensormap("inspect", name).failsWith(t, name+": ", "; a model of the Hugging Face Hub is hf://"+name+"\n")
	}
	for _, name := range []string{"testdata/none", "org/name.gguf", "a/b/c", "./name", "../name", "/name", "org/"} {
		if r := tensormap("inspect", name); r.status != exitFailed || strings.Contains(r.stderr, "hf://") {
			t.Errorf("%s: %s", name, r.stderr)
		}
	}
	if r := tensormap("inspect", "none:/x"); strings.Contains(r.stderr, "slashes") {
		t.Errorf("%s", r.stderr)
	}
	tensormap("inspect", "ftp://bucket/model.gguf").failsWith(t, "ftp://bucket/model.gguf: ", "; addresses begin with hf://, oci://, ")
	fixture := s.URL + "/apr2/tiny.apr"
	name := parseInspection(t, fixture).Tensors[0].Name
	tensormap("dump", fixture, name, "-o", "http://h/x?secret").failsWith(t, "http://h/x: is an address, which cannot be written to\n")
	tensormap("convert", fixture, "http://h/x?secret").failsWith(t, "http://h/x: is an address, which cannot be written to\n")
}

// TestHeader: headers are sent, and never shown.
func TestHeader(t *testing.T) {
	s := serveTestdata(t)
	address := s.URL + "/apr2/tiny.apr"
	file := modeltest.Write(t, "headers", []byte("X-Key: file 1\r\nX-Key:file 2\n"))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--header", "X-Key: secret"}, "secret"},
		{[]string{"--header=x-key:a:b", "--header", "X-Other: c"}, "a:b"},
		{[]string{"--header", "@" + file}, "file 1,file 2"},
	} {
		done(t, append([]string{"inspect", address}, test.args...)...)
		if got := s.lastKey.Load(); got != test.want {
			t.Errorf("%q: the server saw %q", test.args, got)
		}
	}
	before := s.requests.Load()
	for _, bad := range []string{"secret", "sec ret: x", ": secret", "X-Key: secret\nX-Other: secret", "X\x00: secret", "", "ſ: secret"} {
		r := tensormap("inspect", address, "--header", bad)
		if r.status != exitUsage || strings.Contains(r.stderr, "secret") || !strings.Contains(r.stderr, "'NAME: VALUE'") {
			t.Errorf("%q: status %d, %s", bad, r.status, r.stderr)
		}
	}
	tensormap("inspect", address, "--header", "@/nowhere/at all").failsWith(t, "/nowhere/at all: no such file")
	if r := tensormap("inspect", modeltest.Small(t), "--header", "X-Key: secret"); r.status != exitUsage || strings.Contains(r.stderr, "secret") {
		t.Errorf("of a path: status %d, %s", r.status, r.stderr)
	}
	if n := s.requests.Load() - before; n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestRefusal: an error shows what the server says and what it may lack, and nothing that was
// sent to it.
func TestRefusal(t *testing.T) {
	for _, test := range []struct {
		code int
		hint string
	}{{http.StatusUnauthorized, " (--header 'NAME: VALUE' sends what the server may ask for)"}, {http.StatusForbidden, " (--header 'NAME: VALUE' sends what the server may ask for)"}, {http.StatusGone, ""}} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			http.Error(w, "Access is \x1b[31mrestricted; sent: "+req.Header.Get("X-Key")+" "+req.URL.RawQuery, test.code)
		}))
		r := tensormap("inspect", s.URL+"/m?sig=hush", "--header", "X-Key: hush")
		r.failsWith(t, fmt.Sprintf("%d %s: Access is \\x1b[31mrestricted; sent: … …%s\n", test.code, http.StatusText(test.code), test.hint))
	}
}

// TestUnversioned: if a change of the file would go unnoticed, the user is told so, once.
func TestUnversioned(t *testing.T) {
	content := safetensorsOf(1 << 20)
	for modified, warnings := range map[time.Time]int{{}: 1, time.Unix(1e9, 0): 0} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			http.ServeContent(w, req, "", modified, bytes.NewReader(content))
		}))
		r := tensormap("verify", s.URL+"/m?sig=hush")
		if n := strings.Count(r.stderr, "warning: "+s.URL+"/m: neither ETag nor Last-Modified"); r.status != exitDone || n != warnings || strings.Contains(r.stderr, "hush") {
			t.Errorf("modified %v: status %d, %d warnings: %s", modified, r.status, n, r.stderr)
		}
	}
}

// TestInterruptedRequest: the end of the context ends whatever a verb waits for.
func TestInterruptedRequest(t *testing.T) {
	files := http.FileServer(http.Dir(testdata))
	for _, wait := range []string{"", "model-00003-of-00004.apr"} { // opening, and in a sibling
		for _, args := range [][]string{{"inspect", ""}, {"verify", ""}, {"dump", "", "x"}, {"convert", "", t.TempDir() + "/x.apr"}} {
			ctx, cancel := interruptible(t)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if strings.HasSuffix(req.URL.Path, wait) {
					cancel()
					<-req.Context().Done()
				}
				files.ServeHTTP(w, req)
			}))
			args[1] = s.URL + "/shards/apr2/model.apr"
			tensormapContext(ctx, args...).failsWith(t, s.URL+"/shards/apr2/model.apr: ", "interrupted")
		}
	}
}

// TestInterruptedRead: and what it reads after opening.
func TestInterruptedRead(t *testing.T) {
	content := safetensorsOf(1 << 20)
	for _, args := range [][]string{{"verify", ""}, {"dump", "", "a"}, {"dump", "", "a", "--as=raw"}, {"convert", "", t.TempDir() + "/x.apr"}} {
		ctx, cancel := interruptible(t)
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if !strings.HasPrefix(req.Header.Get("Range"), "bytes=0-") {
				cancel()
				<-req.Context().Done()
			}
			http.ServeContent(w, req, "", time.Unix(1e9, 0), bytes.NewReader(content))
		}))
		args[1] = s.URL + "/m"
		tensormapContext(ctx, args...).failsWith(t, "interrupted\n")
	}
}

// TestConvertBeside: what lies beside a file goes along from a server too, unless it denies to have it.
func TestConvertBeside(t *testing.T) {
	for status, want := range map[int]bool{http.StatusOK: true, http.StatusForbidden: false, http.StatusNotFound: false} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			switch {
			case strings.HasSuffix(req.URL.Path, "/m"):
				http.ServeContent(w, req, "", time.Unix(1e9, 0), bytes.NewReader(safetensorsOf(16)))
			case status != http.StatusOK:
				http.Error(w, "no", status)
			case strings.HasSuffix(req.URL.Path, "/config.json"):
				http.ServeContent(w, req, "", time.Unix(1e9, 0), strings.NewReader(`{"model_type": "bert"}`))
			default:
				http.NotFound(w, req)
			}
		}))
		out := filepath.Join(t.TempDir(), "out.apr")
		r := tensormap("convert", "--no-cache", s.URL+"/m", out)
		said := strings.HasPrefix(r.stderr, "metadata from "+s.URL+"/config.json\n")
		if r.status != exitDone || said != want || strings.Contains(done(t, "inspect", out, "--metadata"), "bert") != want {
			t.Errorf("%d: %+v", status, r)
		}
	}
}

// stalled serves the beginning of a file, and then nothing.
func stalled(t *testing.T, content []byte) *site {
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if content == nil || !strings.HasPrefix(req.Header.Get("Range"), "bytes=0-") {
			<-req.Context().Done()
			return
		}
		http.ServeContent(w, req, "", time.Unix(1e9, 0), bytes.NewReader(content))
	}))
}

// TestTimeout: a server that does not answer is given up, when the model is opened and later,
// without a word before that where nobody looks.
func TestTimeout(t *testing.T) {
	silent, later := stalled(t, nil), stalled(t, safetensorsOf(1<<20))
	for _, test := range []struct {
		s    *site
		args []string
	}{
		{silent, []string{"inspect", ""}}, {silent, []string{"diff", "", modeltest.Small(t)}}, {silent, []string{"map", ""}},
		{later, []string{"verify", ""}}, {later, []string{"dump", "", "a"}}, {later, []string{"convert", "", t.TempDir() + "/x.apr", "--no-side-files"}},
		{later, []string{"hash", ""}},
	} {
		test.args[1] = test.s.URL + "/m?secret"
		r := tensormap(append(test.args, "--timeout", "100ms")...)
		r.failsWith(t, test.s.URL+"/m: ", "the server makes no progress for ")
	}
	for _, bad := range []string{"", "0", "-1s", "soon", "1e99"} {
		r := tensormap("inspect", silent.URL, "--timeout="+bad)
		if r.status != exitUsage || !strings.Contains(r.stderr, "must be a time such as 30s or 5m\n") {
			t.Errorf("%q: status %d, %s", bad, r.status, r.stderr)
		}
	}
	if r := tensormap("inspect", modeltest.Small(t), "--timeout", "1s"); r.status != exitUsage {
		t.Errorf("of a path: status %d, %s", r.status, r.stderr)
	}
	for text, want := range map[string]time.Duration{"90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "2m": 2 * time.Minute} {
		var o opener
		if err := o.setTimeout(text); err != nil || o.timeout != want {
			t.Errorf("%s is %v (%v)", text, o.timeout, err)
		}
	}
}

// safetensorsOf has a tensor "a" of n bytes.
func safetensorsOf(n int) []byte {
	header := fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, n, n)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// TestMaxHeader: every verb that opens a model takes the flag, and the error of a header beyond the limit names it.
func TestMaxHeader(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2)
	const hint = "(header over the limit) (--max-header SIZE allows more)"
	out := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{
		{"inspect", file}, {"verify", file}, {"dump", file, "a", "--as", "text"}, {"stats", file}, {"hash", file}, {"diff", file, file}, {"map", file, "-o", out + ".svg"},
		{"convert", file, out + ".gguf"}, {"merge", file, out + ".safetensors"}, {"split", file, out + ".apr", "--shard-size", "1MB"},
	} {
		tensormap(append(args, "--max-header", "20B")...).failsWith(t, "header_size", hint)
		done(t, append(args, "--max-header", "1KB")...)
	}
	large := filepath.Join(t.TempDir(), "large.safetensors")
	if err := os.WriteFile(large, []byte("\x01\xe1\xf5\x05\x00\x00\x00\x00{"), 0o666); err != nil { // 100,000,001
		t.Fatal(err)
	}
	if err := os.Truncate(large, 8+100_000_001); err != nil {
		t.Fatal(err)
	}
	tensormap("inspect", large).failsWith(t, "100000001 bytes, more than 100000000", hint)
	tensormap("inspect", large, "--max-header", "101MB").failsWith(t, "where a key should be") // of the zeros
	index := filepath.Join(t.TempDir(), "model.safetensors.index.json")
	if err := os.WriteFile(index, []byte(`{"weight_map":{"a":"a.safetensors"}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	tensormap("inspect", index, "--max-header", "20B").failsWith(t, "36 bytes of JSON, more than 20", hint)
}
