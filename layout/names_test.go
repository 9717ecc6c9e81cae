package layout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// add enters record i, whose name no other has.
func add(n *Names, hash uint64, i int) { n.Enter(hash, i, func(int) bool { return false }) }

// candidates returns the records that a search for a hash compares, to its end. A table without an empty slot would keep it
// going for ever, so it gives up past the number of slots.
func candidates(t testing.TB, n *Names, hash uint64) (found []int) {
	t.Helper()
	tooMany := func(i int) bool {
		found = append(found, i)
		return len(found) > len(n.slots)
	}
	if n.Find(hash, tooMany) >= 0 {
		t.Fatalf("the search for %#x does not end", hash)
	}
	return found
}

func TestNamesSize(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 1000, 1024, 1025} {
		slots := len(NewNames(n).slots)
		if slots < 2*n || slots > max(4, 4*n) || slots&(slots-1) != 0 {
			t.Errorf("NewNames(%d) has %d slots", n, slots)
		}
	}
}

// Records under one hash are found by the caller's comparison alone, so all of them
// have to come up, each once.
func TestNamesCollide(t *testing.T) {
	const count = 100
	n := NewNames(count)
	for i := range count {
		add(n, 42<<32|7, i)
	}
	found := candidates(t, n, 42<<32|7)
	slices.Sort(found)
	for i := range count {
		if len(found) != count || found[i] != i {
			t.Fatalf("candidates %v, want 0 to %d", found, count-1)
		}
	}
	if found := candidates(t, n, 43<<32|7); found != nil {
		t.Errorf("another tag in the same slots finds %v", found)
	}
	if found := candidates(t, n, 42<<32|6); found != nil {
		t.Errorf("an empty slot before them finds %v", found)
	}
}

// All bits set start in the last slot, so that the second record wraps to the first.
func TestNamesWrapAround(t *testing.T) {
	const last = ^uint64(0)
	n := NewNames(3)
	for i := range 3 {
		add(n, last, i)
	}
	if n.slots[0] == 0 || n.slots[1] == 0 || n.slots[len(n.slots)-1] == 0 {
		t.Fatalf("slots %x do not wrap", n.slots)
	}
	if found := candidates(t, n, last); !slices.Equal(found, []int{0, 1, 2}) {
		t.Errorf("candidates %v, want [0 1 2]", found)
	}
}

// A table with as many records as it was made for still ends every probe.
func TestNamesFull(t *testing.T) {
	for _, count := range []int{0, 1, 2, 3, 4, 7, 8, 64, 100} {
		n := NewNames(count)
		for i := range count {
			add(n, uint64(i)<<32, i) // all want slot 0
		}
		for i := range count {
			if found := candidates(t, n, uint64(i)<<32); !slices.Equal(found, []int{i}) {
				t.Errorf("%d records: hash %d finds %v", count, i, found)
			}
		}
		if found := candidates(t, n, uint64(count)<<32); found != nil {
			t.Errorf("%d records: a missing hash finds %v", count, found)
		}
	}
}

// The first record of a hash whose tag is zero must not look like an empty slot, and
// the largest index must keep clear of the tag.
func TestNamesExtremes(t *testing.T) {
	for _, count := range []int{2, 3, 4, 1 << 16, 1<<16 - 1} {
		n := NewNames(count)
		add(n, 0, 0)
		add(n, 1, count-1)
		if found := candidates(t, n, 0); !slices.Equal(found, []int{0, count - 1}) {
			t.Errorf("candidates %v, want [0 %d]", found, count-1)
		}
		if found := candidates(t, n, 1<<32); found != nil {
			t.Errorf("another tag finds %v", found)
		}
	}
}

func TestHashName(t *testing.T) {
	for _, name := range []string{"", "a", "layers.0.weight", "\xff\x00", string(make([]byte, 1000))} {
		if HashName(name) != HashNameBytes([]byte(name)) {
			t.Errorf("string and bytes of %q hash apart", name)
		}
	}
	if HashName("a") == HashName("b") && HashName("c") == HashName("d") {
		t.Error("the hash is constant")
	}
}

