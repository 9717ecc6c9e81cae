// Package blob opens models in the buckets of Google Cloud Storage and Azure Blob Storage, and of what
// else gocloud.dev/blob has a driver for. It is a module of its own: its libraries reach nobody else.
//
//	m, err := blob.Open(ctx, "gs://models/llama", nil)
//
//	gs://BUCKET/KEY           Google Cloud Storage, with application default credentials
//	azblob://CONTAINER/KEY    Azure Blob Storage, with AZURE_STORAGE_ACCOUNT and its fellows
//
// A KEY that others begin with is a folder. Bytes that were read are cached as package remote says. An object
// is identified by its address and Google's generation or Azure's ETag, which goes with every request. If
// another object has replaced it at its key, reads fail with httprange.ErrChanged. Objects of other drivers
// are identified by date, size and MD5.
//
// Refusals are httprange.StatusError, those without a status fs.ErrNotExist.
package blob

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"
)

// Open opens the model at an address: an object, or the objects of a folder. The model's end closes the bucket. It
// fails if there is no model, or if the bucket cannot be read.
func Open(ctx context.Context, address string, opts *remote.Options) (*loader.Model, error) {
	b, key, err := bucketOf(ctx, address)
	if err != nil {
		return nil, err
	}
	m, err := remote.OpenStore(ctx, storeOf(b, address, opts), key, opts)
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

// Pull downloads the model at an address to the cache. It fails if there is no model, or if the bucket cannot be read.
func Pull(ctx context.Context, address string, opts *remote.Options) (*remote.Pulled, error) {
	b, key, err := bucketOf(ctx, address)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return remote.PullStore(ctx, storeOf(b, address, opts), key, opts)
}

// storeOf returns the Store of an address whose bucket is b.
func storeOf(b *blob.Bucket, address string, opts *remote.Options) *Store {
	scheme, rest, _ := strings.Cut(address, "://")
	bucket, _, _ := strings.Cut(rest, "/")
	s := New(b, scheme+"://"+bucket)
	if opts != nil && opts.HTTP != nil {
		s.Timeout = opts.HTTP.Timeout
	}
	return s
}

// bucketOf opens the bucket at an address, and returns the rest of the address as key. Its error does not quote the
// address.
func bucketOf(ctx context.Context, address string) (b *blob.Bucket, key string, err error) {
	scheme, rest, ok := strings.Cut(address, "://")
	bucket, key, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" || strings.ContainsAny(bucket, "?#@") {
		return nil, "", errors.New("an address that is not SCHEME://BUCKET/KEY") // it may hold secrets
	}
	b, err = blob.OpenBucket(ctx, scheme+"://"+bucket)
	return b, key, err
}

// Store is a bucket as package remote reads it.
type Store struct {
	// Timeout is how long a read or a listing may go without progress; 0 means 30 seconds. It then fails with
	// httprange.ErrStalled.
	Timeout time.Duration

	bucket *blob.Bucket
	root   string
}

// New returns a bucket whose address without a key is root, such as gs://models. The bucket stays the
// caller's, and must stay open as long as models that were opened from it.
func New(bucket *blob.Bucket, root string) *Store { return &Store{bucket: bucket, root: root} }

var _ remote.Store = (*Store)(nil)

// Address returns what messages call a key.
func (s *Store) Address(key string) string { return s.root + "/" + key }

// Identity returns the address of a key.
func (s *Store) Identity(key string) string { return s.Address(key) }

// List yields the objects and folders directly under a prefix. It ends with its first error: a refusal, or
// httprange.ErrStalled after Timeout without progress.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[remote.StoredObject, error] {
	return func(yield func(remote.StoredObject, error) bool) {
		ctx, alive, end := s.watch(ctx)
		defer end()
		list := s.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
		for {
			o, err := list.Next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(remote.StoredObject{}, explained(ctx, err))
				return
			}
			alive(minProgress)
			found := remote.StoredObject{Name: strings.TrimPrefix(o.Key, prefix)}
			switch marks := found.Name == "" || strings.HasSuffix(found.Name, "/"); {
			case o.IsDir:
				found.Name = strings.TrimSuffix(found.Name, "/") + "/"
			case marks: // an object that stands for a folder
				continue
			default:
				found.Size, found.Version = o.Size, version(o)
			}
			if !yield(found, nil) {
				return
			}
		}
	}
}

// version returns the version of an object: Google's generation, Azure's ETag, else date and MD5, or "" if none is
// known.
func version(o *blob.ListObject) string {
	var google storage.ObjectAttrs
	var azure container.BlobItem
	switch {
	case o.As(&google):
		return generationVersion(google.Generation)
	case o.As(&azure) && azure.Properties != nil && azure.Properties.ETag != nil:
		return etagVersion(*azure.Properties.ETag)
	case o.ModTime.IsZero():
		return ""
	}
	return date + o.ModTime.UTC().Format(time.RFC3339Nano) + " " + hex.EncodeToString(o.MD5)
}

// generationVersion returns the version of Google's generation n.
func generationVersion(n int64) string { return generation + strconv.FormatInt(n, 10) }

// etagVersion returns an ETag in quotes, which a listing leaves out.
func etagVersion(etag azcore.ETag) string { return strconv.Quote(strings.Trim(string(etag), `"`)) }

// Versions that are no ETags begin with these.
const (
	generation = "generation "
	date       = "date "
)

