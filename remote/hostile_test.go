package remote_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// registry is a server of one artifact, which checks nothing.
type registry struct {
	*httptest.Server
	manifest []byte
	blobs    map[string][]byte // by digest
}

type layer struct {
	mediaType, name string
	content         []byte
}

const (
	weightLayer = "application/vnd.cncf.model.weight.v1.raw"
	weightTar   = "application/vnd.cncf.model.weight.v1.tar"
	configTar   = "application/vnd.cncf.model.weight.config.v1.tar"
	tensorLayer = "application/vnd.ollama.image.tensor"
)

// newRegistry starts a registry, with empty caches.
func newRegistry(t *testing.T, layers ...layer) *registry {
	r := &registry{blobs: make(map[string][]byte)}
	var all []map[string]any
	for _, l := range layers {
		digest := "sha256:" + hubtest.Digest(l.content)
		r.blobs[digest] = l.content
		all = append(all, map[string]any{"mediaType": l.mediaType, "digest": digest, "size": len(l.content), "name": l.name,
			"annotations": map[string]string{"org.cncf.model.filepath": l.name}})
	}
	r.manifest, _ = json.Marshal(map[string]any{"layers": all})
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.Path, "/manifests/") {
			w.Write(r.manifest)
			return
		}
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(r.blobs[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]]))
	}))
	t.Cleanup(r.Close)
	for _, name := range []string{"HF_HOME", "XDG_CACHE_HOME", "OLLAMA_MODELS", "HOME"} {
		t.Setenv(name, t.TempDir())
	}
	return r
}

// address returns that of the artifact.
func (r *registry) address(scheme string) string {
	return scheme + "://" + strings.TrimPrefix(r.URL, "http://") + "/org/model"
}

// refused opens an address, and returns the error.
func refused(t *testing.T, address string) error {
	t.Helper()
	m, err := remote.Open(t.Context(), address, nil)
	if err == nil {
		m.Close()
		t.Errorf("%s opens", address)
	}
	return err
}

// withoutRanges makes r answer a range of a blob with the beginning of all of content, and a request for a whole blob by whole.
func (r *registry) withoutRanges(content []byte, whole http.HandlerFunc) {
	registered := r.Config.Handler
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case !strings.Contains(req.URL.Path, "/blobs/"):
			registered.ServeHTTP(w, req)
		case req.Header.Get("Range") != "":
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			w.Write(content[:1000])
		default:
			whole(w, req)
		}
	})
}

// TestPullRemovesDownloads: a blob that came whole does not stay if the next one cannot be had.
func TestPullRemovesDownloads(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Random("x", layout.F32, 1<<18))
	archive := tarOf(t, tar.Header{Name: "model.safetensors"}, file)
	missing := tarOf(t, tar.Header{Name: "other.safetensors"}, file)
	r := newRegistry(t, layer{weightTar, "", archive}, layer{weightTar, "", missing})
	r.withoutRanges(archive, func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, hubtest.Digest(missing)) {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(archive)))
		w.Write(archive)
	})
	if _, err := remote.Pull(t.Context(), r.address("oci"), nil); err == nil {
		t.Error("pulled without a layer")
	}
	left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "*.data"))
	for _, path := range left {
		if _, err := os.Stat(strings.TrimSuffix(path, ".data") + ".map"); err != nil {
			t.Errorf("left %s: %v", path, err)
		}
	}
}

