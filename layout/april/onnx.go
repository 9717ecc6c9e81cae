package april

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// Network is one of a file's networks.
type Network struct {
	Role string // such as "encoder"
	Entry
	// Initializers is the number of tensors of the index that are part of the network.
	Initializers int
	// Sparse is the number of sparse initializers, which the index leaves out.
	Sparse int
	// Err says why the network is no ONNX model. It is nil for one.
	Err error

	atSparse uint64 // where the first sparse initializer is
}

// initializer is a tensor inside a network, as the index will have it. Its TensorProto starts at offset at of the file.
type initializer struct {
	at uint64
	layout.Tensor
}

// reader collects the initializers of the networks. No file states their number.
type reader struct {
	in    layout.Input
	lim   layout.Limits
	found []initializer
}

// readNetwork reads n, all of whose fields must be in order. It sets n.Err if n is no ONNX model. An error it returns is about an
// initializer, or about reading at all.
func (r *reader) readNetwork(n *Network) error {
	m := newWire(r.in, "network", n.Entry, r.lim)
	var graph *Entry
	for rec := range m.records(n.end()) {
		switch {
		case rec.num != modelGraph:
		case graph != nil || rec.typ != protowire.BytesType:
			m.refuse(rec.at, "graph", layout.ErrDuplicate, "a second graph, or one of wire type %d", rec.typ)
		default:
			graph = &Entry{m.Offset(), rec.size}
		}
	}
	if err := m.Err(); err != nil {
		if m.malformed {
			n.Err, err = err, nil
		}
		return err
	}
	if graph == nil {
		n.Err = layout.Errorf(layout.April, n.Offset, "network", layout.ErrInvalid, "%d bytes of protobuf without a graph", n.Size)
		return nil
	}
	before := len(r.found)
	w := newWire(r.in, "graph", *graph, r.lim)
	r.readGraph(&w, n, *graph)
	n.Initializers = len(r.found) - before
	return w.Err()
}

// readGraph reads the initializers of a GraphProto and skips all else: tensors of operators'
// attributes and of graphs inside are not found.
func (r *reader) readGraph(w *wire, n *Network, graph Entry) {
	limit := min(r.lim.Tensors, layout.MaxRecords)
	for rec := range w.records(graph.end()) {
		switch {
		case rec.num == graphSparseInitializer:
			if n.Sparse++; n.Sparse == 1 {
				n.atSparse = rec.at
			}
		case rec.num != graphInitializer:
		case rec.typ != protowire.BytesType:
			w.refuse(rec.at, "initializer", layout.ErrInvalid, "wire type %d", rec.typ)
		case uint64(len(r.found)) >= limit:
			w.refuse(rec.at, "initializer", layout.ErrLimit, "more than %d tensors", limit)
		default:
			at := w.Offset()
			r.found = append(r.found, initializer{at, readTensor(w, r.lim, n.Role, at, rec.end)})
		}
	}
}
