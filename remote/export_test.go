package remote

import (
	"context"
	"testing"
)

// MostAtClose is maxMovedAtClose, for tests to lower.
var MostAtClose = &maxMovedAtClose

// MaxNames is maxListingBytes, for tests to lower.
var MaxNames = &maxListingBytes

// BlobReader returns the ReadAt of a registry's blob as Pull opens it.
func BlobReader(t *testing.T, host, repo, digest string, size int64) func(ctx context.Context, p []byte, off int64) error {
	s, err := newRegistry(host, repo, (*Options)(nil).forPull()).layerObject(descriptor{Digest: digest, Size: size}).connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.ReadAt
}
