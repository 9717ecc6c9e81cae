package trust

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// defaultIgnored are the names at the top of a directory that are not signed, as by the reference client.
var defaultIgnored = []string{".git", ".gitattributes", ".github", ".gitignore"}

// linkRule is a function that returns an error if the symbolic link called name, relative to the directory root, must not be followed.
type linkRule func(root, name string) error

// noLinks refuses every link: it is a linkRule.
func noLinks(_, name string) error {
	return fmt.Errorf("%w: %s is a symbolic link", layout.ErrUnsupported, layout.Quote(name))
}

// warnedLinks returns a linkRule that allows every link that can be followed. It calls warn, unless that is nil, for each that leads out
// of the directory.
func warnedLinks(warn func(error)) linkRule {
	return func(root, name string) error {
		target, err := filepath.EvalSymlinks(pathBelow(root, name))
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(root, target); warn != nil && (err != nil || !filepath.IsLocal(rel)) {
			warn(fmt.Errorf("%s: the link leads out of the directory, to %s", pathBelow(root, name), layout.Quote(target)))
		}
		return nil
	}
}

// cacheLinks refuses all links but links from a snapshot of the Hugging Face cache to blobs of that cache: of its
// repository, or blobs that repositories share. From release 1.32 on huggingface_hub stores the bytes in CACHE/blobs/XX/HASH, and links to
// them in the blobs of repositories. root has no links in it.
func cacheLinks(root, name string) error {
	snapshots := filepath.Dir(root)
	repository := filepath.Dir(snapshots)
	target, err := filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	blobs, err := filepath.EvalSymlinks(filepath.Join(repository, "blobs"))
	own := err == nil && filepath.Dir(target) == blobs
	rel, err := filepath.Rel(filepath.Join(filepath.Dir(repository), "blobs"), target)
	shared := err == nil && filepath.IsLocal(rel)
	if filepath.Base(snapshots) != "snapshots" || !own && !shared {
		return noLinks(root, name)
	}
	return nil
}

// isAmong returns a function that reports whether a name is one of paths, or lies below one.
func isAmong(paths []string) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
	}
}

// Within returns the names of paths relative to the directory at root, with slashes. Relative paths
// count from the current directory, as in --ignore-paths of the reference client. One that is not below
// root is an error.
func Within(root string, paths ...string) (names []string, err error) {
	for _, p := range paths {
		name := relativeTo(root, p)
		if name == "" {
			return nil, fmt.Errorf("%s: %w: it does not lie below %s; paths count from the current directory", p, layout.ErrInvalid, root)
		}
		names = append(names, name)
	}
	return names, nil
}

// listFiles returns the names of the files below root, in order, with slashes. A file itself is named ".".
// If skip is true for a name, it and all below it are left out. Links to directories, links that rule link refuses, and
// files that are not regular, are errors.
func listFiles(root string, skip func(name string) bool, link linkRule) (names []string, err error) {
	if info, err := os.Stat(root); err != nil {
		return nil, err
	} else if info.Mode().IsRegular() {
		return []string{"."}, nil
	}
	absolute, err := resolveLinks(root)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(absolute, func(file string, d fs.DirEntry, err error) error { // not fs.WalkDir, which wants names in UTF-8
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(absolute, file)
		name := filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case name != "." && skip(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			if err := link(absolute, name); err != nil {
				return err
			}
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%w: the link %s leads to no file", layout.ErrUnsupported, layout.Quote(name))
			}
		case !d.Type().IsRegular():
			return fmt.Errorf("%w: %s is no regular file, but %v", layout.ErrUnsupported, layout.Quote(name), d.Type())
		}
		if err := checkName(name); err != nil {
			return err
		}
		names = append(names, name)
		return nil
	})
	slices.Sort(names)
	return names, err
}

// relativeTo returns the name of file relative to root, with slashes, or "" if it does not lie below root.
func relativeTo(root, file string) string {
	root, rootErr := resolveLinks(root)
	dir, dirErr := resolveLinks(filepath.Dir(file))
	rel, err := filepath.Rel(root, filepath.Join(dir, filepath.Base(file)))
	if cmp.Or(rootErr, dirErr, err) != nil || !filepath.IsLocal(rel) || rel == "." {
		return ""
	}
	return filepath.ToSlash(rel)
}

// resolveLinks returns path as an absolute path without symbolic links. If path does not exist, links in it stay.
func resolveLinks(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if target, missing := filepath.EvalSymlinks(abs); err == nil && missing == nil {
		abs = target
	}
	return abs, err
}

// pathBelow returns the path of the file called name by listFiles: root itself for ".", else name below root.
func pathBelow(root, name string) string {
	if name == "." {
		return root
	}
	return filepath.Join(root, filepath.FromSlash(path.Clean(name)))
}
