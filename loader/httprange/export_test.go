package httprange

import "net/http"

// DefaultTransport is that of the client that nobody else made.
func DefaultTransport() *http.Transport { return defaultClient.Transport.(*http.Transport).Clone() }
