package shard

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/tensormap/tensormap/layout"
)

// Split describes the files of a GGUF model in several files, its shards. It is derived from one of them.
type Split struct {
	No      int // number of the shard that it was derived from, counted from 0
	Count   int // number of shards
	Tensors int // number of tensors of all shards

	stem string // what the names of all shards begin with
}

// shardName matches the names of shards of a model in several files. A file of GGUF says itself of how many shards it is one; for the others a
// manifest or an index does.
var shardName = regexp.MustCompile(`(?s)^(.*)-([0-9]{5})-of-([0-9]{5})(\.apr|\.gguf|\.safetensors)$`)

const gguf = ".gguf"

// setName returns what the names of all shards of a GGUF set have in common, unlike any other set in the
// same directory. It is "" for a name that no shard has.
func setName(file string) string {
	m := shardName.FindStringSubmatch(file)
	if m == nil || m[4] != gguf {
		return ""
	}
	return m[1] + "-of-" + m[3]
}

// IsShard reports whether file is the name of one of several APR2 or SafeTensors shards. A manifest or an index leads to
// all of them.
func IsShard(file string) bool {
	m := shardName.FindStringSubmatch(file)
	return m != nil && m[3] != "00001" && m[4] != gguf
}

// Whole returns the name that a model with a shard called file has as one file. It is "" if file is not the name of a
// shard.
func Whole(file string) string {
	if m := shardName.FindStringSubmatch(file); m != nil {
		return m[1] + m[4]
	}
	return ""
}

// SplitOf derives the Split from one of its files, f, which is called path. It returns nil if f is a complete model.
// The name must agree with the number of the shard that the file states, because the other names are derived from it.
func SplitOf(f layout.File, path string) (*Split, error) {
	s, ok := f.(layout.Splitter)
	if !ok {
		return nil, nil
	}
	no, count, tensors, ok := s.Split()
	if !ok {
		return nil, nil
	}
	name := filepath.Base(path)
	m := shardName.FindStringSubmatch(name)
	if m == nil || m[4] != gguf || m[2] != fmt.Sprintf("%05d", no+1) || m[3] != fmt.Sprintf("%05d", count) {
		return nil, layout.Errorf(f.Index().Format, 0, "split.no", layout.ErrInvalid,
			"shard %d, counted from 0, of %d, whose name must end in -%05d-of-%05d.gguf for the others to be found; this is %s",
			no, count, no+1, count, layout.Quote(name))
	}
	return &Split{No: int(no), Count: int(count), Tensors: int(tensors), stem: m[1]}, nil
}

// Name returns the name of shard i, in the directory of all.
func (s *Split) Name(i int) string { return fmt.Sprintf("%s-%05d-of-%05d.gguf", s.stem, i+1, s.Count) }

// Unusable returns the error of a shard i that cannot be used because of err. f is the file that s was derived from.
func (s *Split) Unusable(f layout.File, i int, err error) error {
	return layout.Errorf(f.Index().Format, 0, "split.count", err, "shard %d of %d, %s, cannot be used", i+1, s.Count, layout.Quote(s.Name(i)))
}

// Check returns an error if f does not state that it is shard i of s.
func (s *Split) Check(f layout.File, i int) error {
	format := f.Index().Format
	var no, count uint16
	var tensors int32
	if file, ok := f.(layout.Splitter); ok {
		no, count, tensors, _ = file.Split()
	}
	origin := layout.Quote(s.Name(s.No)) // the shard that s was derived from
	switch {
	case int(count) != s.Count:
		return layout.Errorf(format, 0, "split.count", layout.ErrInvalid, "%d, but %s says %d", count, origin, s.Count)
	case int(no) != i:
		return layout.Errorf(format, 0, "split.no", layout.ErrInvalid, "%d, but by its name, which counts from 1, it is shard %d", no, i)
	case int(tensors) != s.Tensors:
		return layout.Errorf(format, 0, "split.tensors.count", layout.ErrInvalid, "%d, but %s says %d", tensors, origin, s.Tensors)
	}
	return nil
}

// Stitch makes one table of the tensors of all shards. shards are their indexes; Check has accepted the files. It fails
// if there are more tensors than lim allows, or not as many as the shards state, or if a name occurs twice.
func (s *Split) Stitch(shards []*layout.Index, lim *layout.Limits) (*Table, error) {
	format := shards[0].Format
	t, err := stitch(shards, lim, func(count, limit uint64) error {
		return layout.Errorf(format, 0, "tensor_count", layout.ErrLimit, "%d tensors in all shards, more than %d", count, limit)
	}, func(a, b *layout.Tensor) error {
		return layout.Errorf(format, b.Offset, "name", layout.ErrDuplicate, "tensor %s is in %s and, at this offset, in %s",
			layout.Quote(a.Name), layout.Quote(s.Name(int(a.File))), layout.Quote(s.Name(int(b.File))))
	})
	if err == nil && len(t.Tensors) != s.Tensors {
		return nil, layout.Errorf(format, 0, "split.tensors.count", layout.ErrInvalid, "%d, but the %d shards hold %d", s.Tensors, s.Count, len(t.Tensors))
	}
	return t, err
}
