package remote

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// Bounds of archives. Those of configuration are read when a model is opened: mostSettings bounds what all of them hold.
const (
	mostSettings = 64 << 20
	mostMembers  = 10_000
)

// addArchive adds the files in a layer that is an archive.
func (r *registry) addArchive(ctx context.Context, d *folder, l descriptor, t layerType) error {
	at, err := d.opts.ownPlace(l.hex())
	if err != nil {
		return err
	}
	o := r.object(l, d.name("")+"@"+l.Digest, at)
	f, err := d.openObject(ctx, o, "")
	if err != nil {
		return err
	}
	defer f.Close()
	if t.role != settings && t.compression == "" {
		return r.addMembers(ctx, d, o, t, f)
	}
	if l.Size > mostSettings {
		return fmt.Errorf("%w: configuration of %d bytes", loader.ErrUnsupported, l.Size)
	}
	var content []byte
	for at := int64(0); at < l.Size; at = int64(len(content)) { // no memory on the manifest's word
		content = append(content, make([]byte, min(max(at, 1<<20), l.Size-at))...)
		if err := f.ReadVector(ctx, [][]byte{content[at:]}, at); err != nil {
			return err
		}
	}
	if digestOf(content) != l.Digest {
		return layout.ErrChecksum
	}
	return d.unpack(content, t.compression)
}

// unpack adds the files in an archive of configuration.
func (d *folder) unpack(content []byte, compression string) error {
	var archive io.Reader = bytes.NewReader(content)
	switch compression {
	case "":
	case "gzip":
		var err error
		if archive, err = gzip.NewReader(archive); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: an archive compressed by %.80q", loader.ErrUnsupported, compression)
	}
	limited := &io.LimitedReader{R: archive, N: mostSettings - d.unpacked}
	err := eachMember(tar.NewReader(limited), func(name string, h *tar.Header, r io.Reader) error {
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return d.add(name, textObject(body))
	})
	if limited.N <= 0 {
		return fmt.Errorf("%w: configuration of more than %d bytes", loader.ErrUnsupported, mostSettings)
	}
	if err == nil {
		d.unpacked = mostSettings - limited.N
	}
	return err
}

// addMembers adds the files in an archive that is not compressed: each is a range of it.
func (r *registry) addMembers(ctx context.Context, d *folder, layer object, t layerType, f *file) error {
	section := io.NewSectionReader(bound{ctx, f}, 0, f.Size())
	a := &archive{folder: d, layer: layer}
	return eachMember(tar.NewReader(section), func(name string, h *tar.Header, _ io.Reader) error {
		off, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if h.Size > layer.size-off {
			return fmt.Errorf("%s leaves its archive: %w", name, layout.ErrTruncated)
		}
		if t.role == weights && slices.Contains(formats.Suffixes(), path.Ext(name)) {
			d.choice = append(d.choice, name)
		}
		a.members = append(a.members, member{name, off, h.Size})
		return d.add(name, object{
			size: h.Size, id: identity("sha256:"+layer.id, fmt.Sprint(off, "+", h.Size)), origin: layer.origin,
			check: func(ctx context.Context, r io.Reader) error { return a.check(ctx, name, r) },
			connect: func(ctx context.Context, version string) (Source, error) {
				s, err := layer.connect(ctx, version)
				return part{s, off, h.Size}, err
			},
		})
	})
}

// archive is a layer whose files are kept one by one. Only the whole layer has a digest.
type archive struct {
	*folder
	layer   object
	members []member
	right   atomic.Bool // the digest has been compared, and is right
}

// member is a file in an archive.
type member struct {
	name      string
	off, size int64
}

// check compares the digest of the archive once all its files have come: r reads the file called last. If the
// digest is wrong, it removes the files that have their final place.
func (a *archive) check(ctx context.Context, last string, r io.Reader) error {
	if a.right.Load() {
		return nil
	}
	between, err := a.openContent(ctx, a.layer, "")
	if err != nil {
		return err
	}
	defer between.release()
	var all []io.Reader
	var placed []rooted.Path
	at := int64(0)
	for _, m := range a.members {
		all = append(all, io.NewSectionReader(bound{ctx, between}, at, m.off-at))
		if at = m.off + m.size; m.name == last {
			all = append(all, r)
			continue
		}
		o := a.objects[m.name]
		f, err := a.openContent(ctx, o, m.name)
		if err != nil {
			return err
		}
		defer f.release()
		if f.whole != nil {
			placed = append(placed, o.place.path)
		} else if f.part == nil || f.part.Have() < m.size {
			return nil
		}
		all = append(all, io.NewSectionReader(bound{ctx, f}, 0, m.size))
	}
	all = append(all, io.NewSectionReader(bound{ctx, between}, at, a.layer.size-at))
	err = a.layer.check(ctx, io.MultiReader(all...))
	switch {
	case errors.Is(err, errOffline): // what is between the files was not fetched
		return nil
	case errors.Is(err, layout.ErrChecksum):
		for _, path := range placed {
			err = errors.Join(err, path.Remove())
		}
		return fmt.Errorf("archive %s: %w", a.layer.name, err)
	}
	a.right.Store(err == nil)
	return err
}

// eachMember calls add with each regular file in an archive. Links and devices are an error.
func eachMember(archive *tar.Reader, add func(name string, h *tar.Header, r io.Reader) error) error {
	for n := 0; ; n++ {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("archive: %w", err)
		case n == mostMembers:
			return fmt.Errorf("%w: an archive of more than %d files", loader.ErrUnsupported, mostMembers)
		case h.Typeflag == tar.TypeDir, h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case h.Typeflag != tar.TypeReg || isSparse(h):
			return fmt.Errorf("%w: %q in an archive is no regular file", loader.ErrUnsupported, h.Name)
		}
		name := strings.TrimPrefix(h.Name, "./")
		if err := checkName(name); err != nil {
			return err
		}
		if err := add(name, h, archive); err != nil {
			return err
		}
	}
}

// isSparse reports whether a file's holes are left out of its archive, by one of the formats that GNU tar has had since
// its own: the size is that with holes, which may be any.
func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// part is a range of another source.
type part struct {
	Source
	off, size int64
}

// Version returns that of the other source.
func (p part) Version() string { return versionOf(p.Source) }

// ReadAt implements io.ReaderAt.
func (p part) ReadAt(b []byte, off int64) (int, error) {
	return p.ReadAtContext(context.Background(), b, off)
}

// ReadAtContext does what ReadAt does, and ends with ctx.
func (p part) ReadAtContext(ctx context.Context, b []byte, off int64) (int, error) {
	return sparse.ReadAt(ctx, p, p.size, b, off)
}

// ReadVector fills one buffer after another with the consecutive bytes of the part from off on.
func (p part) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	if off < 0 || off > p.size || sparse.TotalBytes(bufs) > p.size-off {
		return io.ErrUnexpectedEOF
	}
	return p.Source.ReadVector(ctx, bufs, p.off+off)
}
