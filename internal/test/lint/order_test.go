package lint

import (
	"path/filepath"
	"slices"
	"testing"
)

// ordered are packages whose files have an order from the ground up, which a few pairs of files break.
var ordered = []struct {
	path      string
	files     []string
	maxUpward int // pairs whose first file uses names of the second, which is above it
}{
	// What a model, its files and its tensors are, which know of each other; what opens them; their methods.
	{"./loader", []string{
		"folder_unix.go", "errors.go", "trust.go", "options.go", "source.go", "gate.go", "folder.go", "locate.go", "file.go", "decrypt.go", "place.go",
		"model.go", "observe.go", "lease.go", "metadata.go", "tensor.go", "state.go", "call.go", "weight.go",
		"lookup.go", "config.go", "members.go", "weights.go", "open.go",
		"changed.go", "readat.go", "stats.go", "current.go", "describe.go", "view.go", "expand.go", "footprint_weights.go", "footprint.go",
		"fs.go", "multiply.go", "region.go", "slice.go", "streamread.go", "streamplan.go", "stream.go", "sums.go", "verify.go",
		"verifytrust.go", "warm.go", "write.go", "writeas.go", "doc.go",
	}, 8},
	// What sources share, a model's files, sources, addresses.
	{"./remote", []string{
		"names.go", "options.go", "source.go", "object.go", "file.go", "folder.go", "model.go",
		"pull.go", "stitch.go", "hub.go", "store.go", "web.go", "bucket.go",
		"bearer.go", "registry.go", "archive.go", "ollama.go", "oci.go",
		"cache.go", "open.go", "doc.go",
	}, 5},
}

// TestOrderOfFiles counts the pairs of files of a package that depend upward.
func TestOrderOfFiles(t *testing.T) {
	for _, p := range ordered {
		pkgs, exports := list(t, ".", []string{p.path})
		uses, err := fileUses(pkgs[0], exports)
		if err != nil {
			t.Fatal(err)
		}
		var upward []string
		for from, all := range uses {
			for _, to := range all {
				a, b := slices.Index(p.files, filepath.Base(from)), slices.Index(p.files, filepath.Base(to))
				if a < 0 || b < 0 {
					t.Errorf("%s: the order lacks %s or %s", p.path, from, to)
				}
				if a < b {
					upward = append(upward, filepath.Base(from)+" uses "+filepath.Base(to))
				}
			}
		}
		if slices.Sort(upward); len(upward) > p.maxUpward {
			t.Errorf("%s: %d pairs, more than %d: %q", p.path, len(upward), p.maxUpward, upward)
		}
	}
}
