package loader

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/shard"
)

// Open maps the model file at path and reads its index. The format is told from the
// bytes, not the name. The error names the file and, for a damaged one, wraps a
// *[layout.FormatError] that says where and why.
//
// An APR2 manifest, a SafeTensors index (model.safetensors.index.json) or any one file of a
// GGUF split opens the whole model: see package shard. Its other files lie beside path. Opening
// reads their indexes, several files at a time. A shard is mapped when one of its tensors, or its
// metadata, is first touched. It is an error then if it is no longer the file that was opened.
//
// A path may be the path of a directory with one model in it: one file called *.safetensors, *.gguf
// and so on that is not part of another model there. Among several, the one called model is taken,
// as Python's transformers do (model.safetensors.index.json, model.safetensors, model.apr, …).
// Shards without their index, as after an interrupted download, are an error. In the Hugging Face
// cache the directory is a snapshot, or the root of a model (models--…), which leads to the
// snapshot that refs/main names.
func Open(path string, opts *Options) (*Model, error) {
	o := opts.withDefaults()
	path, err := locate(path, o)
	if err != nil {
		return nil, err
	}
	mapping, err := o.mapPath(path)
	if err != nil {
		return nil, err
	}
	return open(context.Background(), mappedFile(path, mapping), folderOf(path, o.NoMap), o)
}

// OpenFile maps an open file, whatever its read position. f stays the caller's, who may close it at once where files
// are mapped. With Options.NoMap, and on platforms that cannot map, the model reads from f until it is gone (see
// [Model.Done]). The other files of a sharded model are looked for beside f.Name(). OpenFile fails if the file is
// damaged or cannot be read.
func OpenFile(f *os.File, opts *Options) (*Model, error) {
	o := opts.withDefaults()
	mapFile := mmapio.MapFile
	if o.NoMap {
		mapFile = mmapio.FromFile
	}
	mapping, err := mapFile(f)
	if err != nil {
		return nil, err
	}
	first := newFile(datafile.New(f.Name(), mapping))
	first.opened = mapping.Identity()
	first.entry = entryOfOpen(f, first.opened)
	return open(context.Background(), first, folderOf(f.Name(), o.NoMap), o)
}

// OpenBytes reads the index of a model that is in memory. Views alias b, which must not change
// until the model is gone (see [Model.Done]). It opens no other file, so a manifest or a part of a
// split is ErrUnsupported.
func OpenBytes(b []byte, opts *Options) (*Model, error) {
	return open(context.Background(), mappedFile("memory", mmapio.FromBytes(b)), inMemory{}, opts.withDefaults())
}

// OpenReaderAt opens a model that the reader r has, such as one in an archive or in an encrypted volume. size is the number of its bytes.
// Opening reads the header and the index. [Model.Metadata] reads the metadata, and a method of a tensor reads the bytes that it needs.
// [Model.Warm] reads several tensors at once into the model's cache, whose size is Options.CacheBytes. OpenReaderAt fails if reading does,
// or for a damaged file.
//
// ctx bounds what opening reads. r is read concurrently. It stays the caller's: see [FromReaderAt]. Errors call it by its
// method Name, if it has one as *os.File does. If r is a [Folder] too, such as one of package
// [github.com/tensormap/tensormap/loader/httprange], r opens the file of that name, and the files beside it.
//
// A method that failed because bytes could not be had tries again when it is next called. Close
// ends the reads that run outside of leases: the methods that were reading return ErrClosed. The release of the
// last lease ends the reads that are left.
func OpenReaderAt(ctx context.Context, r io.ReaderAt, size int64, opts *Options) (*Model, error) {
	name := "reader"
	if r, ok := r.(interface{ Name() string }); ok {
		name = r.Name()
	}
	f, ok := r.(Folder)
	if !ok {
		f = FromReaderAt(name, r, size)
	}
	return OpenFolder(ctx, f, name, opts)
}

// OpenFolder opens the model called name in a folder that is not of this system, such as an address of package httprange. It
// reads as [OpenReaderAt] does. The model closes the files that f opens.
func OpenFolder(ctx context.Context, f Folder, name string, opts *Options) (*Model, error) {
	o := opts.withDefaults()
	from := callersFolder{f, o.NoMap}
	first, err := from.open(ctx, name, followLinks)
	if err != nil {
		return nil, err
	}
	return open(ctx, first, from, o)
}

// open returns a model of the file first and of the files that first names. It opens these files in the place p. open takes over
// first and p, and closes both if it fails. It fails for a file that is damaged, missing or not trusted, or if reading does.
func open(ctx context.Context, first *file, p place, o Options) (*Model, error) {
	begun := time.Now()
	from := newSource(p, o)
	complete := false
	defer func() {
		if !complete { // for an error, or a panic of the caller's reader
			from.close() // an error of closing matters less than the first one
		}
	}()
	if err := from.add(ctx, first); err != nil {
		return nil, err
	}
	if err := from.keys.authenticate(ctx, first, o.Limits); err != nil {
		return nil, err
	}
	var files []*file
	var table *shard.Table
	err := guardFile(first.path, func() error { // a file may shrink while its index is read
		err := first.decode(ctx, o.Limits)
		if err == nil {
			files, table, err = openFiles(ctx, first, from)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	complete = true
	m := newModel(first.path, files, table, from, o)
	if err := m.whileOpen(ctx, nil, m.findWeights); err != nil {
		m.Close()
		return nil, err
	}
	m.log(slog.LevelDebug, "model opened", "format", m.Format(), "files", len(m.files), "tensors", len(m.tensors), "took", time.Since(begun))
	return m, nil
}

// newModel returns a model of opened files, at least one, the table of their tensors, and the source of the files. It takes over
// all three, reads nothing and cannot fail. A manifest must be the last of files.
func newModel(path string, files []*file, table *shard.Table, from *source, o Options) *Model {
	m := &Model{opts: o, done: make(chan struct{}), path: path, source: from, files: files, tensors: decryptedTensors(files, table), names: table.Names}
	m.cacheStore = content.Store{Cache: &m.cache, Limit: content.Limit(max(0, o.TensorBytes)), DropSources: m.dropSources}
	m.storedStates = make(states, len(m.tensors))
	m.manifest, _ = files[len(files)-1].layout.(*manifest.File) // openShards puts it behind the shards
	for _, f := range m.files {
		f.model = m
	}
	cacheOpts := cache.Options{
		Budget:      max(o.CacheBytes, 0),
		CheckSource: func(k cache.Key) error { return checkNotShortened(m.tensorOfKey(k)) },
	}
	if expanded := o.Hooks.Expanded; expanded != nil {
		cacheOpts.OnFilled = func(k cache.Key, bytes uint64, took time.Duration, err error) {
			expanded(m.tensorOfKey(k).Name(), bytes, took, err)
		}
	}
	m.cache.Init(cacheOpts)
	return m
}

// tensorOfKey returns the tensor whose entry the cache has under key k: the logical one for its values, scales and
// constants, else the stored one.
func (m *Model) tensorOfKey(k cache.Key) Tensor {
	isWeight := k.Kind == cache.Logical || k.Kind == cache.Scales || k.Kind == cache.Constants
	return Tensor{model: m, index: k.Tensor, isWeight: isWeight}
}