// TestPullFromMirror: a registry that answers no ranges sends whole blobs. Options.Progress is called while one comes. If the registry
// refuses, the error says what may be missing.
func TestPullFromMirror(t *testing.T) {
	content := modeltest.SafeTensors(modeltest.Random("x", layout.F32, 1<<18))
	r := newRegistry(t, layer{weightLayer, "model.safetensors", content})
	came := make(chan struct{}, 1)
	refuses := true
	r.withoutRanges(content, func(w http.ResponseWriter, req *http.Request) {
		if refuses {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.Write(content[:len(content)/2])
		w.(http.Flusher).Flush()
		select {
		case <-came:
		case <-req.Context().Done():
			t.Error("no progress")
		}
		w.Write(content[len(content)/2:])
	})
	last := int64(-1)
	opts := &remote.Options{Progress: func(have, total int64) {
		if total != int64(len(content)) {
			t.Errorf("%d of %d bytes", have, total)
		}
		if last = have; have > 0 {
			select {
			case came <- struct{}{}:
			default:
			}
		}
	}}
	if _, err := remote.Pull(t.Context(), r.address("oci"), opts); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "docker login") {
		t.Errorf("refused: %v", err)
	}
	refuses, last = false, -1
	pulled, err := remote.Pull(t.Context(), r.address("oci"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(pulled.Files[0]); err != nil || !bytes.Equal(got, content) || last != int64(len(content)) {
		t.Errorf("%d bytes, progress %d, %v", len(got), last, err)
	}
}

// TestWholeBlobIsShared: of readers that want a blob of a registry without ranges one downloads it. One that waits leaves when its
// context ends, and the download goes on; if the context of the one that downloads ends, another goes on.
func TestWholeBlobIsShared(t *testing.T) {
	content := bytes.Repeat([]byte("blob"), 1<<18)
	r := newRegistry(t, layer{weightLayer, "model.safetensors", content})
	asked, goOn := make(chan struct{}, 3), make(chan struct{})
	r.withoutRanges(content, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.Write(content[:100])
		w.(http.Flusher).Flush()
		asked <- struct{}{}
		select {
		case <-goOn:
			w.Write(content[100:])
		case <-req.Context().Done():
		}
	})
	read := remote.BlobReader(t, strings.TrimPrefix(r.URL, "http://"), "org/model", content)
	begin := func() (chan error, context.CancelCauseFunc) {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			p := make([]byte, 8)
			err := read(ctx, p, 4)
			if err == nil && string(p) != "blobblob" {
				err = fmt.Errorf("read %q", p)
			}
			ended <- err
		}()
		return ended, cancel
	}
	first, endFirst := begin()
	<-asked
	errEnough := errors.New("enough")
	second, endSecond := begin()
	third, _ := begin()
	time.Sleep(10 * time.Millisecond) // second and third wait by then
	endSecond(errEnough)
	if err := <-second; !errors.Is(err, errEnough) {
		t.Errorf("who waits: %v", err)
	}
	endFirst(errEnough)
	if err := <-first; !errors.Is(err, errEnough) {
		t.Errorf("who downloads: %v", err)
	}
	<-asked
	close(goOn)
	if err := <-third; err != nil {
		t.Errorf("who waits on: %v", err)
	}
	fourth, _ := begin()
	if err := <-fourth; err != nil || len(asked) > 0 {
		t.Errorf("afterwards: %v, %d further downloads", err, len(asked))
	}
}

