package report

import "github.com/tensormap/tensormap/layout"

// Graph is a computation graph in JSON. The names are a contract.
type Graph struct {
	Inputs  []int  `json:"inputs"` // positions in Nodes, as those of a node
	Outputs []int  `json:"outputs"`
	Nodes   []Node `json:"nodes"`
}

// Node is a node of a Graph.
type Node struct {
	Name       string          `json:"name"`
	Op         string          `json:"op"`
	Inputs     []int           `json:"inputs"`
	Tensors    []string        `json:"tensors"`
	Attributes layout.Metadata `json:"attributes,omitempty"`
}

// NewGraph describes a graph for JSON.
func NewGraph(g *layout.Graph) Graph {
	j := Graph{Inputs: OrEmpty(g.Inputs), Outputs: OrEmpty(g.Outputs), Nodes: []Node{}}
	for _, n := range g.Nodes {
		j.Nodes = append(j.Nodes, Node{n.Name, n.Op, OrEmpty(n.Inputs), OrEmpty(n.Tensors), n.Attributes})
	}
	return j
}
