package loader_test

import (
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/tensormap/tensormap/mmapio"
)

// lose takes from a mapping of the file at path all pages but those of the first bytes. No mapped file can be
// truncated, so access is what they lose; the runtime treats that as it treats a page that cannot be read.
func lose(t *testing.T, _ string, mapping *mmapio.Mapping, left int64) {
	t.Helper()
	page, b := int64(os.Getpagesize()), mapping.Bytes()
	kept := min((left+page-1)/page*page, int64(len(b)))
	if kept == int64(len(b)) {
		return
	}
	b = b[kept:]
	var old uint32
	if err := windows.VirtualProtect(reflect.ValueOf(b).Pointer(), uintptr(len(b)), windows.PAGE_NOACCESS, &old); err != nil {
		t.Fatal(err)
	}
}
