// Package layouttest holds what the tests of all format packages have in common. It is
// imported by tests alone.
//
// A [Format] says what a package decodes and where its fixtures are. From it come:
//
//   - Fixtures and the descriptions that the programs which wrote them left beside them
//     ([Format.Fixtures]), and the comparison of a decoded file with its [Description]
//     ([Format.Witness]).
//   - Everything that a file can be asked for, for bytes that may be damaged in any way:
//     they are refused in good form, or the file keeps what its index and its methods
//     promise ([Format.Use]).
//
// What is done to the bytes before that are sequences: [Prefixes] cuts them short at every
// length, [Overwritten] writes numbers over every offset, among them those of [Extremes],
// and [Flipped] turns bits over.
//
// There are inputs that note what is read ([Recorder]), fail ([Failing]), or have but the
// ends of a file ([Sparse]); and a [Bound] on the memory that a file may cost. A writer may be
// [Misused].
//
// No check here uses one of package layout's own.
package layouttest
