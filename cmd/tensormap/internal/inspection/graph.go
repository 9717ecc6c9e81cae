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
				if !yield([]string{shortText(n.Name), strconv.Itoa(i), shortText(n.Op), positions(n.Inputs), paramNames(n), attributes(n.Attributes)}) {
					return
				}
			}
		},
	}
	grid.Write(w, s)
}

// nodeList names nodes with their positions.
func nodeList(g *layout.Graph, list []int) string {
	var names []string
	for _, i := range list {
		name := "#" + strconv.Itoa(i)
		if i >= 0 && i < len(g.Nodes) && g.Nodes[i].Name != "" {
			name = shortText(g.Nodes[i].Name) + " (" + name + ")"
		}
		names = append(names, name)
	}
	return few(names)
}

func positions(list []int) string {
	var texts []string
	for _, i := range list {
		texts = append(texts, "#"+strconv.Itoa(i))
	}
	return few(texts)
}

// paramNames lists the names of a node's tensors without the node's own name.
func paramNames(n layout.Node) string {
	var names []string
	for _, name := range n.Tensors {
		_, last, found := strings.Cut(strings.TrimPrefix(name, n.Name), "/")
		if !found {
			last = name
		}
		names = append(names, shortText(last))
	}
	return few(names)
}

func attributes(md layout.Metadata) string {
	var texts []string
	for key, value := range md.All() {
		texts = append(texts, shortText(key)+"="+brief(value))
	}
	return few(texts)
}

// few joins words, and only counts the last of a long list.
func few(words []string) string {
	if n := len(words); n > metadataItems {
		words = append(words[:metadataItems:metadataItems], fmt.Sprintf("… %d more", n-metadataItems))
	}
	return strings.Join(words, ", ")
}
