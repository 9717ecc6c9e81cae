// Package httprange reads a remote file at offsets, by HTTP range requests (RFC 9110,
// section 14): what [github.com/tensormap/tensormap/loader.OpenReaderAt] needs to load
// tensors from a web server or an object store without fetching the rest of the file.
//
//	r, err := httprange.Open(ctx, "https://models.example/model.gguf", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	m, err := loader.OpenReaderAt(ctx, r, r.Size(), nil)
//
// # One version
//
// Open notes the file's length and what the server says of its version. Every later request
// carries a condition, and every answer must say the same, or the read is [ErrChanged]:
//
//   - A strong ETag is sent as If-Match and must come back. The bytes are of one version.
//   - Else Last-Modified is sent as If-Unmodified-Since. It must come back, with the weak
//     ETag if there was one. The bytes are of one version unless the file was changed twice
//     within the second of that date. [Reader.Version] is empty if it was not over by then.
//   - A weak ETag alone must come back. The server decides which changes it takes for none.
//   - With neither, only a change of length is noticed.
//
// Options.RequireVersion refuses a file without a strong ETag or a date whose second is over.
// The promise is for each file: siblings are versions of their own. Servers behind
// one address that do not agree on the ETag are ErrChanged. A range with a Content-Encoding
// is [ErrResponse], since its offsets would not be offsets in the file.
//
// # Credentials
//
// Options.Header, what Options.Authorizer adds, and the user that an address names go to the
// address's own server: the same scheme, host and port. A request that a redirect has led elsewhere
// goes without them from then on, even back home. No request carries a Referer. A redirect from https to http
// is refused. In a browser, whose fetch follows redirects by rules of its own, every redirect
// is refused if there are headers.
//
// Later requests go to the target of the first one's redirects, until a server refuses it: signed addresses expire. The
// file's own address is then asked once more, after the first request too.
//
// Errors name the file by its [Reader.Name], without user, password and query. They quote a
// server in short and printable words, without what may be secret in the request.
//
// # Retries
//
// A request that fails for a reason that may pass is repeated from the byte where it ended,
// with growing pauses. Such reasons are a connection cut or silent, an answer cut short, 408,
// 429 and 5xx. A read that gets fewer than 4 KiB in Options.Timeout, or by Options.Attempts
// requests, is [ErrStalled] or the last request's error. Bytes that come again, since an answer
// without ranges began anew, do not count. Close ends all reads at once. A server
// that ignores ranges and would send the whole file is [ErrNoRanges], unless the file is no
// larger than what Open asks for. [Download] downloads such a file.
package httprange
