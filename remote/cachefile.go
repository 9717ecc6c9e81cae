package remote

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/internal/contentid"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// linkUnlessExists makes link, a path in a snapshot, a relative symbolic link to blob. If link already leads to a file, it does nothing.
// Otherwise it also makes a CACHEDIR.TAG in the cache's folder, if there is none. It fails if the cache cannot be written to.
func linkUnlessExists(link, blob rooted.Path) error {
	if _, err := os.Stat(link.String()); err == nil {
		return nil
	}
	tag := rooted.Path{Dir: link.Dir, Name: "CACHEDIR.TAG"} // as huggingface_hub does, for backup programs (bford.info/cachedir)
	if _, err := os.Lstat(tag.String()); errors.Is(err, fs.ErrNotExist) {
		if err := tag.Write([]byte("Signature: 8a477f597d28d172789f06886806bc55\n")); err != nil {
			return err
		}
	}
	return replaceLink(link, blob)
}

// replaceLink makes link a relative symbolic link to target. If it is that link already, replaceLink does nothing. Another link or file
// there is replaced. replaceLink fails if the cache cannot be written to.
func replaceLink(link, target rooted.Path) error {
	relative, err := filepath.Rel(link.Parent().String(), target.String())
	if err != nil {
		return err
	}
	if now, err := os.Readlink(link.String()); err == nil && now == relative {
		return nil
	}
	return link.Symlink(relative)
}

// writeCacheFile writes text to the file at path, which appears complete or not at all, and makes its folders. It does nothing if the
// file has that text already. It ignores the error of a cache that cannot be written to: see ignoreUnwritable. It fails with others.
func writeCacheFile(path rooted.Path, text []byte) error {
	if old, err := path.Read(); err == nil && string(old) == string(text) {
		return nil
	}
	return ignoreUnwritable(path.Write(text))
}

// checkContent reads content of size bytes from r, and compares its digest with id. id is a SHA-256, or git's digest of a file.
// checkContent returns layout.ErrChecksum if they differ. It fails if id is neither, if reading does, or when ctx ends.
func checkContent(ctx context.Context, r io.Reader, id string, size int64) error {
	form, err := contentid.Parse(id)
	if err != nil {
		return err
	}
	h := form.Hash(uint64(size))
	for n := int64(1); n > 0; { // until CopyN copies nothing; it says io.EOF before, for the last bytes
		if n, err = io.CopyN(h, r, 8<<20); err != nil && err != io.EOF {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != id {
		return fmt.Errorf("%w: its digest is %s, not %s", layout.ErrChecksum, got, id)
	}
	return nil
}
