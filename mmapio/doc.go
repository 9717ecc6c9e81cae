// Package mmapio has the bytes of a file in memory without reading it:
// it maps files read-only, advises the kernel about them, survives files that
// shrink while mapped, and reinterprets bytes as typed slices.
//
// # Lifetime
//
// A slice from [Mapping.Bytes] or [Mapping.Slice] points at the mapped file itself if
// Aliased is true, and so does a [View] of it. It lives until [Mapping.Close]. Closing
// removes the memory from the address space: touching a view afterwards kills the
// process, or reads whatever was placed at that address since. Drop every view before
// Close; even a view that is never read again must not stay reachable, since the garbage
// collector may later own the addresses it holds.
//
// A view does not keep its Mapping alive, and nothing but Close unmaps: a
// Mapping that is dropped without Close stays mapped until the process ends,
// so its views stay good.
//
// Slices of a mapping whose Aliased is false are ordinary memory of the caller
// and outlive Close.
//
// A second Close does nothing and returns nil. Every other method that can
// fail answers [ErrClosed] after Close, and Bytes returns nil; Size, Aliased
// and Mapped keep answering. All methods may be called concurrently: Close
// waits for the calls that are running, and only views must not outlive it.
//
// # Mapping late
//
// A Mapping from [Lazy] takes no address space and no descriptor until one of
// its bytes is asked for: a model of a thousand files costs only the files that
// are used. From then on it is as any other; Aliased and Mapped say from the
// start what it will be, and [Mapping.Pending] whether it has come to that.
//
// # Writing
//
// Mapped pages are read-only. Writing to a view of one is a memory fault, which ends the
// process. Inside [Guard] it becomes a [*FaultError] like any other fault in a mapping.
// All views are limited in capacity, so append copies instead of writing into the file.
//
// # Files that change
//
// A mapping shares the file's pages: bytes overwritten by another program change under
// its views. Pages cut off by truncation, and pages the disk fails to deliver, fault when
// touched. This ends the process with SIGBUS, unless [Guard] runs the code that touches
// them. [Mapping.ReadAt], Slice if it copies, and [Mapping.Populate] are guarded
// already and return a *FaultError. A file truncated in the middle of a page keeps that
// page, with zeros after the new end: such a loss is silent, and only a checksum finds
// it.
//
// Windows does not truncate a mapped file below its mapping.
//
// System calls that are handed a view of a lost page (writing it to a socket,
// say) do not fault; they fail with EFAULT.
//
// # Assembly over a mapping
//
// A fault in assembly is caught like any other if the function calls nothing: so it is with
// the kernels of this module and with what the standard library has for hashing, copying and
// comparing. Below assembly that calls from a frame without a pointer map (NO_LOCAL_POINTERS in
// funcdata.h), and below C, a fault ends the process ("missing stackmap"): the runtime cannot look
// at that frame when the stack grows or is searched for garbage. Guard does not help. Such code
// is never handed a mapping, only a copy of its bytes. A test lists every package with such
// functions that this module links, and why none of them reads a mapping.
//
// # Empty files
//
// An empty file has nothing to map, so Mapped is false for it; apart from that
// Map treats it as any other: if it is aliased, Bytes is empty but not nil.
// Slice(0, 0) succeeds. Files whose size the system reports as zero whatever
// they hold, as under /proc, count as empty.
//
// # Huge pages
//
// [HugePage] asks for large pages under a mapping, which saves address translation when a
// model is read at random. It is a wish. For files on disk, Linux grants it to pages read
// from then on if the file system supports large folios. A kernel that was built to
// collapse read-only file pages grants it in the background. The files of a tmpfs mounted
// with huge=advise get them. If the kernel knows no such advice, the error is
// [errors.ErrUnsupported], and the mapping works as before.
//
// # Windows
//
// A mapped file cannot be truncated (ERROR_USER_MAPPED_FILE). Windows also refuses to replace it, and most file systems
// to remove it. It can be renamed. Pages that a disk or a share fails to deliver raise EXCEPTION_IN_PAGE_ERROR. The runtime
// turns that into a panic as it does EXCEPTION_ACCESS_VIOLATION (sigpanic in its signal_windows.go), and Guard into a
// [*FaultError]. Two faults are not contained:
//
//   - A fault in code outside the Go program, such as a DLL's, ends the process (isgoexception, in the same file).
//   - Windows writes the processor's registers to the goroutine's stack, where the runtime reserves 4 KiB for it. With the
//     registers of AMX in use they take 11 KiB. A fault near the stack's end may then overwrite other memory: see
//     https://go.dev/issue/81238. [OpenReader] never faults.
//
// [WillNeed] prefetches. [DontNeed] takes pages out of the process's working set, and undoes [Mapping.Lock]. [Normal],
// [Sequential] and [Random] do nothing. [HugePage] and [Mapping.Resident] are [errors.ErrUnsupported].
//
// # Platforms
//
// On Unix systems and Windows [Map] maps. If address space is limited or the file system cannot map, the file is read as by [OpenReader], and
// Mapped says so. On Plan 9 and WebAssembly its slices are copies on 64-byte boundaries, as the slices of [OpenReader] are everywhere.
// [ShowsWrites] tells where a mapping shows what is written to its file. Files are little-endian: on a big-endian machine View refuses
// elements wider than a byte, and [Copy] swaps.
package mmapio
