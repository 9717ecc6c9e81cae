package report

import (
	"fmt"
	"slices"

	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// ClaimedSigner returns who has signed the model that l holds, as the model itself says: nobody has verified it. It returns
// "unknown" if the model does not say who, and "" if it is not signed.
func ClaimedSigner(l *loader.Lease) string {
	if !slices.Contains(l.Model().Files()[0].Layout.Index().Flags, apr2.Signed.String()) {
		return ""
	}
	if md, err := l.Metadata(); err == nil {
		if by, ok := md.Get("signature", "public_key"); ok {
			return Printable(fmt.Sprintf("Ed25519 %v", by))
		}
	}
	return "unknown"
}
