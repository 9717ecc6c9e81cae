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
// Refusals are httprange.StatusError, refusals without a status fs.ErrNotExist.
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

// Open opens the model at an address: an object, or the objects of a folder. Once the model is closed and drained, the bucket is
// closed too. Open fails for a malformed address, if there is no model, or if the bucket cannot be read.
func Open(ctx context.Context, address string, opts *remote.Options) (*loader.Model, error) {
	s, key, err := storeAt(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	m, err := remote.OpenStore(ctx, s, key, opts)
	if err != nil {
		s.bucket.Close()
		return nil, err
	}
	go func() {
		<-m.Done()
		s.bucket.Close()
	}()
	return m, nil
}

// Pull downloads the model at an address to the cache. It fails for a malformed address, if there is no model, if the bucket cannot be
// read, or if the cache cannot be written to.
func Pull(ctx context.Context, address string, opts *remote.Options) (*remote.Pulled, error) {
	s, key, err := storeAt(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	defer s.bucket.Close()
	return remote.PullStore(ctx, s, key, opts)
}

// storeAt opens the bucket of an address, SCHEME://BUCKET/KEY, with the Timeout of opts.HTTP. It also returns the key, which is "" if the
// address has none. The caller closes s.bucket. storeAt fails if the bucket cannot be opened. It also fails for an address of another form,
// which the error does not quote.
func storeAt(ctx context.Context, address string, opts *remote.Options) (s *Store, key string, err error) {
	scheme, rest, ok := strings.Cut(address, "://")
	bucket, key, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" || strings.ContainsAny(bucket, "?#@") {
		return nil, "", errors.New("an address that is not SCHEME://BUCKET/KEY") // it may hold secrets
	}
	root := scheme + "://" + bucket
	b, err := blob.OpenBucket(ctx, root)
	if err != nil {
		return nil, "", err
	}
	s = New(b, root)
	if opts != nil && opts.HTTP != nil {
		s.Timeout = opts.HTTP.Timeout
	}
	return s, key, nil
}

// Store is a bucket as package remote reads it.
type Store struct {
	// Timeout is how long a read or a listing may go without progress; 0 means 30 seconds. It then fails with
	// httprange.ErrStalled.
	Timeout time.Duration

	bucket *blob.Bucket
	root   string
}

// New returns a Store of bucket, whose address without a key is root, such as gs://models. The caller closes the bucket, but not
// before the models that were opened from it.
func New(bucket *blob.Bucket, root string) *Store { return &Store{bucket: bucket, root: root} }

var _ remote.Store = (*Store)(nil)

// Address returns the address of a key, for messages.
func (s *Store) Address(key string) string { return s.root + "/" + key }

// Identity returns the address of a key, which is unique among all stores.
func (s *Store) Identity(key string) string { return s.Address(key) }

// List yields the objects and folders directly under a prefix, and leaves out objects that only stand for a folder. It ends with its
// first error: a refusal, or httprange.ErrStalled after Timeout without progress.
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
			alive(minProgress) // each object is progress enough
			found := remote.StoredObject{Name: strings.TrimPrefix(o.Key, prefix)}
			switch {
			case o.IsDir:
				found.Name = strings.TrimSuffix(found.Name, "/") + "/"
			case found.Name == "", strings.HasSuffix(found.Name, "/"): // an object that stands for a folder
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

// version returns the version of an object: Google's generation, Azure's ETag, or else its date and MD5. It returns "" if the object has
// neither generation, ETag nor date.
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
	return datePrefix + o.ModTime.UTC().Format(time.RFC3339Nano) + " " + hex.EncodeToString(o.MD5)
}

// generationVersion returns the version of an object of Google that has generation n.
func generationVersion(n int64) string { return generationPrefix + strconv.FormatInt(n, 10) }

// etagVersion returns etag in quotes. A listing gives it without them, a response with them.
func etagVersion(etag azcore.ETag) string { return strconv.Quote(strings.Trim(string(etag), `"`)) }

// Versions that are no ETags begin with these prefixes.
const (
	generationPrefix = "generation "
	datePrefix       = "date "
)

// Connect returns the source of the object at key, in the version that listed has. It sends no request, and never fails.
func (s *Store) Connect(_ context.Context, key string, listed remote.StoredObject) (remote.Source, error) {
	return &source{s, key, listed}, nil
}

// source reads one version of an object.
type source struct {
	*Store
	key    string
	listed remote.StoredObject // the size and version to read
}

// Size returns the size of the object in bytes, as it was listed.
func (s *source) Size() int64 { return s.listed.Size }

// ReadAt fills p with the object's bytes from off on. If a response is cut off, ReadAt sends another request for the rest. It fails if a
// request ends with an error and without bytes. It fails with httprange.ErrChanged if the object has another version than the listed one,
// and with httprange.ErrStalled after Timeout without progress. It also fails when ctx ends.
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

// read sends one request for the len(p) bytes from off on, and reads the response into p, which must not be empty. n is the number of bytes
// that it has read, also with an error. After each read of the response it calls alive with the number of new bytes. It fails with io.EOF
// for a response that is too short, and with httprange.ErrChanged for another version of the object. It also fails if the request or the
// response does, or when ctx ends.
func (s *source) read(ctx context.Context, p []byte, off int64, alive func(int)) (n int, err error) {
	r, err := s.bucket.NewRangeReader(ctx, s.key, off, int64(len(p)), &blob.ReaderOptions{BeforeRead: s.conditional})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if r.Size() != s.listed.Size || !s.isListedVersion(r) {
		return 0, httprange.ErrChanged
	}
	for n < len(p) {
		got, err := io.ReadAtLeast(r, p[n:], 1)
		if err == nil { // ReadAtLeast returns no error with bytes, even if ctx has ended
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

// minProgress is the minimum number of bytes that count as progress, as in package httprange.
const minProgress = 4 << 10

// watch returns a context that ends with ctx, or with httprange.ErrStalled if bytes come too slowly. The caller calls alive with the number
// of bytes that have come, from one goroutine at a time. The new context ends once fewer than minProgress bytes have come in s.Timeout, by
// default 30 seconds. The time begins anew each time that minProgress bytes have come. In the end the caller calls end.
func (s *Store) watch(ctx context.Context) (_ context.Context, alive func(n int), end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timeout := cmp.Or(s.Timeout, 30*time.Second)
	timer := time.AfterFunc(timeout, func() { cancel(fmt.Errorf("%w for %v", httprange.ErrStalled, timeout)) })
	sinceReset := 0 // bytes
	return ctx, func(n int) {
		if sinceReset += n; sinceReset >= minProgress {
			sinceReset = 0
			timer.Reset(timeout)
		}
	}, func() { timer.Stop(); cancel(nil) }
}

// conditional changes a request of the driver: the server must refuse it unless the object has the listed version. as(&x) sets x to the
// driver's request and reports true, if x has the type of that request. conditional changes requests of Google. It changes requests of
// Azure if the object has a version. It leaves all others. It fails for an object of Google whose version is no generation.
func (s *source) conditional(as func(any) bool) error {
	var google **storage.ObjectHandle
	var azure *azblob.DownloadStreamOptions
	switch {
	case as(&google):
		n, err := strconv.ParseInt(strings.TrimPrefix(s.listed.Version, generationPrefix), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is no generation: %w", s.listed.Version, err)
		}
		*google = (*google).If(storage.Conditions{GenerationMatch: n}).ReadCompressed(true) // the bytes as they are stored
	case as(&azure) && s.listed.Version != "":
		etag := azcore.ETag(s.listed.Version)
		azure.AccessConditions = &azblob.AccessConditions{ModifiedAccessConditions: &container.ModifiedAccessConditions{IfMatch: &etag}}
	}
	return nil
}

// isListedVersion reports whether the response r has the listed version of the object. It compares generations for Google, and ETags for
// Azure. For other servers it compares dates in whole seconds, since responses have no fractions. It reports true for other servers if no
// version was listed.
func (s *source) isListedVersion(r *blob.Reader) bool {
	var google *storage.Reader
	var azure azblob.DownloadStreamResponse
	switch {
	case r.As(&google):
		return generationVersion(google.Attrs.Generation) == s.listed.Version
	case r.As(&azure) && azure.ETag != nil:
		return etagVersion(*azure.ETag) == s.listed.Version
	case s.listed.Version == "":
		return true
	}
	modified, _, _ := strings.Cut(strings.TrimPrefix(s.listed.Version, datePrefix), " ") // version wrote "date TIME MD5"
	at, err := time.Parse(time.RFC3339Nano, modified)
	return err == nil && at.Truncate(time.Second).Equal(r.ModTime().UTC().Truncate(time.Second))
}

// Close does nothing: the bucket stays open.
func (s *source) Close() error { return nil }

// explained returns err, an error of gocloud.dev, as an error that wraps one of package httprange, fs.ErrNotExist or fs.ErrPermission. It
// returns an error that it does not know as it is. If ctx, the request's context, has ended, it returns the cause of ctx instead.
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
		return refusal(google.Code, google.Header, google.Message, "GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login")
	case errors.As(err, &azure):
		return refusal(azure.StatusCode, azure.RawResponse.Header, azure.ErrorCode,
			"AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or az login")
	case code == gcerrors.NotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case code == gcerrors.PermissionDenied:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return err
}

// refusal returns the *httprange.StatusError of a response with code, header and message, which it quotes. If the code says that
// credentials are missing or refused, the error also names credentials, the settings that they come from.
func refusal(code int, header http.Header, message, credentials string) error {
	err := &httprange.StatusError{Code: code, Header: header}
	if message != "" {
		err.Text = strconv.Quote(message)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (credentials: %s)", err, credentials)
	}
	return err
}
