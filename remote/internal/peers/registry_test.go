package peers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"github.com/go-jose/go-jose/v4"
	"github.com/sirupsen/logrus"
	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// count returns how many requests were for content, how many for anything else, and the bytes of
// content.
func count(requests []modeltest.Request) (blobs, others int, sent int64) {
	for _, r := range requests {
		if strings.Contains(r.Path, "/blobs/") {
			blobs++
			sent += r.Bytes
		} else {
			others++
		}
	}
	return blobs, others, sent
}

// registryServer is the reference registry.
type registryServer struct {
	host string
	modeltest.Recorder
}

// startRegistry starts one. auth is its configuration's part of that name.
func startRegistry(t *testing.T, auth configuration.Auth) *registryServer {
	t.Helper()
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{
		Storage: configuration.Storage{"filesystem": {"rootdirectory": t.TempDir()}, "delete": {"enabled": true}},
		Auth:    auth,
	}
	config.HTTP.Secret = "secret"
	config.Catalog.MaxEntries = 100
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	app := handlers.NewApp(ctx, config)
	s := new(registryServer)
	server := httptest.NewServer(s.Record(app))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

// lying returns the host of a server that answers as the registry does, but for one byte of a blob.
func (s *registryServer) lying(t *testing.T, blob []byte, wrong int) (host string) {
	t.Helper()
	digest := sha256.Sum256(blob)
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.host})
		},
		ModifyResponse: func(r *http.Response) error {
			if !strings.HasSuffix(r.Request.URL.Path, hex.EncodeToString(digest[:])) {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			var from int
			fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-", &from)
			if at := wrong - from; at >= 0 && at < len(body) {
				body[at] ^= 1
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			return err
		},
	})
	t.Cleanup(front.Close)
	return strings.TrimPrefix(front.URL, "http://")
}

// environment gives the test caches and credentials of its own.
func environment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"XDG_CACHE_HOME", "DOCKER_CONFIG", "HOME", "OLLAMA_MODELS"} {
		t.Setenv(name, t.TempDir())
	}
	t.Setenv("HF_HUB_OFFLINE", "")
}

// login writes what docker login does.
func login(t *testing.T, host, user, password string) {
	t.Helper()
	text, _ := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{
		"auth": base64.StdEncoding.EncodeToString([]byte(user + ":" + password)),
	}}})
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tokenServer hands out tokens as distribution's specification of token authentication has it.
type tokenServer struct {
	*httptest.Server
	modeltest.Recorder
	jwks           string
	key            *ecdsa.PrivateKey
	user, password string
	valid          time.Duration
}

func startTokens(t *testing.T, user, password string) *tokenServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &tokenServer{key: key, user: user, password: password, valid: time.Hour, jwks: filepath.Join(t.TempDir(), "jwks.json")}
	if err := os.WriteFile(s.jwks, set, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(s.Record(http.HandlerFunc(s.serve)))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) auth() configuration.Auth {
	return configuration.Auth{"token": configuration.Parameters{
		"realm": strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/token", "service": "registry", "issuer": "issuer", "jwks": s.jwks,
		"signingalgorithms": []any{"ES256"},
	}}
}

func (s *tokenServer) serve(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != s.user || password != s.password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var access []*token.ResourceActions
	for _, scope := range r.URL.Query()["scope"] {
		parts := strings.Split(scope, ":")
		access = append(access, &token.ResourceActions{Type: parts[0], Name: parts[1], Actions: strings.Split(parts[2], ",")})
	}
	now := time.Now()
	claims, _ := json.Marshal(token.ClaimSet{
		Issuer: "issuer", Subject: s.user, Audience: token.AudienceList{"registry"}, JWTID: fmt.Sprint(now.UnixNano()), Access: access,
		NotBefore: now.Add(-time.Minute).Unix(), IssuedAt: now.Unix(), Expiration: now.Add(s.valid).Unix(),
	})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "one"))
	if err == nil {
		var signed *jose.JSONWebSignature
		if signed, err = signer.Sign(claims); err == nil {
			var text string
			text, err = signed.CompactSerialize()
			var body bytes.Buffer
			json.NewEncoder(&body).Encode(map[string]any{"token": text, "expires_in": 3600})
			w.Write(body.Bytes())
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
