package loader

import (
	"errors"
	"os"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/shard"
)

// Options tune a Model. A nil *Options and every zero field mean the defaults.
type Options struct {
	// Limits caps what a file may make the decoder accept; nil means layout's defaults.
	Limits *layout.Limits
	// CacheBytes bounds the heap that holds expanded and copied tensors, beyond what
	// leases pin. 0 means 1 GiB; negative keeps nothing that no lease pins.
	CacheBytes int64
	// TensorBytes bounds the heap that one tensor may take where it has to be copied or
	// expanded: what a file claims of a sparse or huge tensor shall be an error, not the
	// end of the process. 0 means half of the machine's memory, or 4 GiB where the
	// platform does not tell.
	TensorBytes int64
	// NoMap reads the file on demand into the heap instead of mapping it: for file
	// systems where a page fault may hang or kill. A file that has shrunk is then
	// io.ErrUnexpectedEOF rather than mmapio.ErrFault. Platforms that cannot map always
	// do this, and so does any other with a file that the system refuses to map: Stats tells.
	NoMap bool
}

const defaultCacheBytes = 1 << 30

func (o *Options) withDefaults() Options {
	if o == nil {
		o = &Options{}
	}
	out := *o
	if out.CacheBytes == 0 {
		out.CacheBytes = defaultCacheBytes
	}
	if out.TensorBytes == 0 {
		out.TensorBytes = defaultTensorBytes()
	}
	return out
}

var defaultTensorBytes = sync.OnceValue(func() int64 {
	if n := mmapio.Memory(); n > 0 {
		return int64(n / 2)
	}
	return 4 << 30
})

// Open maps the model file at path and reads its index. The format is told from the
// bytes, not the name. The error names the file and, for a damaged one, wraps a
// *[layout.FormatError] that says where and why.
//
// An APR2 manifest, a SafeTensors index (model.safetensors.index.json) or any one file of a
// GGUF split opens the whole model: see package shard. Its other files lie beside path. What
// opening reads of them are their indexes, several files at a time; a shard is mapped when
// one of its tensors, or its metadata, is first touched, and is an error then if it is no
// longer the file that was opened.
//
// A path may be that of a directory with one model in it: one file called *.safetensors, *.gguf
// and so on that is not part of another model there. Of several, the one called model is taken,
// as Python's transformers do (model.safetensors.index.json, model.safetensors, model.apr, …).
// Shards without their index, as after an interrupted download, are an error. In the Hugging Face
// cache it is a snapshot, or the root of a model (models--…), which leads to the snapshot that
// refs/main names.
func Open(path string, opts *Options) (*Model, error) {
	o := opts.withDefaults()
	mapping, err := o.file(path)
	if errors.Is(err, mmapio.ErrDirectory) {
		if path, err = modelIn(path, o); err == nil {
			mapping, err = o.file(path)
		}
	}
	if err != nil {
		return nil, err
	}
	return newModel(inMemory(path, mapping), beside(path, o), o)
}

// file maps the file at path, or what stands for that.
func (o *Options) file(path string) (*mmapio.Mapping, error) {
	if o.NoMap {
		return mmapio.OpenReader(path)
	}
	return mmapio.Map(path)
}

// OpenFile maps an open file, whatever its read position. The caller keeps f and may
// close it at once. Options.NoMap makes the model read from f, which must then stay open.
// The other files of a sharded model are looked for beside f.Name().
func OpenFile(f *os.File, opts *Options) (*Model, error) {
	o := opts.withDefaults()
	open := mmapio.MapFile
	if o.NoMap {
		open = mmapio.FromFile
	}
	mapping, err := open(f)
	if err != nil {
		return nil, err
	}
	s := inMemory(f.Name(), mapping)
	if now, ok, _ := s.now(); !ok || !now.SameFile(s.opened) { // f is called what it likes
		s.origin = origin{}
	}
	return newModel(s, beside(f.Name(), o), o)
}

// OpenBytes reads the index of a model that is in memory. Views alias b, which must not
// change until Close. It opens no other file, so a manifest or a part of a split is
// ErrUnsupported.
func OpenBytes(b []byte, opts *Options) (*Model, error) {
	return newModel(inMemory("memory", mmapio.FromBytes(b)), nowhere{}, opts.withDefaults())
}

// newModel takes over s, and from, where the model's other files are, also when it fails.
func newModel(s *stored, from source, o Options) (*Model, error) {
	m := &Model{opts: o, path: s.path, from: from}
	m.files = []file{{path: s.path, mapping: s.data, reader: s.reader, origin: s.origin}}
	m.byName = sync.OnceValue(m.sortNames)
	m.cache.Init(cache.Options{
		Budget: max(o.CacheBytes, 0),
		Intact: func(t *layout.Tensor) error { return m.files[t.File].intact() },
		Enter:  m.gate.again,
		Leave:  m.leave,
	})
	opened := false
	defer func() {
		if !opened { // for an error, or a panic of the caller's reader
			m.release() // the first error is the one worth reporting
		}
	}()
	// The file may shrink while its index is read.
	if err := mmapio.Guard(func() error { return m.load(s) }); err != nil {
		return nil, &fileError{m.path, err}
	}
	opened = true
	return m, nil
}

// load decodes the file that the model was opened by, and whatever files it leads to.
func (m *Model) load(s *stored) error {
	defer s.done()
	first := &m.files[0]
	if err := first.decode(m, s.index); err != nil {
		return err
	}
	if manifest, ok := first.layout.(*shard.Manifest); ok {
		return m.loadManifest(*first, manifest)
	}
	split, err := shard.SplitOf(first.layout, m.path)
	if err != nil {
		return err
	}
	if split != nil {
		return m.loadSplit(*first, split)
	}
	m.tensors, m.names = first.index.Tensors, first.index.Names
	return nil
}

// decode reads the file's index from in, which has the bytes that f.mapping has, or will.
func (f *file) decode(m *Model, in layout.Input) error {
	var err error
	if f.layout, err = decode(in, m.opts.Limits); err != nil {
		return err
	}
	f.model, f.metadata = m, new(parsed)
	f.index = f.layout.Index()
	f.align = 8 // of a mapping yet to be made
	if !f.mapping.Pending() {
		f.align = baseAlign(f.mapping.Bytes())
	}
	return nil
}

// baseAlign is the alignment of b's first byte, up to 8, the most that a dtype needs.
func baseAlign(b []byte) int {
	align := 8
	for !mmapio.IsAligned(b, align) {
		align /= 2
	}
	return align
}