// TestPullOfAnotherLength: a registry without ranges that announces another length than the manifest is not read.
func TestPullOfAnotherLength(t *testing.T) {
	content := modeltest.SafeTensors(modeltest.Random("x", layout.F32, 1<<18))
	for _, length := range []int{1000, 100 * len(content)} {
		r := newRegistry(t, layer{weightLayer, "model.safetensors", content})
		r.withoutRanges(content, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(length))
			for range length / 1000 {
				if _, err := w.Write(content[:1000]); err != nil {
					return
				}
			}
		})
		opts := &remote.Options{Progress: func(have, total int64) {
			if total != int64(len(content)) {
				t.Errorf("%d of %d bytes", have, total)
			}
		}}
		_, err := remote.Pull(t.Context(), r.address("oci"), opts)
		if !errors.Is(err, httprange.ErrResponse) || !strings.Contains(err.Error(), fmt.Sprintf("%d bytes are announced, not %d", length, len(content))) {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// TestPullFromRegistryWithoutRanges: a registry that never answers ranges sends each blob once, though opening the model reads the heads of its
// shards before. Only what answers a range with everything is cut off. Nothing but the model stays in the cache.
func TestPullFromRegistryWithoutRanges(t *testing.T) {
	const shard = 24 << 20 // far more than what is on its way when a connection is closed
	var layers []layer
	for i := range 2 {
		x := modeltest.Tensor{Name: fmt.Sprint("x", i), DType: layout.U8, Shape: []int{shard}, Data: modeltest.Noise(shard, uint64(i))}
		layers = append(layers, layer{weightLayer, fmt.Sprintf("model-%05d-of-00002.safetensors", i+1), modeltest.SafeTensors(x)})
	}
	index := `{"weight_map":{"x0":"model-00001-of-00002.safetensors","x1":"model-00002-of-00002.safetensors"}}`
	r := newRegistry(t, append(layers, layer{weightLayer, "model.safetensors.index.json", []byte(index)})...)
	registered := r.Config.Handler
	var sent atomic.Int64
	var whole sync.Map // times that a blob was asked for without a range, by path
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		content, ok := r.blobs[path.Base(req.URL.Path)]
		if !ok {
			registered.ServeHTTP(w, req)
			return
		}
		if req.Header.Get("Range") == "" {
			n, _ := whole.LoadOrStore(req.URL.Path, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		n, _ := w.Write(content)
		sent.Add(int64(n))
	})
	pulled, err := remote.Pull(t.Context(), r.address("oci"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range layers {
		if got, err := os.ReadFile(pulled.Files[i]); err != nil || !bytes.Equal(got, l.content) {
			t.Errorf("%s: %d bytes, %v", pulled.Files[i], len(got), err)
		}
	}
	whole.Range(func(path, n any) bool {
		if n := n.(*atomic.Int64).Load(); n != 1 {
			t.Errorf("%v: asked for %d times", path, n)
		}
		return true
	})
	if n := sent.Load(); n > 3*shard {
		t.Errorf("%d bytes sent of a model of %d", n, 2*shard)
	}
	large := 0
	filepath.WalkDir(os.Getenv("XDG_CACHE_HOME"), func(path string, e fs.DirEntry, err error) error {
		if info, _ := e.Info(); err == nil && e.Type().IsRegular() && info.Size() >= shard {
			large++
		}
		return err
	})
	if large != 2 {
		t.Errorf("%d large files in the cache", large)
	}
}

// tarOf returns an archive of one file.
func tarOf(t *testing.T, h tar.Header, content []byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	w.Write(content)
	w.Close()
	return b.Bytes()
}

// TestForeignBytes: what one registry says under the digest of a file is not another's, before all of it has come. An archive whose
// digest is wrong is refused.
func TestForeignBytes(t *testing.T) {
	data := make([]byte, shardBytes)
	for i := range data {
		data[i] = byte(i * 7)
	}
	file := modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.U8, Shape: []int{shardBytes}, Data: data})
	for _, l := range []layer{{weightLayer, "model.safetensors", file}, {weightTar, "", tarOf(t, tar.Header{Name: "model.safetensors"}, file)}} {
		right, liar := newRegistry(t, l), newRegistry(t, l)
		for digest, content := range liar.blobs {
			wrong := bytes.Clone(content)
			copy(wrong[1<<20:], make([]byte, len(wrong)-2<<20)) // but for the head, and the end of the archive
			liar.blobs[digest] = wrong
		}
		for _, r := range []*registry{liar, right} {
			if r == liar && l.mediaType == weightTar {
				if err := refused(t, r.address("oci")); !errors.Is(err, layout.ErrChecksum) {
					t.Error(err)
				}
				continue
			}
			m := open(t, r.address("oci"))
			w, err := m.Tensor("w")
			if err != nil {
				t.Fatal(err)
			}
			got, err := w.Bytes()
			if err != nil || bytes.Equal(got, data) != (r == right) {
				t.Errorf("%s: wrong bytes of another registry: %v", l.mediaType, err)
			}
			m.Close()
			<-m.Done()
		}
	}
}

// TestArchive: an archive is downloaded once, and its files are read from there. Without a cache it is refused.
func TestArchive(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.U8, Shape: []int{4}, Data: []byte("text")})
	r := newRegistry(t, layer{weightTar, "", tarOf(t, tar.Header{Name: "model.safetensors"}, file)})
	read := func(opts *remote.Options) {
		t.Helper()
		m, err := remote.Open(t.Context(), r.address("oci"), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		w, err := m.Tensor("w")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.Bytes(); string(got) != "text" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := remote.Open(t.Context(), r.address("oci"), &remote.Options{NoCache: true}); !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), "need a cache") {
		t.Error(err)
	}
	read(nil)
	clear(r.blobs)
	read(&remote.Options{NoCache: true})
	read(nil)
	t.Setenv("HF_HUB_OFFLINE", "1")
	read(nil)
	pulled, err := remote.Pull(t.Context(), r.address("oci"), nil)
	if err != nil || len(pulled.Files) != 1 {
		t.Fatal(pulled, err)
	}
	if got, err := os.ReadFile(pulled.Files[0]); !bytes.Equal(got, file) {
		t.Error(err)
	}
}

