package peers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	gcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	tensors "github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
	"golang.org/x/crypto/bcrypt"
)

const (
	pack   = "application/vnd.cncf.model."
	docker = "application/vnd.docker.ai."
)

// layer is one of an artifact.
type layer struct {
	mediaType, name string
	content         []byte
}

// artifact returns an image of these layers.
func artifact(t *testing.T, configType string, layers ...layer) v1.Image {
	t.Helper()
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.MediaType(configType)), types.OCIManifestSchema1)
	for _, l := range layers {
		add := mutate.Addendum{Layer: static.NewLayer(l.content, types.MediaType(l.mediaType)), MediaType: types.MediaType(l.mediaType)}
		if l.name != "" {
			add.Annotations = map[string]string{"org.cncf.model.filepath": l.name}
		}
		var err error
		if image, err = mutate.Append(image, add); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

// push writes an OCI layout folder, and pushes that as crane push does.
func push(t *testing.T, image v1.Image, to string, opts ...crane.Option) {
	t.Helper()
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	loaded, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := loaded.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if image, err = loaded.Image(all.Manifests[0].Digest); err != nil {
		t.Fatal(err)
	}
	if err := crane.Push(image, to, append(opts, crane.Insecure)...); err != nil {
		t.Fatal(err)
	}
}

// bytesOf returns n bytes that differ by seed.
func bytesOf(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + seed + i>>12)
	}
	return b
}

// weights returns a SafeTensors file of one tensor.
func weights(name string, data []byte) []byte {
	return modeltest.SafeTensors(modeltest.Tensor{Name: name, DType: tensors.U8, Shape: []int{len(data) / 1024, 1024}, Data: data})
}

func open(t *testing.T, address string) *loader.Model {
	t.Helper()
	m, err := remote.Open(t.Context(), address, nil)
	return modeltest.Opened(t, m, err)
}

// want makes sure that a tensor has these bytes.
func want(t *testing.T, m *loader.Model, name string, data []byte) {
	t.Helper()
	tensor, err := m.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tensor.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Errorf("%s has other bytes than were pushed", name)
	}
}

// configured makes sure that the model has its config.json.
func configured(t *testing.T, m *loader.Model) {
	t.Helper()
	c, err := m.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Int("hidden_size"); n != 64 || err != nil {
		t.Errorf("hidden_size is %d: %v", n, err)
	}
}

const size = 6 << 20

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A raw layer is a file that is read by ranges.
func TestOCI(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	data := bytesOf(size, 1)
	push(t, artifact(t, pack+"config.v1+json",
		layer{pack + "weight.v1.raw", "model.safetensors", weights("w", data)},
		layer{pack + "weight.config.v1.raw", "config.json", []byte(`{"model_type": "bert", "hidden_size": 64}`)},
		layer{pack + "doc.v1.raw", "README.md", []byte("read me")},
	), r.host+"/models/one:v1")
	r.Take()
	address := "oci://" + r.host + "/models/one:v1"
	m := open(t, address)
	row, err := m.Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	if err := row.DequantizeRows(make([]float32, 1024), 3000, 1); err != nil {
		t.Fatal(err)
	}
	if blobs, others, sent := count(r.Take()); blobs > 4 || others > 2 || sent > 400<<10 {
		t.Errorf("a row took %d requests for layers, %d others and %d bytes", blobs, others, sent)
	}
	configured(t, m)
	want(t, m, "w", data)
	m.Close()
	r.Take()
	again := open(t, address)
	want(t, again, "w", data)
	if blobs, others, _ := count(r.Take()); blobs > 0 || others > 1 {
		t.Errorf("opened again by %d requests for layers and %d others", blobs, others)
	}
	again.Close()
	t.Setenv("HF_HUB_OFFLINE", "1")
	want(t, open(t, address), "w", data)
	if _, err := remote.Open(t.Context(), "oci://"+r.host+"/models/two", nil); err == nil || !strings.Contains(err.Error(), "offline") {
		t.Error(err)
	}
	if requests := r.Take(); len(requests) > 0 {
		t.Errorf("asked offline: %v", requests)
	}
}

