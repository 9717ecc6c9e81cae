package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// openNonresident opens a file that is not in memory, or skips the test where the file system keeps it.
func openNonresident(t *testing.T, path string) *loader.Model {
	t.Helper()
	m := openPath(t, path, nil)
	dropPages(t, path, m)
	mapping := loader.MappingOf(m)
	if n, err := mapping.Resident(0, mapping.Size()); err != nil || n > 0 {
		t.Skipf("%d bytes stay in memory; %v", n, err)
	}
	return m
}

// TestWarmAll: what was warmed is in memory. Other work on the machine may take pages away, but not each time.
func TestWarmAll(t *testing.T) {
	const n = 9 << 20
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, numbered(4, n)...))
	var wrong []string
	for range 3 {
		m := openNonresident(t, path)
		var told []uint64
		opts := &loader.WarmOptions{Progress: func(done, total uint64) {
			told = append(told, done)
			if total < 4*n || total > 4*n+4*64 {
				t.Errorf("a total of %d", total)
			}
		}}
		got, err := m.WarmAll(t.Context(), opts)
		if err != nil || got.Bytes < 4*n || got.Bytes > 4*n+4*64 || got.Resident > 2*16<<10 {
			t.Errorf("%+v, %v", got, err)
		}
		if !slices.IsSorted(told) || len(told) < 3 || told[len(told)-1] != got.Bytes {
			t.Errorf("progress of %d, %d in all", told, got.Bytes)
		}
		wrong = nil
		for x := range m.Tensors() {
			if r := must(loader.MappingOf(m).Resident(x.Offset(), x.StoredBytes()))(t); r != x.StoredBytes() {
				wrong = append(wrong, fmt.Sprintf("%s: %d of %d bytes are in memory", x.Name(), r, x.StoredBytes()))
			}
		}
		got, err = m.WarmAll(t.Context(), nil)
		if err != nil {
			t.Error(err)
		}
		if got.Resident == got.Bytes && len(wrong) == 0 {
			return
		}
		wrong = append(wrong, fmt.Sprintf("once more: %+v", got))
		m.Close()
	}
	t.Error(wrong)
}

// TestWarmFaults: who reads what was warmed waits for no disk. Other work on the machine may take
// pages away, but not each time.
func TestWarmFaults(t *testing.T) {
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, numbered(4, 9<<20)...))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	majorFaults := func() int64 { // of this thread, which had to wait for the disk
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
			t.Fatal(err)
		}
		return int64(usage.Majflt) // on some platforms it has 32 bits
	}
	var n int64
	for range 3 {
		m := openNonresident(t, path)
		if _, err := m.WarmAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		before := majorFaults()
		for x := range m.Tensors() {
			if b, err := x.Bytes(); err != nil || bytes.IndexByte(b, 0) < 0 {
				t.Error(err)
			}
		}
		if n = majorFaults() - before; n == 0 {
			return
		}
		m.Close()
	}
	t.Errorf("%d faults had to wait for the disk", n)
}

// TestWarmNamed: nothing else comes into memory, but for pages that are shared. Where other work takes pages away before they
// are mapped, the kernel reads them again with their neighbours, but not each time.
func TestWarmNamed(t *testing.T) {
	const n = 4 << 20
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, numbered(4, n)...))
	var wrong []string
	for range 3 {
		wrong = nil
		m := openNonresident(t, path)
		got, err := m.Warm(t.Context(), []string{"2", "0", "2"}, &loader.WarmOptions{Ordered: true})
		if err != nil || got.Bytes != 2*n+2 || got.Resident > 16<<10 {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, name := range []string{"0", "1", "2", "3"} {
			x := tensor(t, m, name)
			warmed, r := name == "0" || name == "2", must(loader.MappingOf(m).Resident(x.Offset(), x.StoredBytes()))(t)
			if warmed && r != x.StoredBytes() || !warmed && r > 2*uint64(os.Getpagesize()) {
				wrong = append(wrong, fmt.Sprintf("%s: %d of %d bytes are in memory", name, r, x.StoredBytes()))
			}
		}
		if len(wrong) == 0 {
			return
		}
		m.Close()
	}
	t.Error(wrong)
}

