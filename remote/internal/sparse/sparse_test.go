package sparse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// origin is a source in memory that counts what it gives.
type origin struct {
	content []byte

	mu     sync.Mutex
	asked  []int // per chunk, how often
	calls  atomic.Int64
	before func(off, n int64) error // of each fetch, if set
}

func newOrigin(size int) *origin {
	o := &origin{content: make([]byte, size), asked: make([]int, chunkCount(int64(size)))}
	r := rand.NewChaCha8([32]byte{1})
	r.Read(o.content)
	return o
}

func (o *origin) fetch(ctx context.Context, p []byte, off int64) error {
	o.calls.Add(1)
	if o.before != nil {
		if err := o.before(off, int64(len(p))); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := off / ChunkBytes; i < chunkCount(off+int64(len(p))); i++ {
		o.asked[i]++
	}
	copy(p, o.content[off:])
	return nil
}

// most returns how often the chunk was given that was given most often.
func (o *origin) most() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.asked {
		n = max(n, a)
	}
	return n
}

// at returns the path of a file in a directory.
func at(dir, name string) rooted.Path { return rooted.Path{Dir: dir, Name: name} }

func open(t *testing.T, path rooted.Path, o *origin) *File {
	t.Helper()
	f, err := Open(path, Options{Size: int64(len(o.content)), Identity: "one", Fetch: o.fetch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestMarksStay: a fetch that has got some of its chunks leaves the marks of others to the reads that fetch them.
func TestMarksStay(t *testing.T) {
	f := open(t, at(t.TempDir(), "x"), newOrigin(3*ChunkBytes))
	f.presentChunks.add(0)
	if _, err := f.mapFile.WriteAt([]byte{1}, headerBytes+1); err != nil { // another process, where ranges cannot be locked
		t.Fatal(err)
	}
	f.recordInMap(0, 3)
	marks := make([]byte, 3)
	if _, err := f.mapFile.ReadAt(marks, headerBytes); err != nil || string(marks) != "\x01\x01\x00" {
		t.Errorf("marks %v, %v", marks, err)
	}
}

// TestCountOfPresent: once no chunk is missing, all are counted.
func TestCountOfPresent(t *testing.T) {
	const chunks = 64
	for range 3_000 {
		c := newChunks(chunks)
		var adding sync.WaitGroup
		adding.Go(func() {
			for i := range int64(chunks) {
				c.add(i)
			}
		})
		for from := int64(0); from < chunks; from, _ = c.missing(0, chunks, 1) {
		}
		if n := c.count(); n != chunks {
			t.Fatalf("%d of %d", n, chunks)
		}
		adding.Wait()
	}
}

// A server says how long a file is: nothing is allocated on its word alone.
func TestImpossibleSize(t *testing.T) {
	for _, size := range []int64{-1, 1 << 62, 1<<63 - 1} {
		if _, err := Open(at(t.TempDir(), "f"), Options{Size: size}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Another size under the same name, as of a server that lies, leaves what is open alone.
func TestOtherSize(t *testing.T) {
	o := newOrigin(20 * ChunkBytes)
	path := at(t.TempDir(), "f")
	f := open(t, path, o)
	read(t, f, o, 0, 20*ChunkBytes)
	if other, err := Open(path, Options{Size: 10, Identity: "one", Fetch: o.fetch}); !errors.Is(err, ErrOtherContent) {
		t.Error(other, err)
	}
	read(t, f, o, 0, 20*ChunkBytes)
	f.Close()
	other, err := Open(path, Options{Size: 10, Identity: "one", Fetch: o.fetch})
	if err != nil {
		t.Fatal(err)
	}
	if other.Have() > 0 {
		t.Error("it has bytes of another")
	}
	other.Close()
}

func read(t *testing.T, f *File, o *origin, off, n int64) {
	t.Helper()
	got := make([]byte, n)
	if err := f.ReadAt(t.Context(), got, off); err != nil {
		t.Fatalf("%d bytes at %d: %v", n, off, err)
	}
	if !bytes.Equal(got, o.content[off:off+n]) {
		t.Fatalf("%d bytes at %d are not the source's", n, off)
	}
}

const odd = 3*maxFetchBytes + 5*ChunkBytes + 123

func TestReads(t *testing.T) {
	o := newOrigin(odd)
	path := at(t.TempDir(), "f")
	f := open(t, path, o)
	for range 200 {
		off := rand.Int64N(odd)
		read(t, f, o, off, min(rand.Int64N(3*ChunkBytes), odd-off))
	}
	read(t, f, o, 0, odd)
	if o.most() != 1 {
		t.Errorf("a chunk was asked for %d times", o.most())
	}
	if f.Have() != odd {
		t.Errorf("%d of %d bytes are there", f.Have(), odd)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	calls := o.calls.Load()
	again := open(t, path, o)
	read(t, again, o, 0, odd)
	if o.calls.Load() != calls {
		t.Error("the source was asked again for what is there")
	}
}

func TestHeadComesAtOnce(t *testing.T) {
	o := newOrigin(odd)
	f := open(t, at(t.TempDir(), "f"), o)
	read(t, f, o, 0, 8)
	read(t, f, o, 8, HeadBytes-8)
	if n := o.calls.Load(); n != 1 {
		t.Errorf("%d fetches of the head", n)
	}
	if f.Have() != HeadBytes {
		t.Errorf("%d bytes came for the head", f.Have())
	}
}

// Small reads in order are few fetches, and fetch at most maxFetchChunks more than was asked for. Others fetch no more.
func TestReadsAhead(t *testing.T) {
	o := newOrigin(4 * maxFetchBytes)
	f := open(t, at(t.TempDir(), "f"), o)
	const until = 3 * maxFetchBytes
	for off := int64(0); off < until; off += ChunkBytes {
		read(t, f, o, off, ChunkBytes)
	}
	if n := o.calls.Load(); n > 8 || f.Have() > until+maxFetchBytes || o.most() > 1 {
		t.Errorf("%d fetches, %d bytes for %d", n, f.Have(), until)
	}
	o = newOrigin(4 * maxFetchBytes)
	f = open(t, at(t.TempDir(), "f"), o)
	for off := int64(maxFetchBytes); off < until; off += maxFetchBytes / 4 {
		read(t, f, o, off, 100)
	}
	if f.Have() != 8*ChunkBytes {
		t.Errorf("%d bytes for 8 reads", f.Have())
	}
}

func TestEnds(t *testing.T) {
	for _, size := range []int{0, 1, ChunkBytes - 1, ChunkBytes, ChunkBytes + 1} {
		o := newOrigin(size)
		f := open(t, at(t.TempDir(), "f"), o)
		got := make([]byte, size+1)
		if err := f.ReadAt(t.Context(), got, 0); err == nil {
			t.Errorf("size %d: bytes beyond the end are read", size)
		}
		read(t, f, o, 0, int64(size))
		if _, err := f.Fetch(t.Context(), 0, int64(size)+1); err == nil {
			t.Errorf("size %d: bytes beyond the end are there", size)
		}
		if f.Have() != int64(size) {
			t.Errorf("size %d: %d are there", size, f.Have())
		}
	}
}

// Every byte comes once, however many ask, by whatever File of the same path.
func TestOnce(t *testing.T) {
	o := newOrigin(odd)
	path := at(t.TempDir(), "f")
	files := []*File{open(t, path, o), open(t, path, o)}
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			got := make([]byte, odd)
			if err := files[i%len(files)].ReadAt(t.Context(), got, 0); err != nil || !bytes.Equal(got, o.content) {
				t.Error("wrong bytes", err)
			}
		})
	}
	group.Wait()
	if runtime.GOOS == "linux" && o.most() != 1 {
		t.Errorf("a chunk was asked for %d times", o.most())
	}
}

// A read that leaves does not take the bytes from one that stays, which fetches them in its place. Others share that fetch, also those
// that come later and lack only a part of it.
func TestLeaving(t *testing.T) { synctest.Test(t, testLeaving) }

func testLeaving(t *testing.T) {
	o := newOrigin(odd)
	f := open(t, at(t.TempDir(), "f"), o)
	proceed := make(chan bool)
	f.opts.Fetch = func(ctx context.Context, p []byte, off int64) error {
		select {
		case <-proceed:
		case <-ctx.Done():
			return errors.New("whatever the source says then")
		}
		return o.fetch(ctx, p, off)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 4)
	go func() { left <- f.ReadAt(ctx, make([]byte, 2*ChunkBytes), maxFetchBytes) }()
	synctest.Wait()
	for range 3 {
		go func() { stayed <- f.ReadAt(t.Context(), make([]byte, 2*ChunkBytes), maxFetchBytes) }()
	}
	synctest.Wait()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	synctest.Wait()
	if len(stayed) > 0 {
		t.Error("a read that stayed has ended:", <-stayed)
	}
	go func() { stayed <- f.ReadAt(t.Context(), make([]byte, 9), maxFetchBytes+ChunkBytes) }()
	synctest.Wait()
	close(proceed)
	for range cap(stayed) {
		if err := <-stayed; err != nil {
			t.Error(err)
		}
	}
	if o.calls.Load() != 1 {
		t.Errorf("%d fetches", o.calls.Load())
	}
	if len(f.runningFetches) > 0 {
		t.Error("a fetch that has ended counts as running")
	}
	f.Close()
}

func TestSourceFails(t *testing.T) {
	o := newOrigin(odd)
	failure := errors.New("no")
	o.before = func(off, _ int64) error { return failure }
	f := open(t, at(t.TempDir(), "f"), o)
	if err := f.ReadAt(t.Context(), make([]byte, 1), 0); !errors.Is(err, failure) {
		t.Error(err)
	}
	o.before = nil
	read(t, f, o, 0, odd)

	o.before = func(int64, int64) error { panic("source") }
	g := open(t, at(t.TempDir(), "g"), o)
	defer func() {
		if v := recover(); v != "source" {
			t.Errorf("the source's panic became %v", v)
		}
		o.before = nil
		read(t, g, o, 0, odd)
	}()
	g.ReadAt(t.Context(), make([]byte, 1), 0)
}

// A file of another size or identity is begun anew, as is one whose map or bytes were cut.
func TestBegunAnew(t *testing.T) {
	for name, spoil := range map[string]func(path rooted.Path, opts *Options) error{
		"identity": func(_ rooted.Path, o *Options) error { o.Identity = "two"; return nil },
		"size":     func(_ rooted.Path, o *Options) error { o.Size--; return nil },
		"map cut":  func(path rooted.Path, _ *Options) error { return os.Truncate(MapPath(path).String(), 20) },
		"map gone": func(path rooted.Path, _ *Options) error { return MapPath(path).Remove() },
		"data cut": func(path rooted.Path, _ *Options) error { return os.Truncate(DataPath(path).String(), 20) },
		"neither":  func(path rooted.Path, _ *Options) error { return Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(odd)
			path := at(t.TempDir(), "f")
			f := open(t, path, o)
			read(t, f, o, 0, odd)
			f.Close()
			opts := Options{Size: odd, Identity: "one", Fetch: o.fetch}
			if err := spoil(path, &opts); err != nil {
				t.Fatal(err)
			}
			again, err := Open(path, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if again.Have() != 0 {
				t.Errorf("%d bytes are there", again.Have())
			}
			read(t, again, o, 0, opts.Size)
		})
	}
}

// A chunk that is written and not yet marked is fetched again.
func TestKilled(t *testing.T) {
	o := newOrigin(odd)
	path := at(t.TempDir(), "f")
	f := open(t, path, o)
	f.syncData = func() error { return errors.New("killed before") }
	read(t, f, o, 0, odd)
	f.marking.Wait()
	again := open(t, path, o)
	if again.Have() != 0 {
		t.Errorf("%d bytes are claimed that may not be on disk", again.Have())
	}
	read(t, again, o, 0, odd)
}

// What a killed process has left of a File, half of it, goes at the next start. Files that are open or whole stay.
func TestSweep(t *testing.T) {
	defer func(age time.Duration) { sweepAge = age }(sweepAge)
	dir := t.TempDir()
	o := newOrigin(odd)
	read(t, open(t, at(dir, "both"), o), o, 0, 10)
	held := open(t, at(dir, "held"), o)
	for _, half := range []rooted.Path{MapPath(at(dir, "a")), DataPath(at(dir, "b")), at(dir, "other")} {
		if err := os.WriteFile(half.String(), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := MapPath(held.path).Remove(); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range [][]string{{"a.map", "b.data", "both.data", "both.map", "held.data", "other"}, {"both.data", "both.map", "held.data", "other"}} {
		if err := Sweep(rooted.Path{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		var names []string
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, wanted) {
			t.Errorf("%q, want %q", names, wanted)
		}
		sweepAge = 0 // of a half that another process may be making
	}
}

func TestFullDisk(t *testing.T) {
	o := newOrigin(odd)
	path := at(t.TempDir(), "f")
	f := open(t, path, o)
	var said []error
	f.opts.OnFull = func(err error) { said = append(said, err) }
	readOnly, err := os.Open(DataPath(path).String())
	if err != nil {
		t.Fatal(err)
	}
	f.data.Close()
	f.data = readOnly
	read(t, f, o, 100, odd-100)
	read(t, f, o, 0, 10)
	if len(said) != 1 {
		t.Errorf("said %v", said)
	}
	if kept, err := f.Fetch(t.Context(), 0, 10); err != nil || kept {
		t.Error(err)
	}
	if err := f.Fill(t.Context(), nil); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

// A panic of the source is that of the read that fetches, also if that is canceled meanwhile. One that waits fetches by itself.
func TestSourcePanicsLate(t *testing.T) { synctest.Test(t, testSourcePanicsLate) }

func testSourcePanicsLate(t *testing.T) {
	o := newOrigin(odd)
	f := open(t, at(t.TempDir(), "f"), o)
	calls := 0
	f.opts.Fetch = func(ctx context.Context, p []byte, off int64) error {
		if calls++; calls > 1 {
			return o.fetch(ctx, p, off)
		}
		<-ctx.Done()
		panic("source")
	}
	reading, cancel := context.WithCancel(t.Context())
	panicked := make(chan any)
	go func() {
		value, _ := paralleltest.Ending(func() { f.ReadAt(reading, make([]byte, 1), 0) })
		panicked <- value
	}()
	synctest.Wait()
	waited := make(chan error)
	go func() { waited <- f.ReadAt(t.Context(), make([]byte, 1), 0) }()
	synctest.Wait()
	cancel()
	if value := <-panicked; value != "source" {
		t.Errorf("recovered %v", value)
	}
	if err := <-waited; err != nil || calls != 2 {
		t.Errorf("%d fetches, %v", calls, err)
	}
	f.Close()
}

// A panic of Full, once the read has its bytes, is that of who closes the file.
func TestFullPanics(t *testing.T) {
	o := newOrigin(odd)
	f, err := Open(at(t.TempDir(), "f"), Options{Size: odd, Fetch: o.fetch, OnFull: func(error) { panic("full") }})
	if err != nil {
		t.Fatal(err)
	}
	f.syncData = func() error { return errors.New("no room") }
	read(t, f, o, 0, odd)
	if panicked, _ := paralleltest.Ending(func() { f.Close() }); panicked != "full" {
		t.Errorf("recovered %v", panicked)
	}
	if err := f.data.Close(); !errors.Is(err, os.ErrClosed) {
		t.Error("the file is open")
	}
}

func TestFill(t *testing.T) {
	o := newOrigin(odd)
	dir := t.TempDir()
	f := open(t, at(dir, "f"), o)
	read(t, f, o, maxFetchBytes, 1)
	last := int64(0)
	err := f.Fill(t.Context(), func(have, size int64) {
		if have < last || size != odd {
			t.Errorf("%d of %d after %d", have, size, last)
		}
		last = have
	})
	if err != nil || last != odd || o.most() != 1 {
		t.Errorf("%v; %d bytes, a chunk %d times", err, last, o.most())
	}
	f.marking.Wait()
	final := at(dir, "final")
	if err := f.Finish(final, func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(final.String())
	if err != nil || !bytes.Equal(got, o.content) {
		t.Error("not the source's bytes", err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left beside it: %v", entries)
	}
	read(t, f, o, 17, 1000)
}

// Fill gives way to reads, of other Files too.
func TestFillGivesWay(t *testing.T) { synctest.Test(t, testFillGivesWay) }

func testFillGivesWay(t *testing.T) {
	o := newOrigin(odd)
	var asked atomic.Int64
	f, err := Open(at(t.TempDir(), "f"), Options{Size: odd, Identity: "one", Fetch: o.fetch, WaitingReads: &asked})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	asked.Store(1)
	o.before = func(int64, int64) error {
		if asked.Load() > 0 {
			return errors.New("asked while a read waits")
		}
		return nil
	}
	go func() {
		time.Sleep(4 * waitStep)
		asked.Store(0)
	}()
	if err := f.Fill(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestFinishRefuses(t *testing.T) {
	o := newOrigin(odd)
	dir := t.TempDir()
	f := open(t, at(dir, "f"), o)
	final := at(dir, "final")
	if err := f.Finish(final, nil); err == nil {
		t.Error("a file of holes was finished")
	}
	if err := f.Fill(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Finish(final, func(io.Reader) error { return context.Canceled }); !errors.Is(err, context.Canceled) || f.Finished() {
		t.Error(err)
	}
	wrong := fmt.Errorf("%w: wrong digest", layout.ErrChecksum)
	if err := f.Finish(final, func(io.Reader) error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("wrong bytes stayed: %v", entries)
	}
}

func TestClosed(t *testing.T) {
	o := newOrigin(odd)
	begun := make(chan bool, 100)
	f := open(t, at(t.TempDir(), "f"), o)
	f.opts.Fetch = func(ctx context.Context, _ []byte, _ int64) error {
		begun <- true
		<-ctx.Done()
		return ctx.Err()
	}
	failed := make(chan error)
	go func() {
		err := f.ReadAt(context.Background(), make([]byte, 1), 0)
		failed <- err
	}()
	<-begun
	f.Close()
	if err := <-failed; !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestSizeIsAWord: what a server says of a file's size takes little memory, when it is opened and when it is listed.
func TestSizeIsAWord(t *testing.T) {
	dir := t.TempDir()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := Open(at(dir, "f"), Options{Size: 4 << 40, Name: "name", Fetch: newOrigin(10).fetch})
	if err != nil {
		t.Skip(err) // a file system without files of this size
	}
	f.presentChunks.add(f.presentChunks.end - 1)
	if f.Have() != ChunkBytes || !f.Has(4<<40-1, 1) || f.Has(4<<40-ChunkBytes-1, 1) {
		t.Errorf("%d bytes are there", f.Have())
	}
	f.Close()
	list, err := List(rooted.Path{Dir: dir})
	runtime.ReadMemStats(&after)
	if err != nil || len(list) != 1 || list[0].Name != "name" || list[0].Size != 4<<40 {
		t.Errorf("%+v, %v", list, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes of memory", took)
	}
}
