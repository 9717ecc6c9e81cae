package inspection

import (
	"io"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
)

// WriteJSON writes the object with a line for each field and for each tensor: easy to
// read by eye, by grep and by diff, and never whole in memory.
func WriteJSON(w io.Writer, in *inspection) error {
	j := report.JSON{W: w}
	j.Field("format", in.Format)
	j.Field("version", in.Version)
	j.Field("files", in.Files)
	if in.Sharded {
		j.Field("sharded", true)
	}
	j.Field("flags", in.Flags)
	if in.Signature != nil {
		j.Field("signature", in.Signature)
	}
	if in.Encryption != nil {
		j.Field("encryption", in.Encryption)
	}
	j.Field("metadata", in.Metadata)
	j.List("tensors")
	for t := range in.tensors() {
		j.Row(t.row())
	}
	if in.Graph != nil {
		j.Field("graph", newGraphJSON(in.Graph))
	}
	j.Close()
	return j.Err
}
