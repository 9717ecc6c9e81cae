// Package peers holds remote against the servers that it is made for, and against programs that
// share its servers and caches: the reference registry (distribution), crane's library, Ollama's
// own code, and an S3 gateway (versitygw). All run in this process or as its children, on
// loopback. It is a module of its own, for the sake of their dependencies.
package peers
