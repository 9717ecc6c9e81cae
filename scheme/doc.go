// Package scheme finds the quantized weights of a checkpoint among its tensors.
//
// A quantized checkpoint stores one weight as several tensors: codes, and beside them scales, zero
// points and more. The codes alone look like a weight, and are wrong by orders of magnitude.
// [Find] groups tensors into weights by their names, types and shapes. It gives the weight its
// true shape, and says how codes become values. [Form.ReadScales] reads the scales of the codes.
//
// Companions decide which scheme it is. The configuration beside the files supplies parameters only.
// Both are distrusted: every shape is held against every other. A weight that does not fit has an
// error of its own, and spoils no other.
//
// A scheme is a file: how its parts are named, which keys of a configuration it has, which shapes go together, and what
// scales and zero points mean. The package does no I/O and knows no format: [Source] and [Parts] read bytes.
package scheme
