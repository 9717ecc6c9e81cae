//go:build !unix

package loader

// nonblock has no meaning here.
const nonblock = 0
