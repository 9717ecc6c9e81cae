package remote

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
	"github.com/opencontainers/go-digest"
	"github.com/tensormap/tensormap/loader/httprange"
	"gopkg.in/ini.v1"
)

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)

// bucketFolder returns the files at rest, BUCKET or BUCKET/KEY after s3://. It fails for a malformed address or a malformed setting of AWS, or if
// folderInStore does.
func bucketFolder(ctx context.Context, rest string, o *Options) (*folder, error) {
	name, key, _ := strings.Cut(rest, "/")
	if !bucketName.MatchString(name) || strings.Contains(name, "..") || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' }) {
		return nil, fmt.Errorf("s3://%s: not BUCKET/KEY", withoutUser(rest))
	}
	b, err := newBucket(name, o)
	if err != nil {
		return nil, err
	}
	return folderInStore(ctx, b, key, o)
}

// bucket is a bucket of a server that speaks S3's protocol. It implements Store.
type bucket struct {
	*awsAccess
	name string
	opts *Options
	http httprange.Options // with the Authorizer of the bucket
}

// newBucket returns the bucket called name, which signs requests with credentials of the environment unless the options
// have an Authorizer or a header Authorization. It sends no request. It fails if a setting of AWS is malformed.
func newBucket(name string, o *Options) (*bucket, error) {
	access, err := newAWSAccess()
	if err != nil {
		return nil, err
	}
	b := &bucket{access, name, o, *o.HTTP}
	if b.http.Authorizer == nil && b.http.Header.Get("Authorization") == "" {
		b.http.Authorizer = access
	}
	return b, nil
}

// Address returns the address of a key, for messages.
func (b *bucket) Address(key string) string { return "s3://" + b.name + "/" + key }

// Identity returns the key's address on the server.
func (b *bucket) Identity(key string) string { return b.url(key) }

// url returns the address of a key. The bucket's name is in the path. On Amazon's own servers it is in the host instead,
// unless it has a dot.
func (b *bucket) url(key string) string {
	u := url.URL{Scheme: "https", Host: "s3." + *b.region.Load() + ".amazonaws.com", Path: "/" + b.name + "/" + key}
	switch {
	case b.endpoint != nil:
		u.Scheme, u.Host = b.endpoint.Scheme, b.endpoint.Host
		u.Path = b.endpoint.Path + u.Path
	case !strings.Contains(b.name, "."): // Amazon's certificates are for one label before the host
		u.Host, u.Path = b.name+"."+u.Host, "/"+key
	}
	u.RawPath = s3utils.EncodePath(u.Path)
	return u.String()
}

// listPage is a page of a listing (ListObjectsV2 of S3's API).
type listPage struct {
	IsTruncated              bool
	NextContinuationToken    string
	Contents, CommonPrefixes forEachListed
}

// forEachListed is a function that the decoder of a page calls with each element of a list: many empty ones take no memory.
type forEachListed func(listedElement) error

type listedElement struct {
	Key, ETag string
	Size      int64
	Prefix    string // of a folder
}

// UnmarshalXML decodes one element of a list, and calls use with it. It fails for malformed XML, or if use does.
func (use forEachListed) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	var e listedElement
	if err := d.DecodeElement(&e, &start); err != nil {
		return err
	}
	return use(e)
}

// errStopList ends the decoding of a page when the caller of List breaks off its loop.
var errStopList = errors.New("enough")

// List yields the objects and folders directly under prefix. Their names are relative to prefix, and names of folders end with a slash. An
// object without a strong ETag has Version "". List leaves out objects that only mark a folder: their keys are prefix itself, or end with a
// slash. List ends with its first error. It fails if a request does, or if a response is malformed. It fails for a key that does not begin
// with prefix, for a negative size, and for a listing of more than maxPages pages.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[StoredObject, error] {
	return func(yield func(StoredObject, error) bool) {
		query := url.Values{"list-type": {"2"}, "delimiter": {"/"}, "prefix": {prefix}}
		yieldOrStop := func(o StoredObject) error {
			if !yield(o, nil) {
				return errStopList
			}
			return nil
		}
		for range maxPages {
			page := &listPage{Contents: func(c listedElement) error {
				name, ok := strings.CutPrefix(c.Key, prefix)
				switch {
				case !ok || c.Size < 0:
					return fmt.Errorf("the key %.80q of %d bytes", c.Key, c.Size)
				case name == "" || strings.HasSuffix(name, "/"): // it marks a folder
					return nil
				case !strings.HasPrefix(c.ETag, `"`): // no strong ETag
					c.ETag = ""
				}
				return yieldOrStop(StoredObject{name, c.Size, c.ETag})
			}, CommonPrefixes: func(p listedElement) error {
				return yieldOrStop(StoredObject{Name: strings.TrimSuffix(strings.TrimPrefix(p.Prefix, prefix), "/") + "/"})
			}}
			var body []byte
			err := b.retryInRegion(func() (err error) {
				body, _, err = httprange.Get(ctx, strings.TrimSuffix(b.url(""), "/")+"/?"+query.Encode(), maxResponseBytes, &b.http)
				return err
			})
			if err == nil {
				if err = xml.Unmarshal(body, page); err != nil {
					err = fmt.Errorf("%w: a listing: %w", httprange.ErrResponse, err)
				}
			}
			if errors.Is(err, errStopList) {
				return
			}
			if err != nil {
				yield(StoredObject{}, err)
				return
			}
			if !page.IsTruncated || page.NextContinuationToken == "" { // a page without a token is taken for the last
				return
			}
			query.Set("continuation-token", page.NextContinuationToken)
		}
		yield(StoredObject{}, fmt.Errorf("%w: a listing of more than %d pages", httprange.ErrResponse, maxPages))
	}
}