// TestWarmOrder: what is planned first comes first.
func TestWarmOrder(t *testing.T) {
	const n = 20 << 20
	list := numbered(4, n)
	list[0], list[2] = modeltest.Random("0", layout.U8, 1), modeltest.Random("2", layout.U8, 1)
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, list...))
	var first, second uint64
	for range 3 { // other work on the machine may take pages away, but not each time
		m := openNonresident(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		opts := &loader.WarmOptions{Ordered: true, Readers: 1, Progress: func(done, _ uint64) {
			if done >= n {
				cancel()
			}
		}}
		got, err := m.Warm(ctx, []string{"3", "1"}, opts)
		if !errors.Is(err, context.Canceled) || got.Bytes != 2*n+4 {
			t.Errorf("%+v, %v", got, err)
		}
		first, second = max(first, must(loader.MappingOf(m).Resident(tensor(t, m, "3").Offset(), tensor(t, m, "3").StoredBytes()))(t)), max(second, must(loader.MappingOf(m).Resident(tensor(t, m, "1").Offset(), tensor(t, m, "1").StoredBytes()))(t))
		if first == n+3 {
			break
		}
	}
	if first != n+3 || second > 16<<20 {
		t.Errorf("of the first %d bytes are in memory, of the second %d", first, second)
	}
}

// TestWarmRate: at no moment more was read than the rate allows, and what is in memory is not waited for.
func TestWarmRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, rate = 4 << 20, 40 << 20
		path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, numbered(4, n)...))
		m := openNonresident(t, path)
		begun := time.Now()
		if _, err := m.WarmAll(t.Context(), &loader.WarmOptions{BytesPerSecond: rate}); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun).Seconds()
		if want := 4.0 * n / rate; took < want || took > 1.1*want {
			t.Errorf("took %.0f ms, want about %.0f", 1000*took, 1000*want)
		}
		begun = time.Now()
		got, err := m.WarmAll(t.Context(), &loader.WarmOptions{BytesPerSecond: 1})
		if took := time.Since(begun); err != nil || got.Resident == got.Bytes && took > 0 {
			t.Errorf("of what is in memory: %+v after %v; %v", got, took, err)
		}
	})
}

func TestWarmTruncated(t *testing.T) {
	m := openTruncated(t, modeltest.APR2Model(t, nil, numbered(4, 1<<20)...), 2<<20, nil)
	_, err := m.WarmAll(t.Context(), nil)
	if !errors.Is(err, mmapio.ErrFault) {
		t.Errorf("%v", err)
	}
	if _, err := m.Warm(t.Context(), []string{"0"}, &loader.WarmOptions{Ordered: true}); !errors.Is(err, mmapio.ErrChanged) {
		t.Errorf("of what is left: %v", err)
	}
	m = openTruncated(t, modeltest.APR2Model(t, nil, numbered(4, 1<<20)...), 2<<20, &loader.Options{NoMap: true})
	if err := warmTensors(t.Context(), m, "3"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("not mapped: %v", err)
	}
}

// TestWarmShards: a shard is mapped when one of its tensors is warmed.
func TestWarmShards(t *testing.T) {
	path := writeShards(t, t.TempDir(), nil, tensorsOf("three")...)
	m := openPath(t, path, nil)
	if n := m.Stats().MappedBytes; n > 4096 {
		t.Fatalf("%d bytes are mapped already", n)
	}
	if _, err := m.Warm(t.Context(), []string{"i8"}, &loader.WarmOptions{Ordered: true}); err != nil {
		t.Fatal(err)
	}
	files := m.Files()
	one := m.Stats().MappedBytes
	if want := files[tensor(t, m, "i8").File()].Size + files[3].Size; one != want {
		t.Errorf("%d bytes are mapped, want %d", one, want)
	}
	if got, err := m.WarmAll(t.Context(), nil); err != nil || got.Bytes < 48+12+108 {
		t.Errorf("%+v, %v", got, err)
	}
	if n := m.Stats().MappedBytes; n < one+files[0].Size {
		t.Errorf("%d bytes are mapped", n)
	}
	m = openPath(t, path, nil)
	if err := os.Remove(m.Files()[1].Path); err != nil {
		t.Fatal(err)
	}
	if _, err := m.WarmAll(t.Context(), nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "model-00002-of-00003.apr") {
		t.Errorf("of a shard that has gone: %v", err)
	}
	if err := m.Evict(names(m.Tensors())...); err != nil {
		t.Errorf("releasing what was never mapped: %v", err)
	}
}

