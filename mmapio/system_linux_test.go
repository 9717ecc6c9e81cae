package mmapio

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPopulateMakesResident(t *testing.T) {
	for _, size := range []uint64{1, 3*4096 + 100, 1 << 20} {
		m := must(t)(Map(writeFile(t, noise(int(size)))))
		if err := m.Populate(0, size); err != nil {
			t.Fatal(err)
		}
		for _, r := range [][2]uint64{{0, size}, {0, 1}, {size - 1, 1}, {size / 3, size / 2}} {
			if n, err := m.Resident(r[0], r[1]); n != r[1] || err != nil {
				t.Errorf("Resident(%d, %d) of %d = %d, %v", r[0], r[1], size, n, err)
			}
		}
	}
}

// TestResidentCountsPages touches pages of a hole, which was never in memory
// before, and compares ranges with what single pages answer: how much the
// kernel reads ahead is its own affair.
func TestResidentCountsPages(t *testing.T) {
	page := pageSize
	size := (2*answers+3)*page - page/2 // more than two mincore calls, and a ragged end
	path := writeFile(t, nil)
	if err := os.Truncate(path, int64(size)); err != nil {
		t.Skip(err)
	}
	m := must(t)(Map(path))
	if err := m.Advise(Random, 0, size); err != nil {
		t.Fatal(err)
	}
	last := size - size%page
	touched := []uint64{0, answers * page, last}
	for _, at := range touched {
		if _, err := m.ReadAt(make([]byte, 1), int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	count := func(off, n uint64) uint64 {
		n, err := m.Resident(off, n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var pages []uint64 // resident bytes of each
	var total uint64
	for at := uint64(0); at < size; at += page {
		pages = append(pages, count(at, min(page, size-at)))
		total += pages[at/page]
	}
	if total == size {
		t.Skip("the kernel read all of the hole")
	}
	for _, at := range touched {
		if want := min(page, size-at); pages[at/page] != want {
			t.Errorf("the touched page at %d has %d bytes, want %d", at, pages[at/page], want)
		}
	}

	ranges := [][2]uint64{
		{0, size}, {0, 10}, {page / 2, page}, {page / 2, 1}, {page, page}, {(answers - 1) * page, 3 * page},
		{answers*page + 1, page}, {last, page / 2}, {last - 5, 10}, {size - 1, 1}, {5, size - 10},
	}
	for _, r := range ranges {
		lo, hi := r[0], r[0]+r[1]
		var want uint64
		for i, n := range pages {
			if at := uint64(i) * page; n > 0 && at < hi && at+page > lo {
				want += min(at+page, hi) - max(at, lo)
			}
		}
		if got := count(lo, hi-lo); got != want {
			t.Errorf("Resident(%d, %d) = %d, want %d", lo, hi-lo, got, want)
		}
	}
}

// TestDontNeedSparesNeighbours counts, in the page table, what is left of
// pages that a range covers in part.
func TestDontNeedSparesNeighbours(t *testing.T) {
	page := pageSize
	m := must(t)(Map(writeFile(t, noise(int(8*page)))))
	if err := m.Populate(0, 8*page); err != nil {
		t.Fatal(err)
	}
	if got := present(t, m); !absent(got, 0, 0) {
		t.Skipf("the page table does not show populated pages: %v", got)
	}
	if err := m.Advise(DontNeed, 2*page+1, 3*page); err != nil {
		t.Fatal(err)
	}
	if got := present(t, m); !absent(got, 3, 5) {
		t.Errorf("in the page table: %v, want all but 3 and 4", got)
	}
}

// absent reports whether exactly the pages from lo to hi are.
func absent(present []bool, lo, hi int) bool {
	for i, p := range present {
		if p == (lo <= i && i < hi) {
			return false
		}
	}
	return true
}

// present reads which pages of m this process has in its page table.
func present(t *testing.T, m *Mapping) []bool {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	entries := make([]byte, 8*m.Size()/pageSize)
	if _, err := f.ReadAt(entries, int64(uint64(address(m.Bytes()))/pageSize*8)); err != nil {
		t.Skip(err)
	}
	words, err := Copy[uint64](entries)
	if err != nil {
		t.Fatal(err)
	}
	there := make([]bool, len(words))
	for i, w := range words {
		there[i] = w>>63 == 1
	}
	return there
}

func TestLock(t *testing.T) {
	m := must(t)(Map(writeFile(t, noise(5*4096))))
	if err := m.Lock(4096+5, 10); err != nil {
		t.Fatal(err)
	}
	if n, err := m.Resident(4096, 4096); n != 4096 || err != nil {
		t.Errorf("a locked page is not resident: %d, %v", n, err)
	}
	if err := m.Unlock(4096+5, 10); err != nil {
		t.Error(err)
	}
}

// TestTouch is Populate where the kernel does not know MADV_POPULATE_READ.
func TestTouch(t *testing.T) {
	m := must(t)(Map(writeFile(t, noise(5*4096+1))))
	touch(m.Bytes())
	if n, err := m.Resident(0, m.Size()); n != m.Size() || err != nil {
		t.Errorf("Resident = %d, %v", n, err)
	}
}

func TestPopulateUsesTheKernel(t *testing.T) {
	m := must(t)(Map(writeFile(t, noise(100))))
	if err := populate(m.Bytes()); err == unix.EINVAL {
		t.Skip("the kernel is older than 5.14")
	} else if err != nil {
		t.Error(err)
	}
}
