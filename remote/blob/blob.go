// Package blob opens models in the buckets of Google Cloud Storage and Azure Blob Storage, and of what
// else gocloud.dev/blob has a driver for. It is a module of its own: its libraries reach nobody else.
//
//	m, err := blob.Open(ctx, "gs://models/llama", nil)
//
//	gs://BUCKET/KEY           Google Cloud Storage, with application default credentials
//	azblob://CONTAINER/KEY    Azure Blob Storage, with AZURE_STORAGE_ACCOUNT and its fellows
//
// A KEY that others begin with is a folder. What is read is kept as package remote says. An object is its
// address, with its date, size and MD5: one that is changed under its key is another one.
package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	"gocloud.dev/gcerrors"
)

// Open opens the model at an address: an object, or those of a folder. See remote.Open.
func Open(ctx context.Context, address string, opts *remote.Options) (*loader.Model, error) {
	b, key, err := bucketOf(ctx, address)
	if err != nil {
		return nil, err
	}
	m, err := remote.OpenStore(ctx, New(b, root(address)), key, opts)
	if err != nil {
		b.Close()
		return nil, err
	}
	go func() {
		<-m.Done()
		b.Close()
	}()
	return m, nil
}

// Pull brings the model at an address to the cache. See remote.Pull.
func Pull(ctx context.Context, address string, opts *remote.Options) (*remote.Pulled, error) {
	b, key, err := bucketOf(ctx, address)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return remote.PullStore(ctx, New(b, root(address)), key, opts)
}

// root returns an address without its key.
func root(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	bucket, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + bucket
}

// bucketOf opens the bucket at an address.
func bucketOf(ctx context.Context, address string) (b *blob.Bucket, key string, err error) {
	scheme, rest, ok := strings.Cut(address, "://")
	bucket, key, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" || strings.ContainsAny(bucket, "?#@") {
		return nil, "", errors.New("an address that is not SCHEME://BUCKET/KEY") // it may hold secrets
	}
	b, err = blob.OpenBucket(ctx, scheme+"://"+bucket)
	return b, key, err
}

// Store is a bucket as package remote reads one.
type Store struct {
	bucket *blob.Bucket
	root   string
}

// New returns a bucket whose address without a key is root, such as gs://models. The bucket stays the
// caller's, and must stay open as long as what has been opened from it.
func New(bucket *blob.Bucket, root string) *Store { return &Store{bucket, root} }

var _ remote.Store = (*Store)(nil)

// Address returns what messages call a key.
func (s *Store) Address(key string) string { return s.root + "/" + key }

// Identity returns the address of a key, which is no other bucket's.
func (s *Store) Identity(key string) string { return s.Address(key) }

// List returns the objects under a prefix, without those in folders, and the names of these.
func (s *Store) List(ctx context.Context, prefix string) (objects []remote.StoredObject, folders []string, err error) {
	list := s.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
	for {
		o, err := list.Next(ctx)
		if err == io.EOF {
			return objects, folders, nil
		}
		if err != nil {
			return nil, nil, explained(err)
		}
		name := strings.TrimPrefix(o.Key, prefix)
		switch {
		case o.IsDir:
			folders = append(folders, strings.TrimSuffix(name, "/"))
		case name != "":
			objects = append(objects, remote.StoredObject{Name: name, Size: o.Size, Version: version(o.ModTime, o.MD5)})
		}
	}
}

// version returns what tells an object from others under its key, or "" if that is unknown.
func version(modified time.Time, md5 []byte) string {
	if modified.IsZero() {
		return ""
	}
	return modified.UTC().Format(time.RFC3339Nano) + " " + hex.EncodeToString(md5)
}

// Connect returns the source of one version of an object. It asks for nothing yet.
func (s *Store) Connect(_ context.Context, key string, of remote.StoredObject) (remote.Source, error) {
	return &source{s.bucket, key, of}, nil
}

// source reads an object.
type source struct {
	bucket *blob.Bucket
	key    string
	of     remote.StoredObject
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	return s.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext does what ReadAt does, and ends with ctx.
func (s *source) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > s.of.Size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), s.of.Size-off)]
	if err := s.ReadVector(ctx, [][]byte{want}, off); err != nil {
		return 0, err
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// ReadVector fills one buffer after another with the consecutive bytes from off on, by one request. The
// answer must be of the version that was listed.
func (s *source) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	var n int64
	for _, b := range bufs {
		n += int64(len(b))
	}
	if n == 0 {
		return nil
	}
	r, err := s.bucket.NewRangeReader(ctx, s.key, off, n, nil)
	if err != nil {
		return explained(err)
	}
	defer r.Close()
	if modified, _, _ := strings.Cut(s.of.Version, " "); r.Size() != s.of.Size || modified != "" && !sameSecond(modified, r.ModTime()) {
		return fmt.Errorf("%s: %w", s.key, httprange.ErrChanged)
	}
	for _, b := range bufs {
		if _, err := io.ReadFull(r, b); err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
	}
	return nil
}

// sameSecond reports whether the date in a listing is that of an answer, which has whole seconds.
func sameSecond(listed string, answered time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, listed)
	return err == nil && at.Truncate(time.Second).Equal(answered.UTC().Truncate(time.Second))
}

// Close implements io.Closer. The bucket stays open.
func (s *source) Close() error { return nil }

// explained makes errors of gocloud.dev those of the standard library.
func explained(err error) error {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case gcerrors.PermissionDenied:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return err
}