// TestWarmAliases: a tensor inside another counts once.
func TestWarmAliases(t *testing.T) {
	const n = 40 << 20
	c := modeltest.Random("whole", layout.U8, n)
	disguised(t, func(f layout.File, list []layout.Tensor) layout.File {
		for i := range list[1:] {
			list[1+i].Offset = list[0].Offset + uint64(i)*5<<20
		}
		return f
	})
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, append([]modeltest.Tensor{c}, numbered(4, 1<<20)...)...))
	m := openNonresident(t, path)
	for _, names := range [][]string{nil, {"0", "3", "whole", "1"}} {
		var last uint64
		count := func(done, total uint64) {
			if last = done; total != n {
				t.Errorf("a total of %d", total)
			}
		}
		opts := &loader.WarmOptions{Ordered: true, Progress: count}
		warm := func() (loader.WarmResult, error) { return m.Warm(t.Context(), names, opts) }
		if names == nil {
			warm = func() (loader.WarmResult, error) { return m.WarmAll(t.Context(), opts) }
		}
		dropPages(t, path, m)
		if got, err := warm(); err != nil || got.Bytes != n || got.Resident > 64<<10 || last != n {
			t.Errorf("%+v, %d told; %v", got, last, err)
		}
	}
}

// TestEvict: pages go but for those that are shared, views stay, and what was expanded is
// dropped unless it is pinned.
func TestEvict(t *testing.T) {
	page := uint64(os.Getpagesize())
	const n = 4 << 20
	list := numbered(4, n)
	m := openPath(t, modeltest.Write(t, "model", modeltest.APR2Model(t, nil, list...)), nil)
	if _, err := m.WarmAll(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	mappedResident := func() uint64 { // what of the file this process has in its page table
		text, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Skip(err)
		}
		path := m.Files()[0].Path
		_, entry, ok := strings.Cut(string(text), path+"\n")
		_, rest, ok2 := strings.Cut(entry, "\nRss:")
		var kB uint64
		if _, err := fmt.Sscan(rest, &kB); !ok || !ok2 || err != nil {
			t.Skipf("no Rss of %s in smaps: %v", path, err)
		}
		return kB << 10
	}
	all := mappedResident()
	if all < 4*n {
		t.Fatalf("%d bytes are resident after warming", all)
	}
	view, err := tensor(t, m, "1").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Evict("1"); err != nil {
		t.Fatal(err)
	}
	if left := mappedResident(); left > all-n+2*page || left < all-n-page {
		t.Errorf("%d of %d bytes are left without one of %d", left, all, n)
	}
	if !bytes.Equal(view, list[1].Data) {
		t.Error("the view has other bytes")
	}
	if err := m.Evict("0", "1", "2"); err != nil {
		t.Fatal(err)
	}
	if left := mappedResident(); left < n || left > n+4*page {
		t.Errorf("%d bytes are left of one tensor of %d", left, n)
	}
	for _, none := range [][]string{nil, {}} {
		if err := m.Evict(none...); err != nil {
			t.Fatal(err)
		}
	}
	if left := mappedResident(); left < n {
		t.Errorf("%d bytes are left, although no names were given", left)
	}
	if err := m.Evict(names(m.Tensors())...); err != nil {
		t.Fatal(err)
	}
	if left := mappedResident(); left > 4*page {
		t.Errorf("%d bytes are left of none", left)
	}
	if err := m.Evict("x"); !errors.Is(err, loader.ErrNotFound) {
		t.Error(err)
	}
}

func TestReleaseCache(t *testing.T) {
	m := openPath(t, modeltest.Write(t, "model", modeltest.APR2Model(t, nil, tensorsOf("large")...)), nil)
	l := must(m.Acquire())(t)
	defer l.Release()
	for _, name := range []string{"f16", "i8", "q8"} {
		if _, err := tensor(t, m, name).Float32s(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tensor(t, l, "i8").Float32s(); err != nil {
		t.Fatal(err)
	}
	if err := m.Evict("f16", "i8"); err != nil {
		t.Fatal(err)
	}
	if got, want := m.Stats().HeapBytes, uint64(4*(64*1024+1024*1024)); got != want {
		t.Errorf("%d bytes are left in the cache, want %d", got, want)
	}
	l.Release()
	if err := m.Evict(); err != nil {
		t.Fatal(err)
	}
	if got := m.Stats().HeapBytes; got == 0 {
		t.Error("the cache is empty, although no names were given")
	}
	if err := m.Evict(names(m.Tensors())...); err != nil {
		t.Fatal(err)
	}
	if got := m.Stats().HeapBytes; got != 0 {
		t.Errorf("%d bytes are left in the cache", got)
	}
	m.Close()
	if err := m.Evict(); !errors.Is(err, loader.ErrClosed) {
		t.Error(err)
	}
}
