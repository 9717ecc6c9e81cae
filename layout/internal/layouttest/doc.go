// Package layouttest has the common parts of the tests of all format packages. Only tests import
// it.
//
// A [Format] says what a package decodes and where its fixtures are. From it come:
//
//   - Fixtures with their descriptions by the programs that wrote them
//     ([Format.Fixtures]), and the comparison of a decoded file with its [Description]
//     ([Format.Witness]).
//   - All questions to a file whose bytes may be damaged in any way:
//     the file is refused in good form, or keeps what its index and its methods
//     promise ([Format.Use]).
//
// Sequences damage the bytes before that: [Prefixes] cuts them short at every
// length, [Overwritten] writes numbers over every offset, among them those of [Extremes],
// and [Flipped] flips bits.
//
// There are inputs that record what is read ([Recorder]), fail ([Failing]), or have only the
// ends of a file ([Sparse]). A [Bound] limits the memory that a file may cost. A writer may be
// [Misused].
//
// No check here uses one of package layout's own.
package layouttest
