package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/internal/contentid"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// point makes the symbolic link at, a name in a snapshot, lead to blob, by a relative path. It leaves a link that leads
// to a file as it is. The cache's folder gets a CACHEDIR.TAG.
func point(at, blob rooted.Path) error {
	if _, err := os.Stat(at.String()); err == nil {
		return nil
	}
	tag := rooted.Path{Dir: at.Dir, Name: "CACHEDIR.TAG"} // as huggingface_hub does, for backup programs (bford.info/cachedir)
	if _, err := os.Lstat(tag.String()); errors.Is(err, fs.ErrNotExist) {
		if err := tag.Write([]byte("Signature: 8a477f597d28d172789f06886806bc55\n")); err != nil {
			return err
		}
	}
	target, err := filepath.Rel(at.Parent().String(), blob.String())
	if err != nil {
		return err
	}
	return at.Symlink(target)
}

// relink makes at a symbolic link to target, by a relative path, whatever it led to before.
func relink(at, target rooted.Path) error {
	to, err := filepath.Rel(at.Parent().String(), target.String())
	if err != nil {
		return err
	}
	if now, err := os.Readlink(at.String()); err == nil && now == to {
		return nil
	}
	return at.Symlink(to)
}

// writeWhole replaces a small file at once, and makes the folders that lead to it. It does nothing if the file has
// the text already, or if the cache cannot be written to.
func writeWhole(path rooted.Path, text []byte) error {
	if old, err := path.Read(); err == nil && string(old) == string(text) {
		return nil
	}
	return unlessUnwritable(path.Write(text))
}

// sha256Check returns the check of content whose SHA-256 is digest, in hex.
func sha256Check(digest string) func(ctx context.Context, r io.Reader) error {
	return func(ctx context.Context, r io.Reader) error { return checkDigest(ctx, r, sha256.New(), digest) }
}

// checkContent reads content of size bytes, and returns an error unless id is its digest: SHA-256, or git's of a blob.
func checkContent(ctx context.Context, r io.Reader, id string, size int64) error {
	form, err := contentid.Parse(id)
	if err != nil {
		return err
	}
	return checkDigest(ctx, r, form.Hash(uint64(size)), id)
}

// checkDigest reads r to its end into h, and returns layout.ErrChecksum unless want is the sum in hex. It ends with ctx.
func checkDigest(ctx context.Context, r io.Reader, h hash.Hash, want string) error {
	for n := int64(1); n > 0; { // until CopyN copies nothing; it says io.EOF before, for the last bytes
		var err error
		if n, err = io.CopyN(h, r, 8<<20); err != nil && err != io.EOF {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%w: its digest is %s, not %s", layout.ErrChecksum, got, want)
	}
	return nil
}