// TestHostileArchives: what an archive says of its files, and what it expands to, takes no memory.
func TestHostileArchives(t *testing.T) {
	testmode.Sequential(t)
	file := modeltest.SafeTensors(modeltest.Tensor{Name: "w", DType: layout.U8, Shape: []int{4}, Data: make([]byte, 4)})
	model := layer{weightLayer, "model.safetensors", file}
	const key = "any.key.is"
	holes := tarOf(t, tar.Header{Name: "config.json", PAXRecords: map[string]string{key + ".map": fmt.Sprint("0,", len(file)), key + ".size": "1000000000000", key + ".numblocks": "1"}}, file)
	holes = bytes.ReplaceAll(holes, []byte(key), []byte("GNU.sparse"))
	for _, kind := range []string{configTar, weightTar} {
		err := refused(t, newRegistry(t, model, layer{kind, "", holes}).address("oci"))
		if err == nil || !strings.Contains(err.Error(), `"config.json" in an archive is no regular file`) {
			t.Error(err)
		}
	}
	layers := []layer{model}
	for i := range 3 {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(tarOf(t, tar.Header{Name: fmt.Sprint(i, ".json")}, make([]byte, 30<<20)))
		z.Close()
		layers = append(layers, layer{configTar + "+gzip", "", b.Bytes()})
	}
	open(t, newRegistry(t, layers[:3]...).address("oci"))
	if err := refused(t, newRegistry(t, layers...).address("oci")); !errors.Is(err, loader.ErrUnsupported) {
		t.Error(err)
	}
}

// TestHostileLists: lists of elements that say nothing take no more than a multiple of their text.
func TestHostileLists(t *testing.T) {
	testmode.Sequential(t)
	nothing := strings.Repeat("{},", 1<<20) + "{}"
	measure := func(address string, want error) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := refused(t, address)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 16*uint64(len(nothing)) || want != nil && !errors.Is(err, want) {
			t.Errorf("%d bytes for an answer of %d: %v", took, len(nothing), err)
		}
	}
	r := newRegistry(t)
	for _, text := range []string{`{"layers":[%s]}`, `{"manifests":[%s]}`} {
		r.manifest = fmt.Appendf(nil, text, nothing)
		measure(r.address("oci"), httprange.ErrResponse)
	}
	for _, text := range []string{`"urls":[%s]`, `"platform":{"os.features":[%s]}`} {
		r.manifest = fmt.Appendf(nil, `{"layers":[{"digest":"sha256:%064x",`+text+`}]}`, 1, nothing)
		measure(r.address("oci"), nil)
	}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.Path, "/tree/") {
			fmt.Fprintf(w, "[%s]", nothing)
		} else {
			fmt.Fprintf(w, `{"sha":"%040x"}`, 1)
		}
	}))
	t.Cleanup(hub.Close)
	t.Setenv("HF_ENDPOINT", hub.URL)
	measure("hf://org/model", nil)
}

