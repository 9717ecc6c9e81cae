package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// faults are operations that fail, and a record of all.
type faults struct {
	at    int  // the operation that fails, from 0
	dead  bool // and so do all that follow, as if the process were no more
	trace []string
}

var errFault = errors.New("injected")

// install makes f what the file system does until the test is over, or restore is called.
func (f *faults) install(t *testing.T) (restore func()) {
	real := sys
	step := func(op string, names ...string) error {
		for i, name := range names {
			names[i] = temporary.ReplaceAllString(filepath.Base(name), ".tmp")
		}
		n := len(f.trace)
		f.trace = append(f.trace, op+" "+strings.Join(names, " "))
		if n == f.at || f.dead && n > f.at {
			return &fs.PathError{Op: op, Path: names[0], Err: errFault}
		}
		return nil
	}
	sys = operations{
		create: func(name string, perm fs.FileMode) (*os.File, error) {
			if err := step("create", name); err != nil {
				return nil, err
			}
			return real.create(name, perm)
		},
		lock: func(name string) (*os.File, error) {
			if err := step("lock", name); err != nil {
				return nil, err
			}
			return real.lock(name)
		},
		write: func(file *os.File, b []byte) (int, error) {
			if err := step("write", file.Name()); err != nil {
				return 0, err
			}
			return real.write(file, b)
		},
		sync: func(file *os.File) error {
			return step("sync", file.Name()) // without one: it takes long, and would show nothing
		},
		rename: func(from, to string) error {
			if err := step("rename", from, to); err != nil {
				return err
			}
			return real.rename(from, to)
		},
		remove: func(name string) error {
			if err := step("remove", name); err != nil {
				return err
			}
			return real.remove(name)
		},
		syncDir: func(string) error {
			return step("syncdir", ".")
		},
	}
	restore = func() { sys = real }
	t.Cleanup(restore)
	return restore
}

var temporary = regexp.MustCompile(`\.tmp-[0-9a-f]{8}$`)

// writeSet writes files, the last as the one that leads to the others.
func writeSet(dir, text string, names ...string) error {
	var set []*File
	defer func() {
		for _, f := range set {
			f.Abort()
		}
	}()
	for _, name := range names {
		f, err := Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		set = append(set, f)
		if _, err := f.Write([]byte(text)); err != nil {
			return err
		}
		if err := f.Prepare(); err != nil {
			return err
		}
	}
	return CommitAll(set...)
}

// place puts old files into a directory.
func place(t *testing.T, dir string, names []string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// contents are the files of a directory; one with a temporary name counts as "temporary".
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name := e.Name()
		if temporary.MatchString(name) {
			name = "temporary"
		}
		texts[name] = string(b)
	}
	return texts
}

func each(text string, names ...string) map[string]string {
	m := make(map[string]string)
	for _, name := range names {
		m[name] = text
	}
	return m
}

// befores are what can be there before a, b and m are written.
var befores = map[string][]string{
	"nothing":      nil,
	"same files":   {"a", "b", "m"},
	"fewer":        {"a", "m"},
	"other files":  {"c", "m"},
	"no manifest":  {"a", "b"},
	"single model": {"m"},
}

func TestCommitAll(t *testing.T) {
	for name, before := range befores {
		dir := t.TempDir()
		if err := writeSet(dir, "old", before...); err != nil {
			t.Fatal(err)
		}
		if err := writeSet(dir, "new", "a", "b", "m"); err != nil {
			t.Fatal(err)
		}
		want := each("old", before...)
		maps.Copy(want, each("new", "a", "b", "m"))
		if got := contents(t, dir); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if n := len(temporaries.names); n != 0 {
			t.Errorf("%s: %d files remembered", name, n)
		}
	}
	if err := CommitAll(); err != nil {
		t.Error(err)
	}
}

// TestCommitAllFails lets every operation fail, one at a time. What was there before is
// there again, or all that is new.
func TestCommitAllFails(t *testing.T) {
	for name, before := range befores {
		for at := 0; ; at++ {
			dir := t.TempDir()
			place(t, dir, before)
			f := &faults{at: at}
			restore := f.install(t)
			err := writeSet(dir, "new", "a", "b", "m")
			restore()
			if len(f.trace) <= at {
				break // there are no more operations
			}
			failed := f.trace[at]
			got := contents(t, dir)
			want := each("old", before...)
			switch renamed := slices.Index(f.trace, "rename .m.tmp m"); {
			case renamed >= 0 && renamed < at: // too late to fail
				maps.Copy(want, each("new", "a", "b", "m"))
				if strings.HasPrefix(failed, "remove") != (err == nil) {
					t.Errorf("%s: %s fails: %v", name, failed, err)
				}
				if err == nil {
					delete(got, "temporary") // which could not be removed
					delete(got, lockName)
				}
			case !errors.Is(err, errFault):
				t.Errorf("%s: %s fails: %v", name, failed, err)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %s fails: %v, want %v", name, failed, got, want)
			}
			if n := len(temporaries.names); n != 0 {
				t.Errorf("%s: %s fails: %d files remembered", name, failed, n)
			}
		}
	}
}

