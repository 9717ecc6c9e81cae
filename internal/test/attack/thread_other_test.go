//go:build unix && !linux

package attack

// threadID returns no thread's number, where no file lists threads.
func threadID() int { return 0 }
