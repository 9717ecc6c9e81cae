package remote

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/tensormap/tensormap/loader/httprange"
)

// s3Address is an object in a bucket, or what begins with a prefix.
type s3Address struct{ bucket, key string }

func (a s3Address) String() string { return "s3://" + a.bucket + "/" + a.key }

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)

// parseS3 parses an address after s3://.
func parseS3(rest string) (a s3Address, err error) {
	a.bucket, a.key, _ = strings.Cut(rest, "/")
	if !bucketName.MatchString(a.bucket) || strings.Contains(a.bucket, "..") || strings.ContainsFunc(a.key, func(c rune) bool { return c < ' ' }) {
		return a, fmt.Errorf("s3://%s: not BUCKET/KEY", withoutUser(rest))
	}
	return a, nil
}

// bucket is a bucket of a server that speaks S3's protocol. It implements Store.
type bucket struct {
	name   string
	env    *awsEnvironment
	http   httprange.Options // with the Authorizer of the bucket
	signer *awsSigner
}

// newBucket returns the bucket called name, which signs requests with credentials of the environment unless the options
// have an Authorization. It sends no request. It fails if a setting of AWS is malformed.
func newBucket(name string, o *Options) (*bucket, error) {
	env, err := newAWSEnvironment()
	if err != nil {
		return nil, err
	}
	b := &bucket{name: name, env: env, http: *o.HTTP}
	if b.http.Authorizer == nil && b.http.Header.Get("Authorization") == "" {
		b.signer = newSigner(env)
		b.http.Authorizer = b.signer
	}
	return b, nil
}

// Address returns what messages call a key.
func (b *bucket) Address(key string) string { return s3Address{b.name, key}.String() }

// Identity returns the key's address on the server.
func (b *bucket) Identity(key string) string { return b.url(key) }

// url returns the address of a key. The bucket's name is in the path. On Amazon's own servers it is in the host instead,
// unless it has a dot.
func (b *bucket) url(key string) string {
	u := url.URL{Scheme: "https", Host: "s3." + b.env.region + ".amazonaws.com", Path: "/" + b.name + "/" + key}
	switch {
	case b.env.endpoint != nil:
		u.Scheme, u.Host = b.env.endpoint.Scheme, b.env.endpoint.Host
		u.Path = b.env.endpoint.Path + u.Path
	case !strings.Contains(b.name, "."): // Amazon's certificates are for one label before the host
		u.Host, u.Path = b.name+"."+u.Host, "/"+key
	}
	u.RawPath = s3utils.EncodePath(u.Path)
	return u.String()
}

// listed is a page of a listing (ListObjectsV2 of S3's API).
type listed struct {
	IsTruncated              bool
	NextContinuationToken    string
	Contents, CommonPrefixes eachListed
}

// eachListed is called with the elements of a page, one by one: many empty ones take no memory.
type eachListed func(listedElement) error

type listedElement struct {
	Key, ETag string
	Size      int64
	Prefix    string // of a folder
}

// UnmarshalXML decodes one element of a list, and calls use with it. An error of use ends the decoding.
func (use eachListed) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	var e listedElement
	if err := d.DecodeElement(&e, &start); err != nil {
		return err
	}
	return use(e)
}

// errEnough ends the decoding of a page when the caller of List stops.
var errEnough = errors.New("enough")

