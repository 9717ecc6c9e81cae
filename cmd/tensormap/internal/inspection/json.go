package inspection

import (
	"io"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
)

// WriteJSON writes the object with a line for each field and for each tensor: easy to
// read by eye, by grep and by diff, and never whole in memory.
func WriteJSON(w io.Writer, in *inspection) error {
	j := report.JSON{W: w}
	j.Field("{\n", "format", in.Format)
	j.Field(",\n", "version", in.Version)
	j.Field(",\n", "files", in.Files)
	if in.Sharded {
		j.Field(",\n", "sharded", true)
	}
	j.Field(",\n", "flags", in.Flags)
	if in.Signature != nil {
		j.Field(",\n", "signature", in.Signature)
	}
	if in.Encryption != nil {
		j.Field(",\n", "encryption", in.Encryption)
	}
	j.Field(",\n", "metadata", in.Metadata)
	j.Begin("tensors")
	for t := range in.tensors() {
		j.Row(t.row())
	}
	j.End()
	if in.Graph != nil {
		j.Field(",\n", "graph", newGraphJSON(in.Graph))
	}
	j.Text("\n}\n")
	return j.Err
}
