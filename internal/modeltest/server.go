package modeltest

import (
	"net/http"
	"sync/atomic"
)

// CountedResponse counts the bytes of a server's answer in N, before the client can know of them.
type CountedResponse struct {
	http.ResponseWriter
	N *atomic.Int64
}

func (c CountedResponse) Write(b []byte) (int, error) {
	c.N.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

// Unwrap returns the writer that http.ResponseController asks for.
func (c CountedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }
