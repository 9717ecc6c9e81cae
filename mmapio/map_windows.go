package mmapio

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// openShared opens a file to read, in a way that lets others rename and remove it. Files of
// os.Open forbid both.
func openShared(path string) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return os.NewFile(uintptr(h), path), nil
}

// mapReadOnly names the size: the mapping of a file that has shrunk since it was asked fails.
func mapReadOnly(fd uintptr, size int) ([]byte, error) {
	h, err := windows.CreateFileMapping(windows.Handle(fd), nil, windows.PAGE_READONLY, uint32(uint64(size)>>32), uint32(size), nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h) // the view keeps what it needs
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil // memory that the garbage collector does not manage
}

// unmap ends a mapping of mapReadOnly.
func unmap(b []byte) error { return windows.UnmapViewOfFile(address(b)) }

// duplicateDescriptor returns another handle of the file that fd is a handle of.
func duplicateDescriptor(fd uintptr) (uintptr, error) {
	var own windows.Handle
	here := windows.CurrentProcess()
	err := windows.DuplicateHandle(here, windows.Handle(fd), here, &own, 0, false, windows.DUPLICATE_SAME_ACCESS)
	return uintptr(own), err
}

// Functions of kernel32.dll that x/sys/windows lacks.
var (
	kernel32              = windows.NewLazySystemDLL("kernel32.dll")
	prefetchVirtualMemory = kernel32.NewProc("PrefetchVirtualMemory")
	globalMemoryStatusEx  = kernel32.NewProc("GlobalMemoryStatusEx")
)

// madvise does what Windows has for advice a about b, which starts on a page. It is errors.ErrUnsupported for HugePage.
func madvise(b []byte, a Advice) error {
	switch a {
	case Normal, Sequential, Random: // the system reads ahead as it likes
		return nil
	case WillNeed:
		entry := struct{ address, size uintptr }{address(b), uintptr(len(b))}
		if ok, _, err := prefetchVirtualMemory.Call(uintptr(windows.CurrentProcess()), 1, uintptr(unsafe.Pointer(&entry)), 0); ok == 0 {
			return err
		}
		return nil
	case DontNeed:
		return munlock(b) // takes pages that are not locked out of the process's working set
	}
	return errors.ErrUnsupported
}

// mlock locks the pages of b in memory. It fails past the limit of the process.
func mlock(b []byte) error { return windows.VirtualLock(address(b), uintptr(len(b))) }

// munlock undoes mlock. Pages that are not locked leave the working set of the process.
func munlock(b []byte) error {
	err := windows.VirtualUnlock(address(b), uintptr(len(b)))
	if err == windows.ERROR_NOT_LOCKED {
		return nil
	}
	return err
}

// Memory returns the size of the machine's physical memory in bytes, or 0 if the platform
// does not tell.
func Memory() uint64 {
	var status struct {
		length, load uint32
		physical     uint64
		_            [6]uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status)))
	return status.physical
}