// TestEmptyListing: elements of a bucket's listing that say nothing are not kept. Their XML takes 33 times its text on the way.
func TestEmptyListing(t *testing.T) {
	testmode.Sequential(t)
	text := "<ListBucketResult>" + strings.Repeat("<Contents/>", 100_000) + "</ListBucketResult>"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	t.Cleanup(s.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "XDG_CACHE_HOME": t.TempDir(), "HOME": t.TempDir()} {
		t.Setenv(name, value)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := refused(t, "s3://bucket/")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 40*uint64(len(text)) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d bytes for an answer of %d: %v", took, len(text), err)
	}
}

// TestLongErrors: a name that a server makes up is cut in the error about it.
func TestLongErrors(t *testing.T) {
	files := sharded()
	files[`\\`+strings.Repeat("x", 1<<20)] = nil
	hubtest.New(t, files)
	if err := refused(t, "hf://org/model"); len(err.Error()) > 1000 {
		t.Errorf("%d bytes: %.200s", len(err.Error()), err)
	}
}

// TestLongNames: a layer's name is not written into its file as often as that likes.
func TestLongNames(t *testing.T) {
	empty := map[string]any{"dtype": "U8", "shape": []int{0}, "data_offsets": []int{0, 0}}
	head := map[string]any{"data": empty}
	for i := range 100 {
		head[fmt.Sprint("data.", i)] = empty
	}
	text, _ := json.Marshal(head)
	r := newRegistry(t, layer{tensorLayer, strings.Repeat("x", 1<<20), modeltest.WithHeader(string(text))})
	if err := refused(t, r.address("ollama")); !errors.Is(err, layout.ErrLimit) {
		t.Error(err)
	}
}

// TestHostileShards: what a merged index repeats for each tensor, the name of its file and what the file says of all tensors, takes no
// memory beyond what an index may have.
func TestHostileShards(t *testing.T) {
	var tensors strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&tensors, `,"%%[1]s.%d":{"dtype":"U32","shape":[0],"data_offsets":[0,0]}`, i)
	}
	shard := func(prefix, quantType string) []byte {
		return modeltest.WithHeader(fmt.Sprintf(`{"__metadata__":{"quant_type":"%[2]s"}`+tensors.String()+"}", prefix, quantType))
	}
	long := strings.Repeat("x", 50_000)
	for what, layers := range map[string][]layer{
		"value": {{weightLayer, "a.safetensors", shard("a", long)}, {weightLayer, "b.safetensors", shard("b", "")}},
		"name":  {{weightLayer, "a.safetensors", shard("a", "")}, {weightLayer, long + ".safetensors", shard("b", "")}},
	} {
		var before, after runtime.MemStats
		address := newRegistry(t, layers...).address("oci")
		runtime.ReadMemStats(&before)
		err := refused(t, address)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, layout.ErrLimit) || n > 100<<20 {
			t.Errorf("%s: %d bytes allocated, %.1000v", what, n, err)
		}
	}
}

// TestOneContent: content that an index names often is opened once.
func TestOneContent(t *testing.T) {
	files := sharded()
	files["again.safetensors"] = files["model-00001-of-00004.safetensors"]
	files["model.safetensors.index.json"] = []byte(`{"weight_map":{"w0":"model-00001-of-00004.safetensors","w1":"again.safetensors"}}`)
	hubtest.New(t, files)
	if err := refused(t, "hf://org/model"); !errors.Is(err, layout.ErrDuplicate) || !strings.Contains(err.Error(), "are one file") {
		t.Error(err)
	}
}

