package attack

import "syscall"

// threadID returns the number of the thread that calls.
func threadID() int { return syscall.Gettid() }
