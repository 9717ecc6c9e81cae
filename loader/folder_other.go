//go:build !unix

package loader

// nonblock does not exist here: what a file is has to be known before it is opened.
const nonblock = 0
