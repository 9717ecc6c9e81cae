package mmapio

import (
	"errors"
	"os"
	"testing"
	"time"
)

// identityAt returns the identity of the file at path.
func identityAt(t *testing.T, path string) Identity {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return IdentityOf(info)
}

// TestIdentity changes a file after it was opened.
func TestIdentity(t *testing.T) {
	content := noise(1000)
	for what, change := range map[string]func(path string) error{
		"cut":      func(path string) error { return os.Truncate(path, 999) },
		"modified": func(path string) error { return os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)) },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+"x", content, 0o666), os.Rename(path+"x", path))
		},
	} {
		for way, open := range map[string]func(path string) (*Mapping, error){"Map": Map, "OpenReader": OpenReader} {
			path := writeFile(t, content)
			m := must(t)(open(path))
			id := m.Identity()
			if !id.Known() || id.Size() != 1000 || id.Check(identityAt(t, path)) != nil {
				t.Errorf("%s: %+v, but the file is %+v", way, id, identityAt(t, path))
			}
			m.Close() // Windows changes no mapped file
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			now := identityAt(t, path)
			if err := id.Check(now); !errors.Is(err, ErrChanged) || id.SameFile(now) == (what == "replaced") {
				t.Errorf("%s, %s: %v, the same file: %v", what, way, err, id.SameFile(now))
			}
		}
	}
	if FromBytes(content).Identity().Known() {
		t.Error("memory is a file")
	}
}

// TestKey: each file and each of its states has a key of its own, unless the system tells too little or the state is too new.
func TestKey(t *testing.T) {
	long := time.Now().Add(-time.Hour).UnixNano()
	keys := make(map[string]bool)
	for _, id := range []Identity{{1, long, long, 1, 1, nil}, {2, long, long, 1, 1, nil}, {1, 2, long, 1, 1, nil}, {1, long, 3, 1, 1, nil}, {1, long, long, 2, 1, nil}, {1, long, long, 1, 2, nil}} {
		keys[id.Key()] = true
	}
	if len(keys) != 6 || keys[""] {
		t.Errorf("%v", keys)
	}
	for _, id := range []Identity{{}, {1, long, 0, 1, 1, nil}, {1, long, long, 1, 0, nil}, {1, long, time.Now().UnixNano(), 1, 1, nil}} {
		if key := id.Key(); key != "" {
			t.Errorf("%+v: %s", id, key)
		}
	}
}

// TestNumber: files of systems that do not number them are not one.
func TestNumber(t *testing.T) {
	for id, want := range map[Identity]bool{{}: false, {device: 1}: false, {inode: 1}: true, {device: 1, inode: 1}: true} {
		if _, ok := id.Number(); ok != want {
			t.Errorf("%+v: %v", id, ok)
		}
	}
}
