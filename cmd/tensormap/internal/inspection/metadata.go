package inspection

import (
	"bufio"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
)

// Limits of what is shown of metadata, as of a vocabulary. --json has everything.
const (
	metadataWidth = 100 // characters of a value
	metadataItems = 8   // of an array
	metadataKeys  = 64  // of an object
)

// metadataFacts returns the members of md as facts, with prefix before their keys, and the members of nested objects, whose keys are joined by
// dots. Behind metadataKeys of an object it has the number of the others.
func metadataFacts(prefix string, md layout.Metadata) (f report.Facts) {
	for i, e := range md {
		if i == metadataKeys {
			f.Add(prefix+"…", fmt.Sprintf("%s more keys", report.Grouped(len(md)-i)))
			break
		}
		key := prefix + report.Shorten(report.Printable(e.Key), metadataWidth)
		switch v := e.Value.(type) {
		case layout.Metadata:
			if len(v) == 0 {
				f.Add(key, "{}")
			}
			f = append(f, metadataFacts(key+".", v)...)
		case string:
			f.Add(key, shortText(v))
		default:
			f.Add(key, oneLine(v))
		}
	}
	return f
}

// oneLine returns v as text on one line of metadataWidth. An object becomes its number of keys, binary data its size.
func oneLine(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return `"` + shortText(v) + `"`
	case layout.Metadata:
		return fmt.Sprintf("{%d keys}", len(v))
	case layout.Blob:
		return fmt.Sprintf("binary, %s", report.Size(uint64(len(v))))
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		return oneLineList(list)
	}
	return shortText(fmt.Sprint(v))
}

// oneLineList returns the elements of a slice as text on one line. Behind metadataItems of them it has their number.
func oneLineList(list reflect.Value) string {
	s := "["
	for i := range list.Len() {
		if i == metadataItems {
			return report.Shorten(s, metadataWidth) + fmt.Sprintf(", …] %s items", report.Grouped(list.Len()))
		}
		if i > 0 {
			s += ", "
		}
		s += oneLine(list.Index(i).Interface())
	}
	return report.Shorten(s, metadataWidth-1) + "]"
}

// shortText escapes and shortens s. It looks only at as much of s as could be shown.
func shortText(s string) string {
	const most = 4 * metadataWidth
	if len(s) > 2*most {
		s = s[:most] + s[len(s)-most:]
	}
	return report.Shorten(report.Printable(s), metadataWidth)
}

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

// joinTexts returns the text of each element of list, with commas between them. In place of the elements behind the first most it has their
// number.
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
