package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/scheme"
)

// sideFiles lists the files beside Hugging Face's SafeTensors files, and the keys of APR2 metadata
// that they become. MergeConfig distributes the one with the key "".
var sideFiles = []struct{ name, key string }{
	{"config.json", ""},
	{"tokenizer_config.json", "tokenizer_config"},
	{"generation_config.json", "generation_config"},
}

// SideFiles reads config.json, tokenizer_config.json and generation_config.json beside the model, for
// Options.Config. The keys of the first stay; the others
// become the objects tokenizer_config and generation_config. read lists the paths of the files that
// exist. Buckets deny what they do not have: a file that a server denies is none. Files named in skip are not read. A model that has a Trust reads verified ones only.
func SideFiles(ctx context.Context, m *loader.Model, skip ...string) (config layout.Metadata, read []string, err error) {
	limits := (*layout.Limits)(nil).WithDefaults()
	for _, side := range sideFiles {
		if slices.Contains(skip, side.name) {
			continue
		}
		p := pathBeside(m.Files()[0].Path, side.name)
		if md := m.ConfigFile(); md != nil && side.key == "" { // not a second time
			if _, err := m.Quantization(); err != nil && scheme.ReadConfig(md).Err == nil { // it contradicts the model
				return nil, nil, fmt.Errorf("%s: %w", p, err)
			}
			config.Merge(md)
			read = append(read, p)
			continue
		}
		text, err := m.ReadBeside(ctx, side.name, limits.HeaderBytes)
		denied := errors.Is(err, httprange.ErrStatus) && errors.Is(err, fs.ErrPermission)
		if denied || errors.Is(err, fs.ErrNotExist) || errors.Is(err, layout.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		md, err := parseConfig(p, text)
		if err != nil {
			return nil, nil, err
		}
		if side.key != "" {
			md = layout.Metadata{{Key: side.key, Value: md}}
		}
		config.Merge(md)
		read = append(read, p)
	}
	return config, read, nil
}

// pathBeside returns the path, or the address, of a file beside another one.
func pathBeside(path, name string) string {
	at := len(path)
	for at > 0 && !os.IsPathSeparator(path[at-1]) {
		at--
	}
	return path[:at] + name
}

// findStale fills in Stale. A file that cannot be read claims nothing.
func (p *Plan) findStale() {
	if p.Format != layout.SafeTensors || !p.unquantizes() {
		return
	}
	for _, file := range append([]scheme.File{{Name: "config.json"}}, scheme.Files...) {
		path := filepath.Join(filepath.Dir(p.Path), file.Name)
		md := p.model.ConfigFile()
		if md == nil || !sameFile(path, pathBeside(p.model.Files()[0].Path, "config.json")) {
			md, _ = ReadConfig(path)
		}
		if md != nil && scheme.ReadConfig(file.Object(md)).Says() {
			p.Stale = append(p.Stale, path)
		}
	}
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	second, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(first, second)
}

// ReadConfig reads a file that is one JSON object. Errors name the file.
func ReadConfig(path string) (layout.Metadata, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe may wait forever
		return nil, fmt.Errorf("%s: is a %s, not a regular file", path, kind(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limits := (*layout.Limits)(nil).WithDefaults()
	// One byte more, so that Parse sees when there is too much.
	text, err := io.ReadAll(io.LimitReader(f, int64(limits.HeaderBytes)+1))
	if err != nil {
		return nil, err
	}
	return parseConfig(path, text)
}

// parseConfig parses the text of the file at path, which nobody else has.
func parseConfig(path string, text []byte) (layout.Metadata, error) {
	config, err := jsontext.ParsePython(mmapio.String(text), layout.Unknown, 0, "config", (*layout.Limits)(nil).WithDefaults())
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return nil, fmt.Errorf("%s: offset %d: %s", path, fe.Offset, fe.Reason)
	}
	return config, err
}

// kind names the sort of file that is no regular one.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
