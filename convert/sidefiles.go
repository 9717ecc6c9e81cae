package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
// that they become. MergeConfig distributes the keys of the file whose key is "".
var sideFiles = []struct{ name, key string }{
	{"config.json", ""},
	{"tokenizer_config.json", "tokenizer_config"},
	{"generation_config.json", "generation_config"},
}

// SideFiles reads config.json, tokenizer_config.json and generation_config.json beside the model, for Options.Config. The keys of
// config.json become keys of config. The objects in the other two files become the values of config's keys tokenizer_config and
// generation_config. read lists the paths of the files that were found. SideFiles does not read files named in skip. For a model
// that has a Trust it reads verified files only.
//
// SideFiles leaves out a file that is missing or that a server denies, since buckets deny what they do not have. It finds nothing
// for a model that has no place for side files. It fails if a file cannot be read or parsed, or if config.json reads well but
// contradicts the model's tensors.
func SideFiles(ctx context.Context, m *loader.Model, skip ...string) (config layout.Metadata, read []string, err error) {
	limits := (*layout.Limits)(nil).WithDefaults()
	for _, side := range sideFiles {
		if slices.Contains(skip, side.name) {
			continue
		}
		dir, _ := filepath.Split(m.Files()[0].Path) // of a path or an address
		path := dir + side.name
		md := m.ConfigFile()
		if md != nil && side.key == "" { // the loader has read config.json
			_, err := m.Quantization()
			if readsWell := scheme.ReadConfig(md).Err == nil; err != nil && readsWell {
				return nil, nil, fmt.Errorf("%s: %w", path, err) // its quantization contradicts the model's tensors
			}
		} else {
			text, err := m.ReadBeside(ctx, side.name, limits.HeaderBytes)
			isDenied := errors.Is(err, httprange.ErrStatus) && errors.Is(err, fs.ErrPermission)
			if isDenied || errors.Is(err, fs.ErrNotExist) || errors.Is(err, layout.ErrUnsupported) {
				continue
			}
			if err == nil {
				md, err = parseConfig(path, text)
			}
			if err != nil {
				return nil, nil, err
			}
		}
		if side.key != "" {
			md = layout.Metadata{{Key: side.key, Value: md}}
		}
		config.Merge(md)
		read = append(read, path)
	}
	return config, read, nil
}

// ReadConfig reads the file at path, which must be one JSON object. It fails if the file is not regular, is too long, or
// cannot be read or parsed. Errors name the file.
func ReadConfig(path string) (layout.Metadata, error) {
	f, err := mmapio.OpenReader(path) // a pipe is an error, opening it could wait forever
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limits := (*layout.Limits)(nil).WithDefaults()
	text := make([]byte, min(f.Size(), limits.HeaderBytes+1)) // one byte more tells that there is too much
	if err := mmapio.ReadFull(f, text, 0); err != nil {
		return nil, err
	}
	return parseConfig(path, text)
}

// parseConfig parses text, the contents of the file at path, as one JSON object. NaN and Infinity are allowed, as Python's json
// module writes them. The metadata may alias text. It fails for any other text, with an error that names the file.
func parseConfig(path string, text []byte) (layout.Metadata, error) {
	config, err := jsontext.ParsePython(mmapio.String(text), layout.Unknown, 0, "config", (*layout.Limits)(nil).WithDefaults())
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return nil, fmt.Errorf("%s: offset %d: %s", path, fe.Offset, fe.Reason)
	}
	return config, err
}