// retryInRegion calls request, which must call b.url anew for its address. If Amazon refuses the request and names another region of the
// bucket, retryInRegion stores that region in b.region, and calls request once more. It returns the last error, as explain changes it.
func (b *bucket) retryInRegion(request func() error) error {
	before := *b.region.Load()
	err := request()
	if status, ok := errors.AsType[*httprange.StatusError](err); ok && b.endpoint == nil {
		if region := status.Header.Get("X-Amz-Bucket-Region"); region != before && regionName.MatchString(region) {
			b.region.Store(&region)
			err = request()
		}
	}
	return b.explain(err)
}

var (
	xmlCode    = regexp.MustCompile(`<Code>([A-Za-z0-9.]+)</Code>`)
	xmlMessage = regexp.MustCompile(`<Message>([^<]*)</Message>`)
)

// explain returns err with a shorter text if err is a *httprange.StatusError: only code and message of the server's XML stay. If the server
// refuses for lack of rights, explain adds what is wrong with the credentials. It returns other errors as they are, and nil for nil.
func (b *bucket) explain(err error) error {
	status := new(httprange.StatusError)
	if !errors.As(err, &status) {
		return err
	}
	if code := xmlCode.FindStringSubmatch(status.Text); code != nil {
		text := code[1]
		if message := xmlMessage.FindStringSubmatch(status.Text); message != nil {
			text += ": " + message[1]
		}
		status.Text = text
	}
	if errors.Is(err, fs.ErrPermission) {
		means := "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
		if b.hasCredentials.Load() {
			means = "the credentials of AWS_ACCESS_KEY_ID or AWS_PROFILE do not open it"
		}
		return fmt.Errorf("%w (%s)", err, means)
	}
	return err
}

// Stat returns size and version of the object at one key. Its request needs no right to list the bucket. The version is "" if the object
// has no strong ETag, but a weak one or only a date. Stat fails if the request does. If the server refuses the request for lack of rights,
// the error is fs.ErrNotExist too. S3 refuses a missing object alike to callers who may not list the bucket.
func (b *bucket) Stat(ctx context.Context, key string, _ StoredObject) (StoredObject, error) {
	o := b.http
	o.Peek = true // no bytes of the object
	var r *httprange.Reader
	err := b.retryInRegion(func() (err error) {
		r, err = httprange.Open(ctx, b.url(key), &o)
		return err
	})
	if errors.Is(err, fs.ErrPermission) {
		err = &fs.PathError{Op: "open", Path: b.Address(key), Err: fmt.Errorf("%w, or may not be read: %w", fs.ErrNotExist, err)}
	}
	if err != nil {
		return StoredObject{}, err
	}
	defer r.Close()
	found := StoredObject{Name: path.Base(key), Size: r.Size(), Version: r.Version()}
	if !strings.HasPrefix(found.Version, `"`) {
		found.Version = ""
	}
	return found, nil
}

// Connect returns the source of the object at key, in the version that object has. It sends no request, unless the object is empty. Offline
// it fails with errOffline.
func (b *bucket) Connect(ctx context.Context, key string, object StoredObject) (Source, error) {
	return b.opts.openSource(ctx, b.url(key), &b.http, object.Size, object.Version, b.explain)
}

// awsAccess has the settings of S3 in the environment and the profile, as Amazon's programs read them. It is a httprange.Authorizer, which
// signs requests by version 4 of Amazon's scheme, if there are credentials.
type awsAccess struct {
	region         atomic.Pointer[string] // an answer of Amazon may change it: see retryInRegion
	endpoint       *url.URL               // nil for Amazon's own
	credentials    *credentials.Credentials
	hasCredentials atomic.Bool // there are credentials: requests are signed
}

// newAWSAccess returns region, endpoint and credentials of S3. The environment's variables come before the profile's settings. The default
// region is us-east-1. newAWSAccess fails if region, endpoint or profile is malformed. It reads no credentials yet.
func newAWSAccess() (*awsAccess, error) {
	profile, err := awsProfile()
	if err != nil {
		return nil, err
	}
	region := envOr("AWS_REGION", envOr("AWS_DEFAULT_REGION", cmp.Or(profile["region"], "us-east-1")))
	if !regionName.MatchString(region) {
		return nil, fmt.Errorf("AWS_REGION: %q is no region", region)
	}
	a := &awsAccess{}
	a.region.Store(&region)
	if at := envOr("AWS_ENDPOINT_URL_S3", envOr("AWS_ENDPOINT_URL", profile["endpoint_url"])); at != "" {
		u, err := url.Parse(strings.TrimSuffix(at, "/"))
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
			return nil, errors.New("AWS_ENDPOINT_URL is no http or https address")
		}
		a.endpoint = u
	}
	a.credentials = credentials.NewChainCredentials(credentialProviders(a.endpoint == nil))
	return a, nil
}

