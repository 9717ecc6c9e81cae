package shard_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/shard"
)

// shardFile is a GGUF file of which only the index and what it says of a split are there.
type shardFile struct {
	layout.File
	index     *layout.Index
	no, count uint16
	tensors   int32
}

func (p shardFile) Index() *layout.Index { return p.index }

func (p shardFile) Split() (no, count uint16, tensors int32, ok bool) {
	return p.no, p.count, p.tensors, p.count > 0
}

// whole is a file of a format that knows no splits.
type whole struct{ layout.File }

func TestSplitOf(t *testing.T) {
	ix := index(t, layout.GGUF)
	for _, f := range []layout.File{whole{}, shardFile{index: ix}} {
		if s, err := shard.SplitOf(f, "a-00001-of-00002.gguf"); s != nil || err != nil {
			t.Errorf("%v, %v", s, err)
		}
	}
	tests := []struct {
		path string
		no   uint16
		ok   bool
	}{
		{"a-00001-of-00003.gguf", 0, true},
		{"/some/dir/a-00003-of-00003.gguf", 2, true},
		{"a-b-00001-of-00009-00002-of-00003.gguf", 1, true},
		{"-00001-of-00003.gguf", 0, true},
		{"a\nb-00001-of-00003.gguf", 0, true},
		{"a-00002-of-00003.gguf", 0, false}, // another shard
		{"a-00001-of-00004.gguf", 0, false}, // of another number
		{"a.gguf", 0, false},
		{"a-1-of-3.gguf", 0, false},
		{"a-00001-of-00003.bin", 0, false},
		{"a-00001-of-00003.gguf.bak", 0, false},
		{"memory", 0, false},
		{"", 0, false},
	}
	for _, tt := range tests {
		s, err := shard.SplitOf(shardFile{index: ix, no: tt.no, count: 3, tensors: 7}, tt.path)
		if (err == nil) != tt.ok || (s != nil) != tt.ok {
			t.Errorf("%q: %v, %v", tt.path, s, err)
			continue
		}
		if !tt.ok {
			var fe *layout.FormatError
			if !errors.As(err, &fe) || fe.Format != layout.GGUF || fe.Field != "split.no" || !strings.Contains(err.Error(), "-00001-of-00003.gguf") {
				t.Errorf("%q: %v", tt.path, err)
			}
			continue
		}
		if s.No != int(tt.no) || s.Count != 3 || s.Tensors != 7 || !strings.HasSuffix(tt.path, s.Name(s.No)) {
			t.Errorf("%q: %+v", tt.path, s)
		}
		for i := range s.Count {
			if name := s.Name(i); strings.ContainsAny(name, "/\\") || len(name) != len(s.Name(0)) {
				t.Errorf("%q: shard %d is %q", tt.path, i, name)
			}
		}
	}
}

func TestSplitChecks(t *testing.T) {
	ix := index(t, layout.GGUF, "x")
	f := shardFile{index: ix, no: 1, count: 3, tensors: 3}
	s, err := shard.SplitOf(f, "a-00002-of-00003.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(f, 1); err != nil {
		t.Error(err)
	}
	for field, other := range map[string]layout.File{
		"split.count":         shardFile{index: ix, no: 2, count: 4, tensors: 3},
		"split.no":            shardFile{index: ix, no: 0, count: 3, tensors: 3},
		"split.tensors.count": shardFile{index: ix, no: 2, count: 3, tensors: 4},
	} {
		var fe *layout.FormatError
		if err := s.Check(other, 2); !errors.As(err, &fe) || fe.Field != field || !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := s.Check(shardFile{index: ix}, 2); err == nil {
		t.Error("a file that is whole was taken for a part")
	}
	if err := s.Unusable(f, 2, fs.ErrNotExist); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `shard 3 of 3, "a-00003-of-00003.gguf"`) {
		t.Error(err)
	}

	table, err := s.Stitch(parts(t, layout.GGUF, []string{"x"}, []string{"y"}, []string{"z"}), nil)
	if err != nil || len(table.Tensors) != 3 || table.Tensors[2].File != 2 || shard.Find(table, "y") != 1 {
		t.Errorf("%+v, %v", table, err)
	}
	for _, tt := range []struct {
		names [][]string
		lim   layout.Limits
		field string
		want  error
		says  string
	}{
		{[][]string{{"x"}, {"y"}, {"x"}}, layout.Limits{}, "name", layout.ErrDuplicate, `"x" is in "a-00001-of-00003.gguf" and, at this offset, in "a-00003-of-00003.gguf"`},
		{[][]string{{"x"}, {}, {"y"}}, layout.Limits{}, "split.tensors.count", layout.ErrInvalid, "3, but the 3 shards hold 2"},
		{[][]string{{"x"}, {"y"}, {"z"}}, layout.Limits{Tensors: 2}, "tensor_count", layout.ErrLimit, "3 tensors"},
	} {
		_, err := s.Stitch(parts(t, layout.GGUF, tt.names...), &tt.lim)
		var fe *layout.FormatError
		if !errors.As(err, &fe) || fe.Field != tt.field || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v", tt.names, err)
		}
	}
}

// ofNames wants the results that f has for names of files.
func ofNames[V comparable](t *testing.T, f func(file string) V, want map[string]V) {
	t.Helper()
	for file, want := range want {
		if got := f(file); got != want {
			t.Errorf("%q: %v, want %v", file, got, want)
		}
	}
}

func TestSetName(t *testing.T) {
	ofNames(t, shard.SetName, map[string]string{
		"a-00001-of-00002.gguf":                "a-of-00002",
		"a-00002-of-00002.gguf":                "a-of-00002",
		"-99999-of-99999.gguf":                 "-of-99999",
		"a-00001-of-00002-00003-of-00004.gguf": "a-00001-of-00002-of-00004",
		"a-00001-of-00002.safetensors":         "",
		"a-1-of-2.gguf":                        "",
		"a.gguf":                               "",
		"":                                     "",
	})
}

func TestWhole(t *testing.T) {
	ofNames(t, shard.Whole, map[string]string{
		"model-00001-of-00002.safetensors":    "model.safetensors",
		"a-00001-of-00002-00003-of-00004.apr": "a-00001-of-00002.apr",
		"model-00001-of-00001.apr":            "model.apr",
		"model-00001-of-00002.gguf":           "model.gguf",
		"model-00001-of-00002.apr.json":       "",
		"model.safetensors":                   "",
	})
}

func TestIsShard(t *testing.T) {
	ofNames(t, shard.IsShard, map[string]bool{
		"model-00001-of-00002.safetensors": true,
		"model-00002-of-00002.apr":         true,
		"model-00001-of-00001.safetensors": false, // all of it
		"model-00001-of-00002.gguf":        false, // says so itself
		"model-1-of-2.apr":                 false,
		"model.safetensors":                false,
		"":                                 false,
	})
}
