package lint

import (
	"path/filepath"
	"slices"
	"testing"
)

// remoteFiles are the files of package remote from the ground up: what sources share, a model's files, sources, addresses.
var remoteFiles = []string{
	"system_flock.go", "system_other.go", "downloads.go", "options.go", "names.go", "source.go", "cachefile.go",
	"address.go", "hub.go", "object.go", "elsewhere.go", "file.go", "fill.go", "folder.go", "contents.go", "stitch.go",
	"snapshot.go", "web.go", "store.go", "aws.go", "bucket.go",
	"bearer.go", "registry.go", "mediatype.go", "archive.go", "ollama.go", "oci.go",
	"cache.go", "open.go", "doc.go",
}

// maxUpward is the number of pairs of files of remote whose first file uses names of the second, which is above it.
const maxUpward = 5

// TestRemoteDependsDownward counts the pairs of files of package remote that depend upward.
func TestRemoteDependsDownward(t *testing.T) {
	pkgs, exports := list(t, ".", []string{"./remote"})
	uses, err := fileUses(pkgs[0], exports)
	if err != nil {
		t.Fatal(err)
	}
	var upward []string
	for from, all := range uses {
		for _, to := range all {
			a, b := slices.Index(remoteFiles, filepath.Base(from)), slices.Index(remoteFiles, filepath.Base(to))
			if a < 0 || b < 0 {
				t.Errorf("remoteFiles lacks %s or %s", from, to)
			}
			if a < b {
				upward = append(upward, filepath.Base(from)+" uses "+filepath.Base(to))
			}
		}
	}
	if slices.Sort(upward); len(upward) > maxUpward {
		t.Errorf("%d pairs, more than %d: %q", len(upward), maxUpward, upward)
	}
}
