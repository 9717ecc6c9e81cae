package layout

// Summarizer is a File that can say in a few lines what a person wants to know of it first.
type Summarizer interface {
	// Summary reads what it needs of the metadata, and tensors where that is little.
	Summary(in Input) ([]Fact, error)
}

// Fact is one line of a summary. A Value may have several lines.
type Fact struct {
	Label string
	Value string
}

// Grapher is a File that holds a computation graph beside its tensors.
type Grapher interface {
	Graph(in Input) (*Graph, error)
}

// Graph is the computation that a model's tensors belong to.
type Graph struct {
	// Inputs and Outputs are positions in Nodes.
	Inputs, Outputs []int
	Nodes           []Node
}

// Node is one operation of a Graph.
type Node struct {
	// Name may be empty, and need not be unique.
	Name string
	// Op is the operator, such as "conv2d", as the format spells it.
	Op string
	// Inputs are the positions of the nodes that this one reads.
	Inputs []int
	// Tensors are the names in the Index of the tensors that belong to the node.
	Tensors []string
	// Attributes are what else the file says of the node.
	Attributes Metadata
}
