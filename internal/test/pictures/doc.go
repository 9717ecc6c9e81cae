// Package pictures holds nothing but a test: it draws the bytes of quantized checkpoints for docs/quantized.
//
//	go test ./internal/test/pictures -update
//
// A picture shows the first bytes of a fixture's codes, the elements that they are, and how one of them
// becomes a value. The test computes that value from the parts, and holds it against the loader's.
package pictures