// TestCommitAllDies lets nothing happen after any one operation. Where there is a manifest,
// there are its files.
func TestCommitAllDies(t *testing.T) {
	for name, before := range befores {
		seen := make(map[string]bool)
		for at := 0; ; at++ {
			dir := t.TempDir()
			place(t, dir, before)
			f := &faults{at: at, dead: true}
			restore := f.install(t)
			writeSet(dir, "new", "a", "b", "m")
			restore()
			clear(temporaries.names)
			got := contents(t, dir)
			whole := map[string][]string{"old": before, "new": {"a", "b", "m"}}[got["m"]]
			for _, file := range whole {
				if got[file] != got["m"] {
					t.Errorf("%s: died at %s: %v", name, f.trace[min(at, len(f.trace)-1)], got)
				}
			}
			seen[got["m"]] = true
			if len(f.trace) <= at {
				break
			}
		}
		if had := slices.Contains(before, "m"); !seen["new"] || seen["old"] != had || seen[""] != (!had || slices.Contains(before, "a")) {
			t.Errorf("%s: seen %v", name, seen)
		}
	}
}

// TestCommitAllOrder: a rename that another depends on is durable before that one is made.
func TestCommitAllOrder(t *testing.T) {
	dir := t.TempDir()
	if err := writeSet(dir, "old", "b", "m"); err != nil {
		t.Fatal(err)
	}
	lock, err := tryLock(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	unlock(lock)
	f := &faults{at: -1}
	f.install(t)
	if err := writeSet(dir, "new", "a", "b", "m"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"create .a.tmp", "write .a.tmp", "sync .a.tmp",
		"create .b.tmp", "write .b.tmp", "sync .b.tmp",
		"create .m.tmp", "write .m.tmp", "sync .m.tmp",
		"lock " + lockName,
		"create .m.tmp", "rename m .m.tmp", "syncdir .",
		"rename .a.tmp a",
		"create .b.tmp", "rename b .b.tmp", "rename .b.tmp b", "syncdir .",
		"rename .m.tmp m", "syncdir .",
		"remove .m.tmp", "remove .b.tmp", "remove " + lockName,
	}
	if lock == nil { // there are no locks here, and so none to remove
		want = want[:len(want)-1]
	}
	if !slices.Equal(f.trace, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(f.trace, "\n"), strings.Join(want, "\n"))
	}
}

// TestCommitAllUndoFails says so, and leaves no manifest that leads to half a model.
func TestCommitAllUndoFails(t *testing.T) {
	dir := t.TempDir()
	if err := writeSet(dir, "old", "a", "b", "m"); err != nil {
		t.Fatal(err)
	}
	real := sys
	defer func() { sys = real }()
	stuck := false
	sys.rename = func(from, to string) error {
		if stuck = stuck || filepath.Base(to) == "b"; stuck {
			return &fs.PathError{Op: "rename", Path: from, Err: errFault}
		}
		return real.rename(from, to)
	}
	err := writeSet(dir, "new", "a", "b", "m")
	if !errors.Is(err, errFault) || !strings.Contains(fmt.Sprint(err), "nor could the old files be put back") {
		t.Error(err)
	}
	if _, there := contents(t, dir)["m"]; there {
		t.Error("a manifest")
	}
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := write(t, path, "text")
	for range 2 {
		if err := f.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Write([]byte("more")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there already")
	}
	commit(t, f)
	holds(t, path, "text")
	files(t, dir, 1)
	if err := f.Prepare(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Prepare after Commit: %v", err)
	}
	f = write(t, path, "new")
	if err := f.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := f.Abort(); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "text")
	files(t, dir, 1)
}

func TestAbandonBeforeCommitAll(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed")
	}
	defer func() { temporaries.isAbandoned = false }()
	dir := t.TempDir()
	a, m := write(t, filepath.Join(dir, "a"), "new"), write(t, filepath.Join(dir, "m"), "new")
	if err := a.Prepare(); err != nil {
		t.Fatal(err)
	}
	Abandon()
	if err := CommitAll(a, m); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	files(t, dir, 0)
}

// TestRemove: one file takes the place of another, which is there until then, or again where
// that fails.
func TestRemove(t *testing.T) {
	commitInstead := func(dir string) error {
		f, err := Create(filepath.Join(dir, "m"))
		if err != nil {
			return err
		}
		if _, err := f.Write([]byte("new")); err != nil {
			f.Abort()
			return err
		}
		return CommitAll(Remove(filepath.Join(dir, "i")), f)
	}
	for _, before := range [][]string{nil, {"i"}, {"m"}, {"i", "m"}} {
		for _, dead := range []bool{false, true} {
			for at := -1; ; at++ {
				dir := t.TempDir()
				place(t, dir, before)
				f := &faults{at: at, dead: dead}
				if at < 0 {
					f.at, f.dead = 1000, false
				}
				restore := f.install(t)
				err := commitInstead(dir)
				restore()
				clear(temporaries.names)
				got := contents(t, dir)
				if len(f.trace) <= at {
					break
				}
				if at < 0 && (err != nil || !maps.Equal(got, each("new", "m"))) {
					t.Errorf("%v: %v, %v", before, got, err)
				}
				if got["m"] == "new" && got["i"] != "" {
					t.Errorf("%v: both are there after %s fails: %v", before, f.trace[at], got)
				}
				if at >= 0 && !dead && got["m"] != "new" && !maps.Equal(got, each("old", before...)) {
					t.Errorf("%v: %v after %s fails", before, got, f.trace[at])
				}
			}
		}
	}
}

// TestRemoveAborted: what was aborted is no longer removed.
func TestRemoveAborted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	commit(t, write(t, path, "old"))
	f := Remove(path)
	if err := f.Abort(); err != nil {
		t.Error(err)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	holds(t, path, "old")
}
