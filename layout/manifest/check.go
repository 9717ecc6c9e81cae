package manifest

import (
	"encoding/hex"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// The methods of this file compare the manifest with its shards.

// errorf returns an error about a value of the manifest. path has the keys and indexes that lead to it.
func (m *File) errorf(path []any, field string, sentinel error, format string, args ...any) *layout.FormatError {
	return layout.Errorf(layout.Manifest, jsontext.Locate(m.text, path...), field, sentinel, format, args...)
}

// errorAt returns an error about shard i. Its offset is the offset of the shard's name in the manifest.
func (m *File) errorAt(i int, sentinel error, format string, args ...any) error {
	path, field := []any{"shards", i, "file"}, "shards.file"
	if m.Of == layout.SafeTensors {
		path, field = []any{"weight_map", m.tensors[slices.IndexFunc(m.tensors, func(x Place) bool { return x.Shard == i })].Tensor}, "weight_map"
	}
	return m.errorf(path, field, sentinel, format, args...)
}

// UnusableError returns the error that shard i cannot be used, which wraps err.
func (m *File) UnusableError(i int, err error) error {
	return m.errorAt(i, err, "shard %s cannot be used", layout.Quote(m.Shards[i].Name))
}

// SameFileError returns the error that shards i and j are one file under two names. Its index would take memory for each.
func (m *File) SameFileError(i, j int) error {
	return m.errorAt(max(i, j), layout.ErrDuplicate, "shards %s and %s are one file", layout.Quote(m.Shards[min(i, j)].Name), layout.Quote(m.Shards[max(i, j)].Name))
}

// CheckFormat compares the format of shard i with what the manifest says.
func (m *File) CheckFormat(i int, got layout.Format) error {
	if got == m.Of {
		return nil
	}
	return m.errorAt(i, layout.ErrInvalid, "shard %s is of format %v, not %v", layout.Quote(m.Shards[i].Name), got, m.Of)
}

// CheckSize compares the size of shard i with what the manifest says.
func (m *File) CheckSize(i int, size uint64) error {
	if s := &m.Shards[i]; s.Sized && s.Size != size {
		return m.errorf([]any{"shards", i, "size"}, "shards.size", layout.ErrInvalid,
			"shard %s has %d bytes, but should have %d", layout.Quote(s.Name), size, s.Size)
	}
	return nil
}

// CheckChecksum compares the checksum that shard i, decoded from file, states with the checksum in the manifest. It reads no
// bytes but the bytes of the shard's own checksum.
func (m *File) CheckChecksum(i int, shard layout.File, file layout.Input) error {
	s := &m.Shards[i]
	want, ok := s.crc32()
	if !ok || s.provesNothing() {
		return nil
	}
	sums, err := shard.Checksums(file)
	if err != nil {
		return nil // whoever reads all of the shard will say what is wrong
	}
	for _, c := range sums {
		if c.Offset == 0 && c.Size == s.coveredBytes() && c.Want != want {
			return m.errorf([]any{"shards", i, "crc32"}, "shards.crc32", layout.ErrChecksum,
				"shard %s says that its bytes have %08x, but should say %08x: it is not the file that the manifest was written for", layout.Quote(s.Name), c.Want, want)
		}
	}
	return nil
}

// CheckHead compares the head of shard i, a file, with the digest in the manifest, before anything in the
// head is believed. A signed manifest and one of encrypted shards must have the digest: shards of different models cannot be
// mixed.
func (m *File) CheckHead(i int, file layout.Input) error {
	s := &m.Shards[i]
	if s.HeadSHA256 == "" {
		if m.signed || m.Encryption != nil {
			return m.errorf([]any{"shards", i}, "shards.head_sha256", layout.ErrInvalid, "the manifest is signed or encrypted, but has no head_sha256 of shard %s", layout.Quote(s.Name))
		}
		return nil
	}
	got, err := apr2.HeadDigest(file)
	if err != nil {
		return err
	}
	if s.HeadSHA256 != hex.EncodeToString(got[:]) {
		return m.errorf([]any{"shards", i, "head_sha256"}, "shards.head_sha256", layout.ErrChecksum,
			"the head of shard %s has %x, but should have %s: it is not the file that the manifest was written for", layout.Quote(s.Name), got, layout.Quote(s.HeadSHA256))
	}
	return nil
}

// CheckEncrypted makes sure that shard i is encrypted exactly if the manifest says so, and for the same secret.
func (m *File) CheckEncrypted(i int, shard layout.File) error {
	var own *encrypted.Encryption
	if f, ok := shard.(*apr2.File); ok {
		own = f.Encryption
	}
	name, of := layout.Quote(m.Shards[i].Name), m.Encryption
	switch {
	case own == nil && of == nil:
		return nil
	case own == nil:
		return m.errorAt(i, layout.ErrInvalid, "the shards are encrypted, but %s is not", name)
	case of == nil:
		return m.errorAt(i, layout.ErrInvalid, "shard %s is encrypted, but the manifest does not say so", name)
	case !own.SameSecret(of):
		return m.errorAt(i, layout.ErrInvalid, "shard %s has another kdf, argon2 or key_id than the manifest", name)
	}
	return nil
}

// TooManyError returns the error that all shards together have n tensors, more than limit.
func (m *File) TooManyError(n, limit uint64) error {
	key := m.mapKey()
	return m.errorf([]any{key}, key, layout.ErrLimit, "%d tensors in all shards, more than %d", n, limit)
}

// DuplicateError returns the error that two tensors of different shards have the same name.
func (m *File) DuplicateError(a, b *layout.Tensor) error {
	key := m.mapKey()
	return m.errorf([]any{key, string(a.Name)}, key, layout.ErrDuplicate, "tensor %s is in shard %s and in shard %s",
		layout.Quote(a.Name), layout.Quote(m.Shards[a.File].Name), layout.Quote(m.Shards[b.File].Name))
}

// CheckTensors makes sure that the tensors of all shards are where the map says. Their File is the position
// of their shard. find returns a tensor's position in list, or -1. Audit reports less important
// disagreements from then on.
func (m *File) CheckTensors(list []layout.Tensor, find func(name string) int) error {
	key := m.mapKey()
	for _, x := range m.tensors {
		switch at := find(x.Tensor); {
		case at < 0:
			return m.errorf([]any{key, x.Tensor}, key, layout.ErrNotFound,
				"tensor %s should be in shard %s, which has no such tensor", layout.Quote(x.Tensor), layout.Quote(m.Shards[x.Shard].Name))
		case int(list[at].File) != x.Shard:
			return m.errorf([]any{key, x.Tensor}, key, layout.ErrInvalid, "tensor %s should be in shard %s, but is in shard %s",
				layout.Quote(x.Tensor), layout.Quote(m.Shards[x.Shard].Name), layout.Quote(m.Shards[list[at].File].Name))
		}
	}
	m.shardTensors, m.find = list, find
	return nil
}
