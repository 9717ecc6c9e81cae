package remote

import (
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
)

// role is the use that a model has for a layer.
type role int

const (
	otherFile role = iota // may be the model if it has a name
	weights
	settings // configuration, tokenizer, templates
	ignored  // documents, code, data sets
)

// layerType is the meaning of a media type of ModelPack's model-spec 1, Docker's model-spec, or KitOps.
type layerType struct {
	role        role
	suffix      string // of the name that a layer of weights without one gets
	isTar       bool
	compression string
}

// fileTypes are media types of single files, and of Docker's archives.
var fileTypes = map[string]layerType{
	"application/vnd.docker.ai.gguf.v3":             {role: weights, suffix: formats.Suffix(layout.GGUF)},
	"application/vnd.docker.ai.safetensors":         {role: weights, suffix: formats.Suffix(layout.SafeTensors)},
	"application/vnd.docker.ai.dduf":                {role: weights, suffix: ".dduf"},
	"application/vnd.docker.ai.mmproj":              {role: otherFile, suffix: ".mmproj"},
	"application/vnd.docker.ai.vllm.config.tar":     {role: settings, isTar: true},
	"application/vnd.docker.ai.dir.tar":             {role: settings, isTar: true},
	"application/vnd.docker.ai.chat.template.jinja": {role: settings, suffix: ".jinja"},
	"application/vnd.docker.ai.license":             {role: ignored},
}

// typeOf returns what a layer's media type tells. A type that ends in .tar or .tar.gzip before any "+" is an archive; its compression is
// the text after "+", or "". Types of ModelPack and KitOps have their roles in their names. Of theirs, an unknown type has the role
// ignored; of others, otherFile.
func typeOf(mediaType string) layerType {
	if t, ok := fileTypes[mediaType]; ok {
		return t
	}
	t := layerType{role: otherFile}
	base, compression, _ := strings.Cut(mediaType, "+")
	if strings.HasSuffix(base, ".tar") || strings.HasSuffix(base, ".tar.gzip") {
		t.isTar, t.compression = true, compression
	}
	switch kind := strings.TrimPrefix(strings.TrimPrefix(base, "application/vnd.cncf.model."), "application/vnd.kitops.modelkit."); {
	case kind == base: // it has neither prefix
	case strings.HasPrefix(kind, "weight.config."):
		t.role = settings
	case strings.HasPrefix(kind, "weight."), strings.HasPrefix(kind, "model."), strings.HasPrefix(kind, "modelpart."):
		t.role = weights
	default:
		t.role = ignored
	}
	return t
}