// awsProfile returns the settings of the profile that AWS_PROFILE names, or else of the profile default. It reads the file that
// AWS_CONFIG_FILE names, or else ~/.aws/config. It returns nil if there is no such file or profile. It fails if the file is malformed.
func awsProfile() (map[string]string, error) {
	path := os.Getenv("AWS_CONFIG_FILE")
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil
		}
		path = filepath.Join(home, ".aws", "config")
	}
	file, err := ini.LoadSources(ini.LoadOptions{Loose: true, AllowNestedValues: true}, path) // Loose: a missing file is empty
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	name := envOr("AWS_PROFILE", "default")
	for _, section := range []string{"profile " + name, name} { // "default" has no prefix
		if s, err := file.GetSection(section); err == nil {
			return s.KeysHash(), nil
		}
	}
	return nil, nil
}

// credentialProviders returns what may have credentials, in the order to ask: the environment, the profile, and the role of the container
// or the machine. The container's role is there if the environment names one. Otherwise the machine's role is there if isAmazon is true,
// and the environment does not disable the machine's metadata. isAmazon tells whether the endpoint is Amazon's own.
func credentialProviders(isAmazon bool) []credentials.Provider {
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{Profile: os.Getenv("AWS_PROFILE")}}
	containerRole := envOr("AWS_WEB_IDENTITY_TOKEN_FILE", envOr("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")))
	switch {
	case containerRole != "":
		providers = append(providers, &credentials.IAM{})
	case isAmazon && !strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true"):
		at := envOr("AWS_EC2_METADATA_SERVICE_ENDPOINT", credentials.DefaultIAMRoleEndpoint)
		providers = append(providers, &machineRole{credentials.IAM{Endpoint: strings.TrimSuffix(at, "/")}})
	}
	return providers
}

// machineRole is the machine's own credentials, which the server of its metadata at Endpoint tells.
type machineRole struct{ credentials.IAM }

// unansweredSince has the addresses of metadata that did not answer, with the time of the last attempt.
var unansweredSince sync.Map

// RetrieveWithCredContext returns the credentials of the machine's role. It asks the server of metadata, and fails if that fails or takes
// longer than metadataTimeout. If the server could not be reached or did not answer, it stores the time in unansweredSince. During the next
// retryMetadataAfter, each call then returns errNoMetadata at once. If the caller has ended the request, it stores nothing.
func (r *machineRole) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	if since, ok := unansweredSince.Load(r.Endpoint); ok && time.Since(since.(time.Time)) < retryMetadataAfter {
		return credentials.Value{}, errNoMetadata
	}
	limited := *cc
	ctx, cancel := context.WithTimeout(cc.Context, metadataTimeout)
	defer cancel()
	limited.Context = ctx
	v, err := r.IAM.RetrieveWithCredContext(&limited)
	isUnanswered := err != nil && (errors.As(err, new(*url.Error)) || ctx.Err() != nil)
	if isUnanswered && cc.Context.Err() == nil { // and not because the caller has ended the request
		unansweredSince.Store(r.Endpoint, time.Now())
	}
	return v, err
}

const (
	retryMetadataAfter = 10 * time.Minute // after a request for the machine's metadata that was not answered
	metadataTimeout    = 3 * time.Second  // for the answer to such a request
	credentialsTimeout = 10 * time.Second // for the credentials of a role
)

var errNoMetadata = errors.New("the machine has no metadata")

// Authorize signs req, a request without a body, by headers that it adds. If there are no credentials, it leaves the request as it is. It
// fails if credentials cannot be read within credentialsTimeout, or when the request's context ends.
func (a *awsAccess) Authorize(req *http.Request) error {
	ctx, cancel := context.WithTimeout(req.Context(), credentialsTimeout)
	defer cancel()
	v, err := a.credentials.GetWithContext(&credentials.CredContext{Client: http.DefaultClient, Context: ctx})
	switch {
	case req.Context().Err() != nil:
		return context.Cause(req.Context())
	case err != nil:
		return fmt.Errorf("credentials of AWS: %w", err)
	case v.AccessKeyID == "" || v.SecretAccessKey == "":
		return nil // anonymous
	}
	a.hasCredentials.Store(true)
	req.Header.Set("X-Amz-Content-Sha256", digest.FromBytes(nil).Encoded())
	signer.SignV4(*req, v.AccessKeyID, v.SecretAccessKey, v.SessionToken, *a.region.Load()) // into req.Header
	return nil
}

// Refused returns false and nil: a second signature by the same credentials would be refused too. It implements httprange.Authorizer.
func (a *awsAccess) Refused(*http.Response) (again bool, err error) { return false, nil }

var regionName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
