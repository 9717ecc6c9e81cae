package loader

import (
	"io"

	"github.com/tensormap/tensormap/loader/internal/content"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// Segment is what the tests of compressed tensors need to exceed.
const Segment = content.StoredRead

// ReadFrom lets m read its tensors from r.
func ReadFrom(m *Model, r io.ReaderAt, size int64) {
	m.files[0].data = datafile.New("reader", mmapio.FromReaderAt(r, size))
}
