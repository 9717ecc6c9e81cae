// Package tsm reads TSM modules, the files of TenniS (once TensorStack): a computation
// graph whose nodes carry tensors.
//
// # The file
//
// Integers are little-endian, i32 signed and here never negative.
//
//	┌─ Header ──────────────────────────────────────────────── 128 bytes ─┐
//	│  0  fake      i32          reserved                                 │
//	│  4  code      i32          0x19910929                               │
//	│  8  data      [120]byte    reserved                                 │
//	├─ Module ────────────────────────────────────────────────────────────┤
//	│     inputs    i32 n, n × i32                      positions in graph│
//	│     outputs   i32 n, n × i32                      positions in graph│
//	│     graph     i32 n, n × node                                       │
//	└─────────────────────────────────────────────────────────────────────┘
//
//	node           bubble; inputs: i32 n, n × i32                positions in graph
//	bubble         i32 n, n × (name: i32 length, bytes; packed tensor)
//	packed tensor  i32 n, n × tensor                             its fields; may have none
//	tensor         u8 dtype, i32 dims, dims × i32 shape, memory  shape outermost first
//
// Source: "模块文件描述" (description of module files) of TenniS, update of 2020-02-03.
//
// # Where the specification is silent, or wrong
//
// The rules are what https://github.com/TenniS-Open/TenniS follows (revision
// 1e05296 for C++, d1f9a9d, the last one with it, for Python), and where it has none, ours:
//
//   - FLOAT64 has 8 bytes. The table of sizes says 6, an old mistake of the program.
//     BOOLEAN, COMPLEX32, COMPLEX64 and COMPLEX128 have 1, 4, 8 and 16.
//     Numbers 25 to 32 are SINK8Q0 to SINK8Q7, one byte each. PTR has no place in a file and
//     is refused. VOID has no bytes.
//   - A scalar has no dimensions or the shape [1]. A dimension of 0 makes an empty tensor.
//   - Five params describe their node and are no tensors: #name and #op (CHAR8), #shape
//     (INT32, -1 for a dimension that is not known), #dtype and #output_count (INT32, one
//     element). They have one field of at most one dimension. All other params are tensors.
//   - Names of params are UTF-8. Nobody keeps to the specification's limit of 31 bytes: [File.Audit]
//     warns of longer ones, of up to 4096. A node with two params of the same name is refused:
//     TenniS keeps the first in C++ and the last in Python.
//   - Indexes count nodes. A node that reads its own output, directly or through others, is an
//     error.
//   - fake and data are ignored. Audit warns of bytes behind the module.
//
// # Names of tensors
//
// The tensor in param "value" of node "bias" is called "bias/value". If a param has several
// fields, their position comes behind it: "anchors/value/0", "anchors/value/1".
//
// A node's name may be missing, and other nodes may have it too. Tensors are named by
// the position of their node in the graph, such as "7/value", if its name
//
//   - is empty,
//   - is also the name of another node with tensors (then none of the nodes gives it), or
//   - is the position of another node.
//
// Names may have slashes, so that tensors of two nodes could still have the same name:
// field 1 of param "b" of node "a", and param "1" of node "a/b". Names could also be far
// longer together than the file, if a long name belongs to many tensors. In both cases all
// tensors of the file are named by position: "7/2" for param 2 of node 7, special
// params not counted, and "7/2/0" for its field 0.
//
// # Namesakes
//
// A .sta container of the same project has the number 0x19910929 at 0 instead of 4. It is
// a tree of values and not a module, and refused by name.
package tsm
