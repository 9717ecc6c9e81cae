package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"
	"gopkg.in/ini.v1"
)

// awsEnvironment is what the environment and the profile say of S3, as Amazon's programs read them.
type awsEnvironment struct {
	region   string
	endpoint *url.URL // nil for Amazon's own
}

func newAWSEnvironment() (*awsEnvironment, error) {
	profile, err := awsProfile()
	if err != nil {
		return nil, err
	}
	e := &awsEnvironment{region: env("AWS_REGION", env("AWS_DEFAULT_REGION", profile["region"]))}
	if e.region == "" {
		e.region = "us-east-1"
	}
	if !regionName.MatchString(e.region) {
		return nil, fmt.Errorf("AWS_REGION: %q is no region", e.region)
	}
	if at := env("AWS_ENDPOINT_URL_S3", env("AWS_ENDPOINT_URL", profile["endpoint_url"])); at != "" {
		e.endpoint, err = url.Parse(strings.TrimSuffix(at, "/"))
		if err != nil || e.endpoint.Host == "" || e.endpoint.Scheme != "https" && e.endpoint.Scheme != "http" || e.endpoint.User != nil || e.endpoint.RawQuery != "" {
			return nil, errors.New("AWS_ENDPOINT_URL is no http or https address")
		}
	}
	return e, nil
}

// awsProfile returns the settings of AWS_PROFILE in ~/.aws/config.
func awsProfile() (map[string]string, error) {
	path := os.Getenv("AWS_CONFIG_FILE")
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil
		}
		path = filepath.Join(home, ".aws", "config")
	}
	file, err := ini.LoadSources(ini.LoadOptions{Loose: true, AllowNestedValues: true}, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	name := env("AWS_PROFILE", "default")
	for _, section := range []string{"profile " + name, name} {
		if s, err := file.GetSection(section); err == nil {
			return s.KeysHash(), nil
		}
	}
	return nil, nil
}

// awsSigner signs requests by version 4 of Amazon's scheme, if there are credentials. It implements
// httprange.Authorizer.
type awsSigner struct {
	env   *awsEnvironment
	chain *credentials.Credentials
	signs atomic.Bool
}

func newSigner(env *awsEnvironment) *awsSigner {
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{Profile: os.Getenv("AWS_PROFILE")}}
	if onAmazon(env) {
		providers = append(providers, &credentials.IAM{})
	}
	return &awsSigner{env: env, chain: credentials.NewChainCredentials(providers)}
}

// onAmazon reports whether a machine's own role may have credentials: it has no reason to ask the
// network for them if the endpoint is another one's.
func onAmazon(e *awsEnvironment) bool {
	for _, name := range []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return e.endpoint == nil && !strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true")
}

// credentialsTimeout bounds the wait for the credentials of a role.
const credentialsTimeout = 10 * time.Second

// emptyDigest is the SHA-256 of a request without a body.
const emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Authorize signs a request.
func (s *awsSigner) Authorize(req *http.Request) error {
	ctx, cancel := context.WithTimeout(req.Context(), credentialsTimeout)
	defer cancel()
	v, err := s.chain.GetWithContext(&credentials.CredContext{Client: http.DefaultClient, Context: ctx})
	switch {
	case req.Context().Err() != nil:
		return context.Cause(req.Context())
	case err != nil:
		return fmt.Errorf("credentials of AWS: %w", err)
	case v.AccessKeyID == "" || v.SecretAccessKey == "":
		return nil // anonymous
	}
	s.signs.Store(true)
	req.Header.Set("X-Amz-Content-Sha256", emptyDigest)
	signer.SignV4(*req, v.AccessKeyID, v.SecretAccessKey, v.SessionToken, s.env.region) // into req.Header
	return nil
}

// Refused implements httprange.Authorizer. Every request has a signature of its own.
func (s *awsSigner) Refused(*http.Response) (again bool, err error) { return false, nil }
