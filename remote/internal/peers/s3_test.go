package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
)

const (
	accessKey = "access-key"
	secretKey = "secret-of-the-bucket"
	region    = "eu-test-1"
)

// TestMain is the S3 gateway in a process of its own if the environment says so: it changes its
// directory.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PEER_S3"); dir != "" {
		fmt.Println(serveS3(dir, os.Getenv("PEER_PORT")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveS3 serves the folders in dir as buckets, by versitygw.
func serveS3(dir, port string) error {
	side := filepath.Join(filepath.Dir(dir), "attributes")
	if err := os.MkdirAll(side, 0o777); err != nil {
		return err
	}
	store, err := meta.NewSideCar(side)
	if err != nil {
		return err
	}
	backend, err := posix.New(dir, store, posix.PosixOpts{SideCarDir: side})
	if err != nil {
		return err
	}
	root := auth.Account{Access: accessKey, Secret: secretKey, Role: auth.RoleAdmin}
	server, err := s3api.New(backend, middlewares.RootUserConfig{Access: accessKey, Secret: secretKey}, region,
		auth.NewIAMServiceSingle(root), nil, nil, nil, nil, s3api.WithQuiet(), s3api.WithConcurrencyLimiter(1000, 1000), s3api.WithKeepAlive())
	if err != nil {
		return err
	}
	return server.ServeMultiPort([]string{"127.0.0.1:" + port})
}

// gateway is an S3 gateway, and what reaches it.
type gateway struct {
	modeltest.Recorder
	client *minio.Client
}

// startS3 starts versitygw with a bucket called models, and makes it the environment's.
func startS3(t *testing.T) *gateway {
	t.Helper()
	return startGateway(t, func(port string) *exec.Cmd {
		dir := filepath.Join(t.TempDir(), "buckets")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PEER_S3="+dir, "PEER_PORT="+port)
		return cmd
	})
}

// startMoto starts moto of PyPI, in memory, likewise. PYTHON_MOTO names a Python that has it.
func startMoto(t *testing.T) *gateway {
	t.Helper()
	python := os.Getenv("PYTHON_MOTO")
	if python == "" || exec.Command(python, "-c", "import moto.server").Run() != nil {
		t.Skip("PYTHON_MOTO names no Python with moto[server]")
	}
	return startGateway(t, func(port string) *exec.Cmd {
		return exec.Command(python, "-c", "import sys; from moto.server import main; main(sys.argv[1:])", "-H", "127.0.0.1", "-p", port)
	})
}

// onEachS3 runs a test on every S3 server that there is.
func onEachS3(t *testing.T, test func(*testing.T, *gateway)) {
	for name, start := range map[string]func(*testing.T) *gateway{"versitygw": startS3, "moto": startMoto} {
		t.Run(name, func(t *testing.T) {
			environment(t)
			test(t, start(t))
		})
	}
}

// startGateway starts the server that command makes for a port.
func startGateway(t *testing.T, command func(port string) *exec.Cmd) *gateway {
	t.Helper()
	target := modeltest.StartServer(t, command)
	g := new(gateway)
	front := httptest.NewServer(g.Record(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}))
	t.Cleanup(front.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": front.URL, "AWS_REGION": region, "AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_SESSION_TOKEN": "",
		"AWS_PROFILE": "", "AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
	} {
		t.Setenv(name, value)
	}
	var err error
	g.client, err = minio.New(strings.TrimPrefix(front.URL, "http://"), &minio.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, ""), Region: region})
	if err == nil {
		err = g.client.MakeBucket(t.Context(), "models", minio.MakeBucketOptions{Region: region})
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// put writes an object. A large one comes in parts, so that its ETag is no MD5.
func (g *gateway) put(t *testing.T, key string, content []byte) {
	t.Helper()
	_, err := g.client.PutObject(context.Background(), "models", key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{PartSize: 5 << 20})
	if err != nil {
		t.Fatal(err)
	}
}

// putSharded writes a model of four shards under a prefix.
func (g *gateway) putSharded(t *testing.T, prefix string) (data map[string][]byte) {
	t.Helper()
	data = make(map[string][]byte)
	files := make(map[string]string)
	for i := range 4 {
		name, file := fmt.Sprint("w", i), fmt.Sprintf("model-%05d-of-00004.safetensors", i+1)
		data[name] = bytesOf(size, i)
		files[name] = file
		g.put(t, prefix+file, weights(name, data[name]))
	}
	index, _ := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": files})
	g.put(t, prefix+"model.safetensors.index.json", index)
	g.put(t, prefix+"config.json", []byte(`{"hidden_size": 64}`))
	return data
}

// objects returns how many requests were for objects, how many for listings, and the bytes of objects.
func (g *gateway) count() (objects, listings int, sent int64) {
	for _, r := range g.Take() {
		if r.Range != "" {
			objects++
			sent += r.Bytes
		} else {
			listings++
		}
	}
	return objects, listings, sent
}

// A prefix is a directory: its index leads to the shards, and its config.json is the model's.
func TestS3(t *testing.T) { onEachS3(t, testS3) }

func testS3(t *testing.T, g *gateway) {
	data := g.putSharded(t, "people/a model+x=1/")
	g.put(t, "people/other.txt", []byte("other"))
	g.Take()
	for _, address := range []string{"s3://models/people/a model+x=1", "s3://models/people/a model+x=1/", "s3://models/people/a model+x=1/model.safetensors.index.json"} {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		g.Take()
		m := open(t, address)
		if objects, listings, sent := g.count(); objects > 6 || listings > 2 || sent > 5*256<<10 {
			t.Errorf("%s: opening took %d requests for objects, %d listings and %d bytes", address, objects, listings, sent)
		}
		row, err := m.Tensor("w2")
		if err != nil {
			t.Fatal(err)
		}
		if err := row.DequantizeRows(make([]float32, 1024), 3000, 1); err != nil {
			t.Fatal(err)
		}
		if objects, listings, sent := g.count(); objects != 1 || listings > 0 || sent > 2*64<<10 {
			t.Errorf("%s: a row took %d requests for objects, %d listings and %d bytes", address, objects, listings, sent)
		}
		for name := range data {
			want(t, m, name, data[name])
		}
		configured(t, m)
		m.Close()
		g.Take()
		again := open(t, address)
		want(t, again, "w3", data["w3"])
		if objects, _, _ := g.count(); objects > 0 {
			t.Errorf("%s: opened again by %d requests for objects", address, objects)
		}
		again.Close()
		pulled, err := remote.Pull(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, file := range pulled.Files {
			names = append(names, filepath.Base(file))
		}
		if !slices.Contains(names, "config.json") || len(names) != 6 {
			t.Errorf("%s: pulled %q", address, names)
		}
		local, err := loader.Open(pulled.Path, nil)
		modeltest.Opened(t, local, err)
		want(t, local, "w0", data["w0"])
		g.Take()
		t.Setenv("HF_HUB_OFFLINE", "1")
		want(t, open(t, address), "w1", data["w1"])
		if objects, listings, _ := g.count(); objects+listings > 0 {
			t.Errorf("%s: opened offline by %d requests", address, objects+listings)
		}
		if _, err := remote.Open(t.Context(), "s3://models/people/other.txt/x", nil); err == nil || !strings.Contains(err.Error(), "offline") {
			t.Error(err)
		}
		t.Setenv("HF_HUB_OFFLINE", "")
	}
}

// A changed object is an error for what is open, and another one for the next.
func TestS3Changes(t *testing.T) { onEachS3(t, testS3Changes) }

func testS3Changes(t *testing.T, g *gateway) {
	old, fresh := bytesOf(size, 1), bytesOf(size, 2)
	g.put(t, "model.safetensors", weights("w", old))
	m := open(t, "s3://models/model.safetensors")
	g.put(t, "model.safetensors", weights("w", fresh))
	tensor, err := m.Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tensor.Bytes(); !errors.Is(err, httprange.ErrChanged) {
		t.Error(err)
	}
	want(t, open(t, "s3://models/model.safetensors"), "w", fresh)
	pulled, err := remote.Pull(t.Context(), "s3://models/model.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(pulled.Path); err != nil || !bytes.Equal(got, weights("w", fresh)) {
		t.Errorf("pulled to %s: %v", pulled.Path, err)
	}
}

// Credentials come from the environment or a profile, and stand in no message.
func TestS3Credentials(t *testing.T) {
	environment(t)
	g := startS3(t)
	data := bytesOf(size, 3)
	g.put(t, "model.safetensors", weights("w", data))
	const address = "s3://models/model.safetensors"
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
	_, err := remote.Open(t.Context(), address, nil)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") || strings.Contains(err.Error(), "wrong-secret") || strings.Contains(err.Error(), "<") {
		t.Error(err)
	}
	os.Unsetenv("AWS_ACCESS_KEY_ID")
	os.Unsetenv("AWS_SECRET_ACCESS_KEY")
	_, err = remote.Open(t.Context(), address, nil)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "set AWS_ACCESS_KEY_ID") {
		t.Error(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", modeltest.Write(t, "credentials", fmt.Appendf(nil, "[work]\naws_access_key_id = %s\naws_secret_access_key = %s\n", accessKey, secretKey)))
	t.Setenv("AWS_CONFIG_FILE", modeltest.Write(t, "config", fmt.Appendf(nil, "[profile work]\nregion = %s\nendpoint_url = %s\n", region, os.Getenv("AWS_ENDPOINT_URL"))))
	t.Setenv("AWS_PROFILE", "work")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_ENDPOINT_URL", "")
	want(t, open(t, address), "w", data)
	for _, none := range []string{"s3://models/none.safetensors", "s3://models/none/", "s3://none/model.safetensors"} {
		if _, err := remote.Open(t.Context(), none, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", none, err)
		}
	}
	for _, bad := range []string{"s3://", "s3://a", "s3://UP PER/x"} {
		if _, err := remote.Open(t.Context(), bad, nil); err == nil || !strings.Contains(err.Error(), "not BUCKET/KEY") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
