//go:build js

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall/js"
	"time"

	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/shard"
)

// openFiles opens the model among files, a list of {path, file}: the one file, or what loader.Open would choose in the
// topmost directory that has a model.
func openFiles(ctx context.Context, files js.Value) (*loader.Model, error) {
	folders := make(map[string]folder)
	for i := range files.Length() {
		f := files.Index(i)
		dir, name := path.Split(strings.TrimPrefix(f.Get("path").String(), "/"))
		if folders[dir] == nil {
			folders[dir] = make(folder)
		}
		folders[dir][name] = f.Get("file")
		if files.Length() == 1 {
			return loader.OpenFolder(ctx, folders[dir], name, loaderOptions())
		}
	}
	dirs := slices.SortedFunc(maps.Keys(folders), func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	var first error
	for _, dir := range dirs {
		name, err := choose(ctx, folders[dir], slices.Collect(maps.Keys(folders[dir])))
		if err == nil {
			return loader.OpenFolder(ctx, folders[dir], name, loaderOptions())
		}
		err = fmt.Errorf("%s: a folder with %w", strings.TrimSuffix(dir, "/"), err)
		if !errors.Is(err, shard.ErrNoModel) {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = fmt.Errorf("%d files: %w", files.Length(), shard.ErrNoModel)
	}
	return nil, first
}

// choose returns the name of the one model among the files of a folder.
func choose(ctx context.Context, in loader.Folder, names []string) (string, error) {
	return shard.Choose(names, func(name string) *manifest.File {
		f, err := in.Open(ctx, name)
		if err != nil {
			return nil
		}
		defer f.Close()
		decoded, _ := formats.Decode(mmapio.FromReaderAt(readerAt{ctx, f.Source}, f.Source.Size()), nil)
		m, _ := decoded.(*manifest.File)
		return m
	})
}

// readerAt is a source as io.ReaderAt, for ranges within the file.
type readerAt struct {
	ctx context.Context
	loader.Source
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.Source.ReadAt(r.ctx, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// folder has the Files of the browser that lie side by side, by name.
type folder map[string]js.Value

// Open opens the file of a name. It is fs.ErrNotExist if it was not given.
func (f folder) Open(_ context.Context, name string) (loader.FolderFile, error) {
	file, ok := f[name]
	if !ok {
		return loader.FolderFile{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return loader.FolderFile{Name: name, Source: blob{file, int64(file.Get("size").Float())}}, nil
}

// blob is a File of the browser, which is read by ranges.
type blob struct {
	file js.Value
	size int64
}

func (b blob) Size() int64  { return b.size }
func (b blob) Close() error { return nil }

// ReadAt fills p with the bytes from off on. It fails if ctx has ended, or the file was changed or removed since it was given.
func (b blob) ReadAt(ctx context.Context, p []byte, off int64) error {
	for len(p) > 0 {
		breathe()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(len(p), stepBytes)
		if err := b.read(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// stepBytes bounds what the browser holds of a file at once.
const stepBytes = 1 << 20

// buffer is where readInto of worker.js leaves bytes of a file. Go holds objects of the browser until its collector runs, which does
// not see the size of buffers: so it is handed none.
var buffer = js.Global().Get("Uint8Array").New(stepBytes)

func (b blob) read(p []byte, off int64) (err error) {
	defer func() {
		if thrown, ok := recover().(js.Error); ok {
			err = fmt.Errorf("the browser cannot read it: %s", thrown.Get("message").String())
		}
	}()
	if n := js.Global().Call("readInto", b.file, off, off+int64(len(p)), buffer).Int(); n != len(p) {
		return fmt.Errorf("%d bytes where %d were asked for", n, len(p))
	}
	js.CopyBytesToGo(p, buffer)
	return nil
}

// turn is how long reading may keep the worker from its messages.
const turn = 40 * time.Millisecond

var turnBegan = time.Now()

// breathe lets the worker take messages if it has not for long. Go code does not run at the same time: they wait until all
// goroutines do.
func breathe() {
	if time.Since(turnBegan) > turn {
		time.Sleep(time.Millisecond)
		turnBegan = time.Now()
	}
}