// TestEndlessListing: names of files are a server's word too. Those of all pages of a listing have one bound, whatever lists them.
func TestEndlessListing(t *testing.T) {
	defer func(most int) { *remote.MaxNames = most }(*remote.MaxNames)
	*remote.MaxNames = 1 << 20
	long := strings.Repeat("x", 10_000)
	var sent atomic.Int64
	serve := func(text func(page, file int) string, before, between string, after func(page int) string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/revision/") {
				fmt.Fprintf(w, `{"sha":"%040x"}`, 1)
				return
			}
			page, _ := strconv.Atoi(r.FormValue("continuation-token"))
			w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?continuation-token=%d>; rel="next"`, r.Host, r.URL.Path, page+1))
			files := make([]string, 20)
			for i := range files {
				files[i] = text(page, i)
			}
			n, _ := fmt.Fprint(w, before, strings.Join(files, between), after(page))
			sent.Add(int64(n))
		}))
		t.Cleanup(s.Close)
		return s
	}
	for source, start := range map[string]func() (address string){
		"hub": func() string {
			t.Setenv("HF_ENDPOINT", serve(func(page, i int) string {
				return fmt.Sprintf(`{"type":"file","path":"%d-%d-%s","size":1,"oid":"%040x"}`, page, i, long, 1)
			}, "[", ",", func(int) string { return "]" }).URL)
			return "hf://org/model"
		},
		"bucket": func() string {
			t.Setenv("AWS_ENDPOINT_URL", serve(func(page, i int) string {
				return fmt.Sprintf(`<Contents><Key>%d-%d-%s</Key><Size>1</Size><ETag>"1"</ETag></Contents>`, page, i, long)
			}, "<ListBucketResult>", "", func(page int) string {
				return fmt.Sprintf("<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken></ListBucketResult>", page+1)
			}).URL)
			return "s3://bucket/"
		},
		"archives": func() string {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for i := range 200 {
				if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(i, long)}); err != nil {
					t.Fatal(err)
				}
			}
			w.Close()
			return newRegistry(t, layer{weightTar, "", b.Bytes()}).address("oci")
		},
	} {
		t.Run(source, func(t *testing.T) {
			newCaches(t)
			sent.Store(0)
			if err := refused(t, start()); !errors.Is(err, httprange.ErrResponse) || !strings.Contains(err.Error(), "names") || len(err.Error()) > 1000 {
				t.Errorf("%.1000v", err)
			}
			if n := sent.Load(); n > 2<<20 {
				t.Errorf("%d bytes came", n)
			}
		})
	}
}

// TestControlCharacters: names from afar with characters that control a terminal are refused, and no error has them.
func TestControlCharacters(t *testing.T) {
	model := modeltest.SafeTensors(modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{1000}, Data: make([]byte, 1000)})
	for _, char := range []string{"\x1b", "\n", "\r", "\x7f", "\u009b", "\u202e", "\u2066", "\u2028"} {
		name := "a" + char + "[2Jz.safetensors"
		for source, start := range map[string]func() (address string){
			"hub": func() string {
				hubtest.New(t, map[string][]byte{name: model})
				return "hf://org/model"
			},
			"layer": func() string { return newRegistry(t, layer{weightLayer, name, model}).address("oci") },
			"archive": func() string {
				return newRegistry(t, layer{weightTar, "", tarOf(t, tar.Header{Name: name}, model)}).address("oci")
			},
			"compression": func() string { return newRegistry(t, layer{configTar + "+" + char, "", model}).address("oci") },
			"weights":     func() string { return newRegistry(t, layer{weightTar + "+" + char, "", model}).address("oci") },
			"ollama": func() string {
				return newRegistry(t, layer{"application/vnd.ollama.image.json", name, model}, layer{tensorLayer, "b", model}).address("ollama")
			},
			"media type": func() string {
				return newRegistry(t, layer{"application/vnd.ollama.image." + name, "", model}, layer{tensorLayer, "b", model}).address("ollama")
			},
		} {
			address := start()
			newCaches(t)
			err := refused(t, address)
			quoted := strconv.QuoteToGraphic(char)
			if text := fmt.Sprint(err); strings.Contains(text, char) || !strings.Contains(text, quoted[1:len(quoted)-1]) {
				t.Errorf("%s: %q", source, text)
			}
			if _, err := remote.Pull(t.Context(), address, nil); err == nil {
				t.Errorf("%s: pulled", source)
			}
		}
	}
}
