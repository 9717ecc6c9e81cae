package remote

import (
	"context"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// MostAtClose is maxMovedAtClose, for tests to lower.
var MostAtClose = &maxMovedAtClose

// MaxNames is maxListingBytes, for tests to lower.
var MaxNames = &maxListingBytes

// BlobReader returns the ReadAt of a registry's blob, which has this content, as Pull opens it.
func BlobReader(t *testing.T, host, repo string, content []byte) func(ctx context.Context, p []byte, off int64) error {
	d := ocispec.Descriptor{Digest: digest.FromBytes(content), Size: int64(len(content))}
	s, err := newRegistry(host, repo, (*Options)(nil).forPull()).layerObject(descriptor{Descriptor: d}).connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.ReadAt
}
