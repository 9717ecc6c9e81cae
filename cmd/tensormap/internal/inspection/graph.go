package inspection

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
)

// writeGraph lists the nodes of a graph, which refer to each other by position.
func writeGraph(w *bufio.Writer, g *layout.Graph, s report.Screen) {
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
				if !yield([]string{shortText(n.Name), strconv.Itoa(i), shortText(n.Op), joinTexts(n.Inputs, metadataItems, nodeNumber), paramNames(n),
					joinTexts(n.Attributes, metadataItems, func(e layout.Entry) string { return shortText(e.Key) + "=" + oneLine(e.Value) })}) {
					return
				}
			}
		},
	}
	grid.Write(w, s)
}

// nodeList returns the names of the nodes of g at the positions in list, with the positions.
func nodeList(g *layout.Graph, list []int) string {
	return joinTexts(list, metadataItems, func(i int) string {
		if i >= 0 && i < len(g.Nodes) && g.Nodes[i].Name != "" {
			return shortText(g.Nodes[i].Name) + " (" + nodeNumber(i) + ")"
		}
		return nodeNumber(i)
	})
}

// nodeNumber returns the text that stands for node number i: "#3".
func nodeNumber(i int) string { return "#" + strconv.Itoa(i) }

// paramNames returns the names of a node's tensors, without the node's own name in front.
func paramNames(n layout.Node) string {
	return joinTexts(n.Tensors, metadataItems, func(name string) string {
		_, last, found := strings.Cut(strings.TrimPrefix(name, n.Name), "/")
		if !found {
			last = name
		}
		return shortText(last)
	})
}

// joinTexts returns the text of each element of list, with commas between them. In place of those behind the first most it has their number.
func joinTexts[T any](list []T, most int, text func(T) string) string {
	var texts []string
	for i, v := range list {
		if i == most {
			texts = append(texts, fmt.Sprintf("… %d more", len(list)-i))
			break
		}
		texts = append(texts, text(v))
	}
	return strings.Join(texts, ", ")
}
