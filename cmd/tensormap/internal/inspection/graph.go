package inspection

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
)

// graphJSON is a graph in the JSON of inspect.
type graphJSON struct {
	Inputs  []int      `json:"inputs"` // positions in Nodes, as those of a node
	Outputs []int      `json:"outputs"`
	Nodes   []nodeJSON `json:"nodes"`
}

type nodeJSON struct {
	Name       string          `json:"name"`
	Op         string          `json:"op"`
	Inputs     []int           `json:"inputs"`
	Tensors    []string        `json:"tensors"`
	Attributes layout.Metadata `json:"attributes,omitempty"`
}

// newGraphJSON describes a graph for inspect --json.
func newGraphJSON(g *layout.Graph) graphJSON {
	j := graphJSON{Inputs: report.OrEmpty(g.Inputs), Outputs: report.OrEmpty(g.Outputs), Nodes: []nodeJSON{}}
	for _, n := range g.Nodes {
		j.Nodes = append(j.Nodes, nodeJSON{n.Name, n.Op, report.OrEmpty(n.Inputs), report.OrEmpty(n.Tensors), n.Attributes})
	}
	return j
}

// writeGraph lists the nodes of a graph, which refer to each other by position.
func writeGraph(w *bufio.Writer, g *layout.Graph, s terminal.Screen) {
	var f report.Facts
	f.Add("inputs", nodeList(g, g.Inputs))
	f.Add("outputs", nodeList(g, g.Outputs))
	f.Write(w, s)
	if len(g.Nodes) == 0 {
		return
	}
	w.WriteString("\n")
	grid := &report.Grid{
		Heading: []string{"node", ">#", "op", "inputs", "tensors", "attributes"},
		Spare:   []string{"attributes", "tensors"},
		Rows: func(yield func([]string) bool) {
			for i, n := range g.Nodes {
				if !yield([]string{shortText(n.Name), strconv.Itoa(i), shortText(n.Op), joined(n.Inputs, position), paramNames(n), attributes(n.Attributes)}) {
					return
				}
			}
		},
	}
	grid.Write(w, s)
}

// nodeList returns the names of nodes, with their positions.
func nodeList(g *layout.Graph, list []int) string {
	return joined(list, func(i int) string {
		if i >= 0 && i < len(g.Nodes) && g.Nodes[i].Name != "" {
			return shortText(g.Nodes[i].Name) + " (" + position(i) + ")"
		}
		return position(i)
	})
}

// position returns the text for node number i.
func position(i int) string { return "#" + strconv.Itoa(i) }

// paramNames returns the names of a node's tensors, without the node's own name in front.
func paramNames(n layout.Node) string {
	return joined(n.Tensors, func(name string) string {
		_, last, found := strings.Cut(strings.TrimPrefix(name, n.Name), "/")
		if !found {
			last = name
		}
		return shortText(last)
	})
}

// attributes returns attributes as key=value.
func attributes(md layout.Metadata) string {
	return joined(md, func(e layout.Entry) string { return shortText(e.Key) + "=" + oneLine(e.Value) })
}

// joined returns the texts of a list, with commas between them. It only counts the last elements of a long list.
func joined[T any](list []T, text func(T) string) string {
	var texts []string
	for i, v := range list {
		if i == metadataItems {
			texts = append(texts, fmt.Sprintf("… %d more", len(list)-i))
			break
		}
		texts = append(texts, text(v))
	}
	return strings.Join(texts, ", ")
}
