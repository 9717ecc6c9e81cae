package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// TestReplaceInUse: a file that is open or mapped is not replaced. The error says so, and the file stays as it was.
func TestReplaceInUse(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		commit(t, write(t, path, "old"))
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if mapped {
			h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			view, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, 3)
			if err != nil {
				t.Fatal(err)
			}
			windows.CloseHandle(h)
			f.Close()
			t.Cleanup(func() { windows.UnmapViewOfFile(view) })
		} else {
			t.Cleanup(func() { f.Close() })
		}
		err = write(t, path, "new").Commit()
		if err == nil && mapped {
			t.Log("this version of Windows replaces mapped files")
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "open or mapped") || strings.Count(err.Error(), path) != 1 {
			t.Errorf("mapped %v: %v", mapped, err)
		}
		holds(t, path, "old")
		files(t, dir, 1)
	}
}
