package loader_test

import (
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/tensormap/tensormap/mmapio"
)

// losePages takes from a mapping all pages but those of the first left bytes. Windows truncates no mapped file, so losePages forbids access
// to the pages. The runtime treats that as it treats a page that cannot be read.
func losePages(t *testing.T, _ string, mapping *mmapio.Mapping, left int64) {
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