// Several layers are shards, in their order, with or without names and index.
func TestOCIShards(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	one, two := bytesOf(size, 1), bytesOf(size, 2)
	index := []byte(`{"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"config.json", []byte(`{"hidden_size": 64}`)}, {"tokenizer.json", []byte("{}")}} {
		w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content))})
		w.Write(f.content)
	}
	w.Close()
	var kit bytes.Buffer
	w = tar.NewWriter(&kit)
	for i, data := range [][]byte{one, two} {
		content := weights(string('a'+rune(i)), data)
		w.WriteHeader(&tar.Header{Name: fmt.Sprintf("./model-%05d-of-00002.safetensors", i+1), Mode: 0o644, Size: int64(len(content))})
		w.Write(content)
	}
	w.WriteHeader(&tar.Header{Name: "./model.safetensors.index.json", Mode: 0o644, Size: int64(len(index))})
	w.Write(index)
	w.Close()
	for name, layers := range map[string][]layer{
		"modelpack": {
			{pack + "weight.v1.raw", "model-00001-of-00002.safetensors", weights("a", one)},
			{pack + "weight.v1.raw", "model-00002-of-00002.safetensors", weights("b", two)},
			{pack + "weight.config.v1.raw", "model.safetensors.index.json", index},
			{pack + "weight.config.v1.raw", "config.json", []byte(`{"hidden_size": 64}`)},
			{pack + "weight.config.v1.raw", "tokenizer.json", []byte(`{}`)},
		},
		"docker": {
			{docker + "safetensors", "", weights("a", one)},
			{docker + "safetensors", "", weights("b", two)},
			{docker + "vllm.config.tar", "", archive.Bytes()},
			{docker + "license", "", []byte("MIT")},
		},
		"kit": {
			{"application/vnd.kitops.modelkit.model.v1.tar", "", kit.Bytes()},
			{pack + "weight.config.v1.tar", "", archive.Bytes()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			push(t, artifact(t, docker+"model.config.v0.1+json", layers...), r.host+"/"+name)
			r.Take()
			address := "oci://" + r.host + "/" + name + ":latest"
			m := open(t, address)
			_, _, sent := count(r.Take())
			most := int64(len(layers)) * 256 << 10
			if name == "kit" { // an archive of weights comes whole
				most += int64(kit.Len())
			}
			if sent > most {
				t.Errorf("opening took %d bytes, more than %d", sent, most)
			}
			want(t, m, "a", one)
			want(t, m, "b", two)
			configured(t, m)
			m.Close()
			pulled, err := remote.Pull(t.Context(), address, nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, file := range pulled.Files {
				names = append(names, filepath.Base(file))
			}
			if wanted := []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
				"model.safetensors.index.json", "tokenizer.json"}; !slices.Equal(names, wanted) {
				t.Errorf("pulled %q, want %q", names, wanted)
			}
			local, err := loader.Open(pulled.Path, nil)
			modeltest.Opened(t, local, err)
			want(t, local, "b", two)
			r.Take()
			if tensor, _ := open(t, address).Tensor("a"); !tensor.ZeroCopy() {
				t.Error("a complete model is not mapped")
			}
			if blobs, _, _ := count(r.Take()); blobs > 0 {
				t.Errorf("%d requests for layers that are there", blobs)
			}
		})
	}
}

// An archive is compared with its digest before one of its files is read. Nothing of a wrong one stays.
func TestOCIWrongArchive(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	content := weights("a", bytesOf(size, 1))
	w.WriteHeader(&tar.Header{Name: "model.safetensors", Mode: 0o644, Size: int64(len(content))})
	w.Write(content)
	end := archive.Len() // of the file
	w.Close()
	push(t, artifact(t, pack+"config.v1+json", layer{pack + "weight.v1.tar", "", archive.Bytes()}), r.host+"/models/archive:v1")
	for name, wrong := range map[string]int{"content": end / 2, "what fills the block": end} {
		t.Run(name, func(t *testing.T) {
			address := "oci://" + r.lying(t, archive.Bytes(), wrong) + "/models/archive:v1"
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			if m, err := remote.Open(t.Context(), address, nil); !errors.Is(err, tensors.ErrChecksum) {
				t.Fatal(m, err)
			}
			if _, err := remote.Pull(t.Context(), address, nil); !errors.Is(err, tensors.ErrChecksum) {
				t.Fatal(err)
			}
			if blobs, err := os.ReadDir(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "blobs")); len(blobs) > 0 {
				t.Errorf("%s stays (%v)", blobs[0].Name(), err)
			}
		})
	}
}

// Docker's GGUF layer has no name, and may have a projector and a template beside it.
func TestOCIGGUF(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	content := fixture(t, "gguf/v3.gguf")
	push(t, artifact(t, docker+"model.config.v0.1+json",
		layer{docker + "gguf.v3", "", content}, layer{docker + "mmproj", "mmproj.gguf", content[:len(content)-1]},
		layer{docker + "license", "", []byte("MIT")}), r.host+"/ai/tiny:1b")
	if m := open(t, "oci://"+r.host+"/ai/tiny:1b"); m.Len() == 0 {
		t.Error("no tensors")
	}
	pulled, err := remote.Pull(t.Context(), "oci://"+r.host+"/ai/tiny:1b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(pulled.Path); err != nil || !bytes.Equal(got, content) {
		t.Errorf("pulled to %s: %v", pulled.Path, err)
	}
}

// An index leads to the manifest for this system, or to the only one.
func TestOCIIndex(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	data := bytesOf(size, 3)
	image := artifact(t, pack+"config.v1+json", layer{pack + "weight.v1.raw", "model.safetensors", weights("w", data)})
	other := artifact(t, pack+"config.v1+json", layer{pack + "weight.v1.raw", "model.safetensors", weights("v", data)})
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image},
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}})
	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	pushIndex(t, index, r.host+"/indexed:v1")
	want(t, open(t, "oci://"+r.host+"/indexed:v1"), "w", data)
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r.Take()
	want(t, open(t, "oci://"+r.host+"/indexed@"+digest.String()), "w", data)
	if _, others, _ := count(r.Take()); others > 0 {
		t.Errorf("%d requests for a manifest that the cache has by its digest", others)
	}
}

// Names lead nowhere but into the cache, archives hold plain files, and compressed weights are
// refused by name.
func TestOCIHostile(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	evil := func(h tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		w.WriteHeader(&h)
		w.Close()
		return b.Bytes()
	}
	model := layer{pack + "weight.v1.raw", "model.safetensors", weights("w", bytesOf(1024, 0))}
	for says, l := range map[string]layer{
		`"../evil.safetensors" is no name`: {pack + "weight.v1.raw", "../evil.safetensors", []byte("x")},
		`"/evil.json" is no name`:          {pack + "weight.config.v1.raw", "/evil.json", []byte("x")},
		`"../evil.json" is no name`:        {pack + "weight.config.v1.tar", "", evil(tar.Header{Name: "../evil.json", Size: 0})},
		`"link" in an archive`:             {pack + "weight.config.v1.tar", "", evil(tar.Header{Name: "link", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink})},
		`compressed archive`:               {pack + "weight.v1.tar+gzip", "", []byte("x")},
		`two files called`:                 {pack + "weight.v1.raw", "model.safetensors", []byte("other")},
		`gzip`:                             {pack + "weight.config.v1.tar+gzip", "", []byte("this is no gzip, whatever its name says")},
	} {
		push(t, artifact(t, pack+"config.v1+json", model, l), r.host+"/evil:v1")
		_, err := remote.Open(t.Context(), "oci://"+r.host+"/evil:v1", nil)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "oci://"+r.host+"/evil:v1: ") {
			t.Errorf("%v, want %q", err, says)
		}
	}
	push(t, artifact(t, docker+"model.config.v0.1+json", layer{docker + "dduf", "", []byte("PK\x03\x04 and so on")}), r.host+"/diffusion:v1")
	if _, err := remote.Open(t.Context(), "oci://"+r.host+"/diffusion:v1", nil); !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), "model.dduf") {
		t.Error(err)
	}
	_, err := remote.Open(t.Context(), "oci://"+r.host+"/none:v1", nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, address := range []string{"oci://", "oci://host", "oci://host/UPPER", "oci://host/a/../b", "oci://host/a:b:c", "oci://host/a@sha256:12", "oci://ho st/a"} {
		if _, err := remote.Open(t.Context(), address, nil); err == nil || !strings.Contains(err.Error(), "not HOST/REPOSITORY") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// What a tag stands for is kept apart from repositories whose name goes on with the tag's.
func TestOCINested(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	data := bytesOf(1024, 0)
	image := artifact(t, pack+"config.v1+json", layer{pack + "weight.v1.raw", "model.safetensors", weights("w", data)})
	names := []string{"/models/llama:70b", "/models/llama/70b:latest", "/models/llama/70b/latest:v1", "/models:llama"}
	for _, name := range names {
		push(t, image, r.host+name)
		want(t, open(t, "oci://"+r.host+name), "w", data)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	for _, name := range names {
		want(t, open(t, "oci://"+r.host+name), "w", data)
	}
}

// Credentials are those of docker login: as a password, and for tokens of another server.
func TestOCICredentials(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("hush-hush"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	passwords := modeltest.Write(t, "htpasswd", fmt.Appendf(nil, "user:%s\n", hash))
	tokens := startTokens(t, "user", "hush-hush")
	for name, auth := range map[string]configuration.Auth{
		"password": {"htpasswd": configuration.Parameters{"realm": "here", "path": passwords}},
		"tokens":   tokens.auth(),
	} {
		t.Run(name, func(t *testing.T) {
			environment(t)
			r := startRegistry(t, auth)
			host := strings.Replace(r.host, "127.0.0.1", "localhost", 1) // as the server of tokens
			data := bytesOf(size, 4)
			image := artifact(t, pack+"config.v1+json", layer{pack + "weight.v1.raw", "model.safetensors", weights("w", data)})
			push(t, image, host+"/private:v1", crane.WithAuth(&authn.Basic{Username: "user", Password: "hush-hush"}))
			r.Take()
			tokens.Take()
			address := "oci://" + host + "/private:v1"
			_, err := remote.Open(t.Context(), address, nil)
			if !errors.Is(err, fs.ErrPermission) {
				t.Error(err)
			}
			login(t, host, "user", "wrong-one")
			_, err = remote.Open(t.Context(), address, nil)
			if !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "wrong-one") || !strings.Contains(err.Error(), "docker login "+host) {
				t.Error(err)
			}
			login(t, host, "user", "hush-hush")
			tokens.Take()
			m := open(t, address)
			want(t, m, "w", data)
			if asked := len(tokens.Take()); name == "tokens" && asked != 1 {
				t.Errorf("%d tokens were asked for", asked)
			}
			for _, req := range r.Take() {
				if name == "tokens" && strings.HasPrefix(req.Authorization, "Basic") {
					t.Error("the password went to the registry")
				}
			}
		})
	}
}

func pushIndex(t *testing.T, index v1.ImageIndex, to string) {
	t.Helper()
	ref, err := name.ParseReference(to, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := gcr.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
}
