// Package layouttest has the common parts of the tests of all format packages. Only tests import it. No check
// here uses one of package layout's own.
//
// A [Format] says what a package decodes and where its fixtures are. [Format.Witness] compares decoded
// fixtures with their descriptions by the programs that wrote them. [Format.Use] puts all questions to a file
// whose bytes may be damaged in any way: it is refused in good form, or keeps what its index and its methods promise.
package layouttest
