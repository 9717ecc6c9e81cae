// Package sparse keeps files of a known size that fill as they are read.
//
// A [File] has a sparse file for its bytes and, beside it, a map that says which chunks of 64 KiB
// are there. A read fetches the chunks that it lacks, once for all who ask, and keeps them. Bytes
// that are there stay when the process ends, and serve the next one.
//
// # On disk
//
// NAME.data has the size of the whole file from the start. NAME.map begins with 64 bytes, followed
// by one byte for each chunk, 1 if it is there:
//
//	offset  size  field
//	0       8     "TMSPARSE"
//	8       4     version, 2
//	12      4     chunk size in bytes, 65536
//	16      8     size of the file in bytes
//	24      32    SHA-256 of the file's identity
//	56      8     zero
//
// The file's name for people follows, up to the map's end or a zero byte. Behind that is the version of the bytes, as their
// source tells it, and another zero byte.
//
// Integers are little-endian. A byte of the map is written after the bytes of its chunk are on disk:
// a process may be killed, or the machine stop, at any moment. Chunks that were under way are then
// fetched again.
//
// # Versions
//
// The identity need not tell versions apart: a digest is a server's word until all bytes have come. Options.Version does.
// The first bytes that come decide the version, for all processes. It is in the map before any chunk is claimed. If the source
// has another one later, the fetch is mmapio.ErrChanged, and the next Open begins anew. Bytes of a source that tells no version
// serve the File that has fetched them, and no later one.
//
// # Several processes
//
// A fetch locks its chunks, and looks at the map again before it asks the source. On Linux the locks are of ranges, and end
// with the process. Elsewhere two processes may fetch the same bytes, or begin a file in the same moment with two versions.
//
// A fetch runs in the read that begins it, and is shared by all reads of this process that want one of its chunks. If that read
// is canceled, one of the others fetches.
//
// An open File holds its bytes (flock), so that nobody removes them. A folder that cannot be written to is read all the same.
// Once a write fails, as on a full disk, the file takes no more. Reads go on, from the source into the caller's memory.
package sparse
