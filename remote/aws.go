package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"
	"gopkg.in/ini.v1"
)

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

// credentialProviders returns what may have credentials, in the order to ask: the environment, the profile, and the role of this machine or
// container. A machine's role is left out unless the endpoint is Amazon's, or if the environment disables its metadata.
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

// RetrieveWithCredContext returns the credentials of the machine's role. It fails if the server of metadata does, or does not answer in
// metadataTimeout. If no answer came, or the server could not be reached, it remembers the time in unansweredSince. During the next
// retryMetadataAfter, it then returns errNoMetadata at once.
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
	metadataTimeout    = 3 * time.Second  // for the answer to that
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
	req.Header.Set("X-Amz-Content-Sha256", digestHex(digestOf(nil)))
	signer.SignV4(*req, v.AccessKeyID, v.SecretAccessKey, v.SessionToken, *a.region.Load()) // into req.Header
	return nil
}

// Refused returns false and nil: a second signature by the same credentials would be refused too. It implements httprange.Authorizer.
func (a *awsAccess) Refused(*http.Response) (again bool, err error) { return false, nil }

var regionName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