// FuzzNames files a record a byte of input under a hash that its high nibble tags and
// its low nibble places, and compares with a map.
func FuzzNames(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x11, 0x11, 0x21, 0x12})
	f.Add([]byte{0x0f, 0x0f, 0x1f, 0x00, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, records []byte) {
		hashOf := func(b byte) uint64 { return uint64(b>>4)<<32 | uint64(b&15)*0x11111111 }
		n := NewNames(len(records))
		model := map[uint64][]int{}
		for i, b := range records {
			add(n, hashOf(b), i)
			model[hashOf(b)] = append(model[hashOf(b)], i)
		}
		for v := range 256 {
			hash := hashOf(byte(v))
			found := candidates(t, n, hash)
			same := slices.DeleteFunc(slices.Clone(found), func(i int) bool { return hashOf(records[i]) != hash })
			slices.Sort(same)
			if !slices.Equal(same, model[hash]) { // sorted and equal: none twice, none lost
				t.Fatalf("hash %#x finds records %v, want %v", hash, same, model[hash])
			}
			for _, i := range found {
				if hashOf(records[i])>>32 != hash>>32 {
					t.Fatalf("hash %#x finds record %d of hash %#x", hash, i, hashOf(records[i]))
				}
			}
		}
	})
}

// namedIndex is an index of count empty tensors under names as models have them.
func namedIndex(t testing.TB, count int) (*Index, []string) {
	t.Helper()
	b := NewBuilder(GGUF, 0, uint64(count), "offset", (*Limits)(nil).WithDefaults())
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("model.layers.%d.mlp.experts.%d.gate_proj.weight", i/64, i%64)
		*b.Next() = Tensor{Name: []byte(names[i]), DType: F32, Shape: []int{0}}
		if err := b.Add(0); err != nil {
			t.Fatal(err)
		}
	}
	ix, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return ix, names
}

func TestIndexFind(t *testing.T) {
	ix, names := namedIndex(t, 5000)
	for i, name := range names {
		if at := ix.Find(name); at != i {
			t.Fatalf("Find(%s) = %d, want %d", name, at, i)
		}
		for _, other := range []string{name + "x", name[1:], name + "\x00"} {
			if at := ix.Find(other); at != -1 {
				t.Fatalf("Find(%q) = %d, want -1", other, at)
			}
		}
	}
	if at := ix.Find(""); at != -1 {
		t.Errorf("Find of the empty name is %d", at)
	}
	if none, _ := namedIndex(t, 0); none.Find("a") != -1 {
		t.Error("an empty index finds a tensor")
	}
}

// Equal hashes under different names cannot be made to order, since the hash is
// seeded; filed by hand, they show that Find compares names.
func TestIndexFindCollision(t *testing.T) {
	ix := Index{Tensors: []Tensor{{Name: []byte("a")}, {Name: []byte("b")}}, Names: NewNames(2)}
	add(ix.Names, HashName("b"), 0)
	add(ix.Names, HashName("b"), 1)
	if at := ix.Find("b"); at != 1 {
		t.Errorf("Find(b) = %d, want 1", at)
	}
}

func TestIndexFindAllocates(t *testing.T) {
	ix, names := namedIndex(t, 100)
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			ix.Find(name)
		}
		ix.Find("missing")
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkFind(b *testing.B) {
	for _, count := range []int{2000, 20000} {
		ix, names := namedIndex(b, count)
		r := rand.New(rand.NewPCG(1, 2))
		r.Shuffle(count, func(i, j int) { names[i], names[j] = names[j], names[i] })
		// Both sets of keys are laid out in the order of use, so that what is timed is
		// the table and not the fetching of the key.
		missing := make([]string, count)
		for i, name := range names {
			names[i] = strings.Clone(name)
			missing[i] = "x" + name[1:]
		}
		for _, run := range []struct {
			what string
			keys []string
		}{{"hit", names}, {"miss", missing}} {
			b.Run(fmt.Sprintf("names=%d/%s", count, run.what), func(b *testing.B) {
				b.ReportAllocs()
				at, found := 0, 0
				for b.Loop() {
					if ix.Find(run.keys[at]) >= 0 {
						found++
					}
					if at++; at == count {
						at = 0
					}
				}
				if (found > 0) != (run.what == "hit") {
					b.Fatalf("%d found", found)
				}
			})
		}
	}
}