// List yields the objects under a prefix, without those in folders, and these. An object without a strong ETag has no
// version.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[StoredObject, error] {
	return func(yield func(StoredObject, error) bool) {
		query := url.Values{"list-type": {"2"}, "delimiter": {"/"}, "prefix": {prefix}}
		found := func(o StoredObject) error {
			if !yield(o, nil) {
				return errEnough
			}
			return nil
		}
		for range maxPages {
			page := &listed{Contents: func(c listedElement) error {
				name, ok := strings.CutPrefix(c.Key, prefix)
				switch {
				case !ok || c.Size < 0:
					return fmt.Errorf("the key %.80q of %d bytes", c.Key, c.Size)
				case name == "" || strings.HasSuffix(name, "/"): // it marks a folder
					return nil
				case !strings.HasPrefix(c.ETag, `"`):
					c.ETag = ""
				}
				return found(StoredObject{name, c.Size, c.ETag})
			}, CommonPrefixes: func(p listedElement) error {
				return found(StoredObject{Name: strings.TrimSuffix(strings.TrimPrefix(p.Prefix, prefix), "/") + "/"})
			}}
			err := b.page(ctx, query, page)
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(StoredObject{}, err)
				return
			}
			if !page.IsTruncated || page.NextContinuationToken == "" {
				return
			}
			query.Set("continuation-token", page.NextContinuationToken)
		}
		yield(StoredObject{}, fmt.Errorf("%w: a listing of more than %d pages", httprange.ErrResponse, maxPages))
	}
}

// page requests one page of a listing, and decodes it into page, whose functions it calls. If the bucket is in another
// region, it stores that in b.env, and asks there.
func (b *bucket) page(ctx context.Context, query url.Values, page *listed) error {
	ask := func() ([]byte, error) {
		body, _, err := httprange.Get(ctx, strings.TrimSuffix(b.url(""), "/")+"/?"+query.Encode(), maxAnswer, &b.http)
		return body, err
	}
	body, err := ask()
	if region := b.otherRegion(err); region != "" {
		b.env.region = region
		body, err = ask()
	}
	if err != nil {
		return b.explain(err)
	}
	if err := xml.Unmarshal(body, page); err != nil {
		return fmt.Errorf("%w: a listing: %w", httprange.ErrResponse, err)
	}
	return nil
}

// otherRegion returns the region that a refusal of Amazon's names, or "" if it names none or the one that was asked.
func (b *bucket) otherRegion(err error) string {
	status, ok := errors.AsType[*httprange.StatusError](err)
	if b.env.endpoint != nil || !ok {
		return ""
	}
	if region := status.Header.Get("X-Amz-Bucket-Region"); region != b.env.region && regionName.MatchString(region) {
		return region
	}
	return ""
}

var (
	xmlCode    = regexp.MustCompile(`<Code>([A-Za-z0-9.]+)</Code>`)
	xmlMessage = regexp.MustCompile(`<Message>([^<]*)</Message>`)
)

// explain shortens the XML text of a refusal, a *httprange.StatusError, to its code and message. To a refusal for lack of
// rights it adds what is wrong with the credentials. Other errors it returns as they are.
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
		if b.signer != nil && b.signer.signs.Load() {
			means = "the credentials of AWS_ACCESS_KEY_ID or AWS_PROFILE do not open it"
		}
		return fmt.Errorf("%w (%s)", err, means)
	}
	return err
}

// Stat returns size and version of the object at one key, for which credentials need no right to list the bucket. An
// object without a strong ETag has no version.
func (b *bucket) Stat(ctx context.Context, key string) (StoredObject, error) {
	ask := func() (*httprange.Reader, error) {
		o := b.http
		o.Peek = true
		return httprange.Open(ctx, b.url(key), &o)
	}
	r, err := ask()
	if region := b.otherRegion(err); region != "" {
		b.env.region = region
		r, err = ask()
	}
	if err != nil {
		return StoredObject{}, b.explain(err)
	}
	defer r.Close()
	found := StoredObject{Name: path.Base(key), Size: r.Size(), Version: r.Version()}
	if !strings.HasPrefix(found.Version, `"`) { // a date, not an ETag
		found.Version = ""
	}
	return found, nil
}

// Connect returns the source of an object. It asks for nothing yet.
func (b *bucket) Connect(ctx context.Context, key string, of StoredObject) (Source, error) {
	return openSource(ctx, b.url(key), b.http, of.Size, of.Version, b.explain)
}
