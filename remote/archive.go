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

	"github.com/opencontainers/go-digest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
)

// maxSettings bounds the bytes of all archives that are unpacked in memory, with their headers. maxMembers is the maximum number of entries
// in one archive.
const (
	maxSettings = 64 << 20
	maxMembers  = 10_000
)

// addArchive adds to d the files in the archive that is layer l. t is what the layer's media type tells. An archive of configuration, or a
// compressed one, is read into memory and unpacked there. For others addArchive calls addArchiveFiles. The caller must refuse weights in
// compressed archives. addArchive fails with loader.ErrUnsupported if the archive needs more than maxSettings bytes in memory, and with
// layout.ErrChecksum for a wrong digest. It also fails if the layer cannot be read.
func (r *registry) addArchive(ctx context.Context, d *folder, l descriptor, t layerType) error {
	o := r.layerObject(l)
	o.name, o.paths = d.messageName("")+"@"+string(l.Digest), d.opts.ownCachePaths(l.Digest.Encoded())
	if t.role != settings && t.compression == "" {
		return d.addArchiveFiles(ctx, o, t.role)
	}
	if l.Size > maxSettings {
		return fmt.Errorf("%w: configuration of %d bytes", loader.ErrUnsupported, l.Size)
	}
	f, err := d.openObject(ctx, o)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(io.NewSectionReader(contextReader{ctx, f}, 0, l.Size)) // l.Size, a server's word, may be far too large
	if err != nil {
		return err
	}
	if digest.FromBytes(content) != l.Digest {
		return layout.ErrChecksum
	}
	return d.unpackInMemory(bytes.NewReader(content), t.compression)
}

// unpackInMemory adds to d the files in archive, the bytes of a tar archive. The files stay in memory. compression is "" or "gzip". For any
// other, unpackInMemory fails with loader.ErrUnsupported. It fails with the same error once all archives of d together have unpacked to
// maxSettings bytes. It also fails for a malformed archive, or if addFile does.
func (d *folder) unpackInMemory(archive io.Reader, compression string) error {
	if compression == "gzip" {
		var err error
		if archive, err = gzip.NewReader(archive); err != nil {
			return err
		}
	} else if compression != "" {
		return fmt.Errorf("%w: an archive compressed by %.80q", loader.ErrUnsupported, compression)
	}
	limited := &io.LimitedReader{R: archive, N: maxSettings - d.unpackedBytes}
	err := eachRegularFile(tar.NewReader(limited), func(name string, h *tar.Header, r io.Reader) error {
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return d.addFile(name, textObject(body))
	})
	if limited.N <= 0 { // the limit has cut the archive off
		return fmt.Errorf("%w: configuration of %d bytes or more", loader.ErrUnsupported, maxSettings)
	}
	if err == nil {
		d.unpackedBytes = maxSettings - limited.N
	}
	return err
}

// addArchiveFiles adds to d the files in layer, an archive that is not compressed. It first downloads the archive to the cache, and checks
// its digest. Each file in it is a range of the archive, which is read from there, and is cached as a file of its own. If layerRole is
// weights, files with a model's suffix join d.modelCandidates. addArchiveFiles fails if the download does, or if a file ends beyond the
// archive. It also fails as eachRegularFile does.
func (d *folder) addArchiveFiles(ctx context.Context, layer object, layerRole role) error {
	f, err := d.openDownloaded(ctx, layer)
	if err != nil {
		return err
	}
	defer f.Close()
	section := io.NewSectionReader(contextReader{ctx, f}, 0, f.Size())
	return eachRegularFile(tar.NewReader(section), func(name string, h *tar.Header, _ io.Reader) error {
		off, err := section.Seek(0, io.SeekCurrent) // where the content begins: tar.Reader has read the header and no more
		if err != nil {
			return err
		}
		if h.Size > layer.size-off {
			return fmt.Errorf("%s leaves its archive: %w", name, layout.ErrTruncated)
		}
		if layerRole == weights && slices.Contains(formats.Suffixes(), path.Ext(name)) {
			d.modelCandidates = append(d.modelCandidates, name)
		}
		id := derivedID("sha256:"+layer.id, fmt.Sprint(off, "+", h.Size))
		return d.addFile(name, object{id: id, size: h.Size, connect: func(ctx context.Context, _ string) (Source, error) {
			f, err := d.openDownloaded(ctx, layer)
			if err != nil {
				return nil, err
			}
			return headThenRange{source: cachedSource{f}, off: off, n: h.Size}, nil
		}})
	})
}

// openDownloaded opens the content o. It first downloads the bytes that the cache lacks, and checks the digest once all are there. It fails
// with layout.ErrChecksum if the digest is wrong. It also fails if the download does, or without a cache.
func (d *folder) openDownloaded(ctx context.Context, o object) (*file, error) {
	f, err := d.openObject(ctx, o)
	switch {
	case err != nil || f.complete != nil:
		return f, err
	case f.partial == nil:
		err = fmt.Errorf("%w: weights in an archive need a cache that can be written to: they are downloaded before they are read", loader.ErrUnsupported)
	default:
		err = f.fetchRest(ctx, d.opts.Progress)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// eachRegularFile calls add with name, header and content of each regular file in an archive. It skips folders and global headers. It fails
// with loader.ErrUnsupported for links, devices, sparse files, and more than maxMembers entries. It also fails for a malformed archive, and
// for a name that checkName refuses.
func eachRegularFile(archive *tar.Reader, add func(name string, h *tar.Header, r io.Reader) error) error {
	for members := 0; ; members++ {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("archive: %w", err)
		case members == maxMembers:
			return fmt.Errorf("%w: an archive of more than %d files", loader.ErrUnsupported, maxMembers)
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

// isSparse reports whether the file with header h is sparse: its archive leaves out holes, and has fewer bytes of it than h.Size. GNU
// tar marks a sparse file by PAX records, not by the Typeflag.
func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}