// Connect returns the source of one version of an object. It asks for nothing yet.
func (s *Store) Connect(_ context.Context, key string, of remote.StoredObject) (remote.Source, error) {
	return &source{s, key, of}, nil
}

// source reads an object.
type source struct {
	*Store
	key string
	of  remote.StoredObject
}

// Size implements remote.Source.
func (s *source) Size() int64 { return s.of.Size }

// ReadAt fills p with the object's bytes from off on. After a response that is cut off it sends another request. It fails with
// httprange.ErrChanged if a response is of another version than the listing, and with httprange.ErrStalled after Timeout.
func (s *source) ReadAt(ctx context.Context, p []byte, off int64) error {
	ctx, alive, end := s.watch(policy.WithHTTPHeader(ctx, http.Header{"Accept-Encoding": {"identity"}})) // Azure's client would decompress
	defer end()
	for len(p) > 0 {
		n, err := s.read(ctx, p, off, alive)
		if err != nil && (n == 0 || ctx.Err() != nil) {
			return explained(ctx, err)
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// read sends one request for p, which must not be empty, and fills it as far as the response goes. It returns the
// number of bytes. It fails if the request does, or for another version of the object.
func (s *source) read(ctx context.Context, p []byte, off int64, alive func(int)) (n int, err error) {
	r, err := s.bucket.NewRangeReader(ctx, s.key, off, int64(len(p)), &blob.ReaderOptions{BeforeRead: s.conditional})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if r.Size() != s.of.Size || !s.answers(r) {
		return 0, httprange.ErrChanged
	}
	for n < len(p) {
		got, err := io.ReadAtLeast(r, p[n:], 1)
		if err == nil { // ReadAtLeast hides the error of a read that also has bytes
			err = ctx.Err()
		}
		if err != nil {
			return n, err
		}
		alive(got)
		n += got
	}
	return n, nil
}

// minProgress is how many bytes count as progress, as in package httprange.
const minProgress = 4 << 10

// watch returns a context that ends with ctx, or with httprange.ErrStalled when alive was not called with minProgress
// bytes for Timeout. One goroutine at a time calls alive. The caller calls end.
func (s *Store) watch(ctx context.Context) (_ context.Context, alive func(bytes int), end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timeout := cmp.Or(s.Timeout, 30*time.Second)
	timer := time.AfterFunc(timeout, func() { cancel(fmt.Errorf("%w for %v", httprange.ErrStalled, timeout)) })
	since := 0
	return ctx, func(bytes int) {
		if since += bytes; since >= minProgress {
			since = 0
			timer.Reset(timeout)
		}
	}, func() { timer.Stop(); cancel(nil) }
}

// conditional makes Google's and Azure's servers refuse the request if the object's version is not the listed one. as
// sets its argument to the driver's request, if the types match. Requests of other drivers stay unconditional. It
// fails for a version that is no generation.
func (s *source) conditional(as func(any) bool) error {
	var google **storage.ObjectHandle
	var azure *azblob.DownloadStreamOptions
	switch {
	case as(&google):
		n, err := strconv.ParseInt(strings.TrimPrefix(s.of.Version, generation), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is no generation: %w", s.of.Version, err)
		}
		*google = (*google).If(storage.Conditions{GenerationMatch: n}).ReadCompressed(true) // the bytes as they are stored
	case as(&azure) && s.of.Version != "":
		etag := azcore.ETag(s.of.Version)
		azure.AccessConditions = &azblob.AccessConditions{ModifiedAccessConditions: &container.ModifiedAccessConditions{IfMatch: &etag}}
	}
	return nil
}

// answers reports whether a response is of the version that was listed: by Google's generation, Azure's ETag, else by the
// date, which has whole seconds in a response. Without a version every response is.
func (s *source) answers(r *blob.Reader) bool {
	var google *storage.Reader
	var azure azblob.DownloadStreamResponse
	switch {
	case r.As(&google):
		return generationVersion(google.Attrs.Generation) == s.of.Version
	case r.As(&azure) && azure.ETag != nil:
		return etagVersion(*azure.ETag) == s.of.Version
	case s.of.Version == "":
		return true
	}
	modified, _, _ := strings.Cut(strings.TrimPrefix(s.of.Version, date), " ")
	at, err := time.Parse(time.RFC3339Nano, modified)
	return err == nil && at.Truncate(time.Second).Equal(r.ModTime().UTC().Truncate(time.Second))
}

// Close implements io.Closer. The bucket stays open.
func (s *source) Close() error { return nil }

// explained returns an error of gocloud.dev as one of package httprange, or else of the standard library. If ctx, the
// request's context, has ended, it returns the cause of that.
func explained(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var google *googleapi.Error
	var azure *azcore.ResponseError
	code := gcerrors.Code(err)
	switch {
	case code == gcerrors.FailedPrecondition:
		return httprange.ErrChanged
	case errors.As(err, &google):
		return refused(&httprange.StatusError{Code: google.Code, Header: google.Header, Text: strconv.Quote(google.Message)},
			"GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login")
	case errors.As(err, &azure):
		return refused(&httprange.StatusError{Code: azure.StatusCode, Header: azure.RawResponse.Header, Text: strconv.Quote(azure.ErrorCode)},
			"AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or az login")
	case code == gcerrors.NotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case code == gcerrors.PermissionDenied:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return err
}

// refused returns err, and adds from, the source of credentials, if they are missing or refused.
func refused(err *httprange.StatusError, from string) error {
	if err.Text == `""` {
		err.Text = ""
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (credentials: %s)", err, from)
	}
	return err
}
