// Package answer declares what the page of package explore asks for and is answered. It holds the contract between them,
// and the types that packages grid, odd and explore share.
package answer

import (
	"encoding/json"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
)

// The answers below are JSON. NaN is null, and infinities are "Infinity" and "-Infinity", as the command has them. Tensors are known by
// their number: their place in the model's order, from 0. Each answer has the header Model: ModelAnswer.ID of the model it is
// of, so that the page sees that another one is served. An answer that is an error has a Problem and a status of 400 or more.
//
// A page in one file has the answers in <script type="application/json" id="answers">: an object whose keys are paths with
// unescaped queries, in the order below: "data/tensor?name=a.weight". Lines are an array; a picture is an object of tiles
// (the header) and bytes (in base64). Rows of tensors are SavedRows. The lists by role and by layer stand under
// "data/list?group=role" and "data/list?group=layer": rows and window of a ListAnswer with all groups unfolded, but pairs of depth
// and number in place of tensors. The page says of all else that one file cannot show it.

// Real is a figure as the command writes it in JSON.
type Real = report.Real

// ModelAnswer answers data/model, from the index alone.
type ModelAnswer struct {
	Title      string `json:"title"` // the base name of the file, directory or address
	Name       string `json:"name"`  // of the model, as its configuration or its file says it; else Title
	From       string `json:"from"`  // the path or address as it was given
	Format     string `json:"format"`
	ID         string `json:"id"` // changes when another model or another version of a file is served
	Files      int    `json:"files"`
	Bytes      uint64 `json:"bytes"` // of all files
	Tensors    int    `json:"tensors"`
	Parameters uint64 `json:"parameters"`
	// BitsPerWeight is 8 times the stored bytes of all tensors and their parts, divided by Parameters.
	BitsPerWeight Real            `json:"bits_per_weight"`
	Types         []TypeTotal     `json:"types"`           // the largest first
	Names         string          `json:"names"`           // "Hugging Face, BERT"; "ggml, llama"; "" if no table knows them
	Signature     string          `json:"signature"`       // who signed, and whether that is verified; "none"
	Quantization  string          `json:"quantization"`    // as the file says it: "Q4_K_M"; ""
	Parts         []PartTotal     `json:"parts"`           // embeddings, attention, feed-forward, …: the largest first
	Grid          Grid            `json:"grid"`            // layers by roles
	Outside       []int           `json:"outside"`         // numbers of the tensors that are not in the grid
	Example       string          `json:"example"`         // a search that finds something in this model
	Compared      *Side           `json:"compared"`        // the second model, or null
	Summary       json.RawMessage `json:"summary"`         // the format's own summary, or null
	Unreadable    []string        `json:"unreadable"`      // what opening found out of order, as the command says it
	CanOpen       bool            `json:"can_open_others"` // the page runs in a browser alone and may open another file
}

// TypeTotal sums up the tensors of a dtype or scheme.
type TypeTotal struct {
	Type     string `json:"type"`
	Tensors  uint64 `json:"tensors"`
	Elements uint64 `json:"elements"`
	Bytes    uint64 `json:"stored_bytes"`
	Tone     Real   `json:"tone"` // the place of its colour on the scale of amounts
}

// PartTotal sums up the tensors of a part of the network.
type PartTotal struct {
	Part     string `json:"part"`
	Tensors  uint64 `json:"tensors"`
	Elements uint64 `json:"elements"`
	Bytes    uint64 `json:"stored_bytes"`
	Tone     Real   `json:"tone"` // as a TypeTotal has it
}

// Grid has the tensors of layers: a column a layer, a row a role.
type Grid struct {
	Layers []int       `json:"layers"` // their numbers, ascending
	Groups []GridGroup `json:"groups"`
	Why    string      `json:"why"` // why there is nothing to map, as Layers is empty or has too little; ""
}

// GridGroup is a heading over rows: "Attention", "Feed-forward", "Norms and biases".
type GridGroup struct {
	Name string    `json:"name"`
	Rows []GridRow `json:"rows"`
}

// GridRow has the tensors of one role.
type GridRow struct {
	Role    string `json:"role"`   // as names have it: "attention.self.query", "mlp.experts.{0..19}.down_proj"
	Common  string `json:"common"` // what the role is called in general: "query projection"; ""
	Shape   []int  `json:"shape"`  // null if layers differ
	Vector  bool   `json:"vector"` // one dimension: a norm or a bias
	Experts int    `json:"experts"`
	// Cells has the tensors of each layer of Grid.Layers, one an expert in their order. A layer that lacks the role has none.
	Cells [][]int `json:"cells"`
}

// TensorRow describes one tensor from the index alone.
type TensorRow struct {
	Number   int    `json:"number"`
	Name     string `json:"name"`
	Type     string `json:"type"` // dtype, or scheme of a quantized weight
	Shape    []int  `json:"shape"`
	Elements uint64 `json:"elements"`
	Bytes    uint64 `json:"stored_bytes"` // of all its parts
	File     int    `json:"file"`
	Offset   uint64 `json:"offset"`
	Role     string `json:"role"`   // "" outside the grid
	Layer    int    `json:"layer"`  // −1 outside the grid
	Expert   int    `json:"expert"` // −1 if there are none
	Part     string `json:"part"`   // of the network
}

// SavedRow is a TensorRow of a page in one file, with what that is searched and sorted by.
type SavedRow struct {
	TensorRow
	// Words has the words of the name, the part and the common role, and "layer 3" and "expert 5", with | between them. Words stand
	// between spaces, in lower case, letters and digits apart, and numbers have no leading zeros.
	Words string `json:"words"`
	Rank  int    `json:"rank"`  // in the order of names
	State int    `json:"state"` // what is wrong, the worst the largest; 0 is nothing
}

// RowsAnswer answers data/rows?numbers=1,2,5-9: TensorRows in that order. The page asks for whole thousands, cut off at
// the last tensor: 0-999, 1000-1999, 2000-2114.
type RowsAnswer struct {
	Rows []TensorRow `json:"rows"`
}

// ListAnswer answers data/list?q=&group=role|layer|none&sort=KEY|-KEY&show=TYPE|odd&open=ID&open=ID&from=0&count=60: a window
// of the rows that a search, a filter and the unfolded groups leave. KEY is name, type, elements, size, std, max_sigma, zeros or
// note; unknown figures come last. A search with one of *?[{ is a glob for whole names.
type ListAnswer struct {
	Matches int       `json:"matches"` // tensors found
	Rows    int       `json:"rows"`    // rows there are in all, groups among them
	Problem string    `json:"problem"` // why the search cannot be understood; ""
	Shows   []Show    `json:"shows"`   // what can be filtered by
	Window  []ListRow `json:"window"`
}

// Show is a filter of the list, with the number of tensors that it leaves.
type Show struct {
	Show    string `json:"show"` // "", a type, or "odd"
	Tensors int    `json:"tensors"`
}

// ListRow is a tensor, or a group that can be unfolded.
type ListRow struct {
	ID     string `json:"id"` // of a group, for open=; "" of a tensor
	Name   string `json:"name"`
	Depth  int    `json:"depth"`
	IsOpen bool   `json:"open"`
	// Matched has pairs of offsets in Name, in bytes: what the search found.
	Matched []int      `json:"matched"`
	Tensor  *TensorRow `json:"tensor"` // null of a group
	// The following are a group's.
	Tensors int    `json:"tensors"`
	Search  string `json:"search"` // a glob for the tensors of a role; "" of other groups
	Types   string `json:"types"`
	Shape   []int  `json:"shape"` // null if they differ
	Bytes   uint64 `json:"stored_bytes"`
	// ByLayer has tensors by layer of the grid, for the strip: all tensors of a role, by expert; of several roles, or of a
	// folded role of more than 4,096 tensors, the one or two that look worst. It is null where rows are layers.
	ByLayer  [][]int `json:"by_layer"`
	Experts  int     `json:"experts"` // above 0: drawn as layers by experts when open, with no rows of its tensors
	Stds     [2]Real `json:"std"`     // smallest and largest; null until they are known
	MaxSigma Real    `json:"max_sigma"`
	Note     string  `json:"note"`
}

// Line is a line of data/stats or of data/compare, which stream lines until all is read: what is not null of the following.
// data/stats?exact=1 reads all values, and data/compare?swap=1 takes the second model as reference.
type Line struct {
	A        *Side        `json:"a,omitempty"` // this and the next two in the first line of data/compare
	B        *Side        `json:"b,omitempty"`
	Grid     *Grid        `json:"grid,omitempty"` // of the reference: numbers are Pair.Number
	Progress *Progress    `json:"progress,omitempty"`
	Stats    []TensorStat `json:"stats,omitempty"`   // of data/stats
	Pairs    []Pair       `json:"pairs,omitempty"`   // of data/compare
	Overall  *Overall     `json:"overall,omitempty"` // of data/compare, once all is read
	Types    []TypeError  `json:"types,omitempty"`
	Findings []Finding    `json:"findings,omitempty"` // all so far: they replace earlier ones
	Error    *Problem     `json:"error,omitempty"`    // ends the stream
}

// Progress says how far reading is.
type Progress struct {
	Tensors    int     `json:"tensors"`
	AllTensors int     `json:"all_tensors"`
	Values     uint64  `json:"values"`
	AllValues  uint64  `json:"all_values"`
	Share      float64 `json:"share"`   // of the values that are read at all: 1, or of a sample
	Seconds    float64 `json:"seconds"` // since reading began
	Done       bool    `json:"done"`
}

// TensorStat has the figures of one tensor, by the names of the command's stats --json. Sampled ones are estimates, but
// for Min, Max, MaxSigma and the counts, which are bounds: the share Zeros ÷ Finite is an estimate. Of integers that nothing makes real numbers, only Min, Max
// and counts are known.
type TensorStat struct {
	Number         int             `json:"number"`
	Sampled        bool            `json:"sampled"`
	Finite         uint64          `json:"finite"`
	Zeros          uint64          `json:"zeros"`
	ZeroRows       uint64          `json:"zero_rows"` // of norm 0; a sample knows none
	NaN            uint64          `json:"nan"`
	PosInf         uint64          `json:"pos_inf"`
	NegInf         uint64          `json:"neg_inf"`
	Min            Real            `json:"min"`
	Max            Real            `json:"max"`
	Mean           Real            `json:"mean"`
	Std            Real            `json:"std"`
	Percentiles    map[string]Real `json:"percentiles"`
	MaxSigma       Real            `json:"max_sigma"`
	MaxSigmaAt     []uint64        `json:"max_sigma_at"`
	Excess         Real            `json:"excess"` // MaxSigma by what Gaussian values of that count reach
	Kurtosis       Real            `json:"kurtosis"`
	SigmaHistogram []uint64        `json:"sigma_histogram,omitempty"` // only in TensorAnswer
	Gaussian       []float64       `json:"gaussian,omitempty"`        // what Gaussian values would count; only there
	// Odd is 2 of a strong finding of this tensor, 1 of a mild one.
	Odd   int    `json:"odd"`
	Error string `json:"error,omitempty"` // why there are no figures
	Kind  string `json:"kind,omitempty"`  // of the error: "damaged", or "no values"
}

// Finding is one sentence of what is odd.
type Finding struct {
	Rule     string `json:"rule"`
	Severity int    `json:"severity"` // 2 strong, 1 mild, 0 what was checked and is fine, 3 damaged or NaN
	// Text is the sentence. Names stand between backquotes, bold text between pairs of asterisks.
	Text     string `json:"text"`
	Evidence string `json:"evidence"` // what it is compared with
	Tensors  []int  `json:"numbers"`
}

// Problem is an error as the page shows it.
type Problem struct {
	Text string `json:"text"` // a sentence for people
	Line string `json:"line"` // as the command prints it
	Hint string `json:"hint"` // what to do; ""
	// Swapped says that reading ended since another model is served, or the same files were opened anew: data/model tells.
	Swapped bool `json:"swapped,omitempty"`
}

// TensorAnswer answers data/tensor?name=NAME, with exact figures.
type TensorAnswer struct {
	TensorRow
	Stat       TensorStat `json:"stat"`
	Findings   []Finding  `json:"findings"`
	Stored     string     `json:"stored"`  // how it is stored, in words: "ggml, blocks of 256"
	ReadAs     string     `json:"read_as"` // "in place", "expanded once, cached", …
	FloatBytes uint64     `json:"float_bytes"`
	SameRole   []int      `json:"same_role"` // over layers; of its expert; the 200 around it
	// SameRoleMore is how many others there are.
	SameRoleMore int          `json:"same_role_more"`
	Before       string       `json:"before"` // the same role a layer before: its name, or ""
	After        string       `json:"after"`
	Rows         uint64       `json:"matrix_rows"` // of the matrix: the first dimension, and all others
	Columns      uint64       `json:"matrix_columns"`
	First        []Value      `json:"first_values"`
	Parts        []TensorPart `json:"parts"` // of a quantized weight or of blocks
	Block        string       `json:"block"` // "256 values of a row in 144 bytes"; ""
	Go           string       `json:"go"`
	Command      string       `json:"command"`
	DB           *Real        `json:"db,omitempty"` // against the compared model, if both are known
	TypeDB       *Real        `json:"type_db,omitempty"`
}

// TensorPart is a tensor, or a field of blocks, that a weight is made of.
type TensorPart struct {
	Role   string `json:"role"`
	Name   string `json:"name"` // of its tensor; "" of a field
	Stored string `json:"stored"`
	Count  uint64 `json:"count"`
	Bytes  uint64 `json:"stored_bytes"`
	Min    Value  `json:"min"` // "" if they are not known
	Median Value  `json:"median"`
	Max    Value  `json:"max"`
	At     string `json:"max_at"` // where the largest in magnitude is
}

// A picture, data/picture?name=NAME&as=max|mean&rows=FROM:TO&columns=FROM:TO, is a byte a tile, row by row: 0 to 254 on a
// scale from 2 to 256 σ, logarithmic, for max; from −4 to 4 σ for mean; 255 is NaN or infinite. The header Tiles has
// "ROWS COLUMNS ROWS_OF_A_TILE COLUMNS_OF_A_TILE". There are at most 192 by 768 tiles.

// ValuesAnswer answers data/values?name=NAME&row=R&column=C&rows=7&columns=7: values around a place, clipped to the matrix.
type ValuesAnswer struct {
	Row    uint64    `json:"row"` // of the first value
	Column uint64    `json:"column"`
	Values [][]Value `json:"values"`
}

// NormsAnswer answers data/norms?name=NAME: Euclidean norms of rows and columns, at most 768 of each: the largest of
// neighbours where there are more. NaN and infinities are left out of them: an infinite norm is one beyond float64.
type NormsAnswer struct {
	Rows    Norms `json:"rows"`
	Columns Norms `json:"columns"`
}

// Norms are the norms of rows or of columns.
type Norms struct {
	Norms   []Real `json:"norms"`
	Step    uint64 `json:"step"` // rows that one of Norms stands for
	Median  Real   `json:"median"`
	Largest []Norm `json:"largest"` // the two largest
	Zeros   uint64 `json:"zeros"`   // rows that are all zero
}

// Norm is the norm of one row or column.
type Norm struct {
	At   uint64 `json:"at"`
	Norm Real   `json:"norm"`
}

// Side is one of two compared models.
type Side struct {
	Title         string `json:"title"`
	From          string `json:"from"` // the path or address that was opened
	Format        string `json:"format"`
	Quantization  string `json:"quantization"`
	Types         string `json:"types"`
	Tensors       int    `json:"tensors"`
	Bytes         uint64 `json:"bytes"`
	BitsPerWeight Real   `json:"bits_per_weight"`
}

// Pair compares tensors of one name, by the names of the command's diff --json.
type Pair struct {
	Number      int    `json:"number"` // in the reference; tensors that only B has are counted on
	Name        string `json:"name"`
	OnlyIn      string `json:"only_in,omitempty"` // "a" or "b"
	Same        bool   `json:"same_elements"`
	OtherShape  bool   `json:"other_shape"`
	TypeA       string `json:"type_a"`
	TypeB       string `json:"type_b"`
	Bits        Real   `json:"bits"` // per weight, of B
	Elements    uint64 `json:"elements"`
	DB          Real   `json:"db"`
	TypeDB      Real   `json:"type_db"`
	RelativeRMS Real   `json:"relative_rms"`
	Cosine      Real   `json:"cosine"`
	MaxAbs      Real   `json:"max_abs"`
	Lost        uint64 `json:"lost"`        // values that are NaN or infinite in one model alone
	ErrorShare  Real   `json:"error_share"` // of the sum of squared errors of the model; null until all is read, and of what is not compared
	Odd         int    `json:"odd"`
	Error       string `json:"error,omitempty"`
}

// Overall has the figures over all tensors that both models have.
type Overall struct {
	DB          Real `json:"db"`
	MatricesDB  Real `json:"matrices_db"` // of matrices of layers alone
	RelativeRMS Real `json:"relative_rms"`
	Cosine      Real `json:"cosine"`
	Identical   int  `json:"identical"`
	Differ      int  `json:"differ"`
	OnlyA       int  `json:"only_a"`
	OnlyB       int  `json:"only_b"`
	Damaged     int  `json:"damaged"`
}

// TypeError sums up the error of the tensors that B stores in one type.
type TypeError struct {
	Type       string `json:"type"`
	Tensors    int    `json:"tensors"`
	Elements   uint64 `json:"elements"`
	Bits       Real   `json:"bits"`
	DB         Real   `json:"db"`
	TypeDB     Real   `json:"type_db"`
	ErrorShare Real   `json:"error_share"`
}

// MapAnswer answers data/map?by=part|dtype|sigma|memory, and data/map?by=…&narrow for phones. SVG is what the command's map draws,
// with the number of its first tensor in the attribute data-t of each cell.
type MapAnswer struct {
	SVG  string   `json:"svg"`
	Bys  []string `json:"bys"` // what it can be coloured by here
	Note string   `json:"note"`
}

// MetadataAnswer answers data/metadata: a tree without the long lists, which data/metadata?key=KEY&q=&from=0&count=100 reads.
type MetadataAnswer struct {
	Entries []MetadataEntry `json:"entries"`
	More    int             `json:"more"`  // keys behind them, which are too many
	Graph   json.RawMessage `json:"graph"` // of TSM: as inspect --json has it; null else
}

// MetadataEntry is a key with its value, or a list of a given length.
type MetadataEntry struct {
	Key    string `json:"key"` // the whole key: "tokenizer.ggml.tokens"
	Type   string `json:"type"`
	Length int    `json:"length"` // of a list, which has no Value; 0 else
	// Value is as the command prints it. Text of several lines, such as a chat template, keeps them.
	Value string `json:"value"`
}

// ListValuesAnswer has a window of a long list of metadata: the values that contain q.
type ListValuesAnswer struct {
	Matches int         `json:"matches"`
	Values  []ListValue `json:"values"`
}

// ListValue is an element of a list.
type ListValue struct {
	At    int    `json:"at"`
	Value string `json:"value"`
}

// Value is an element as dump prints it: its shortest text. Its JSON is a number. It is a string that Number of JavaScript takes
// for "NaN", "Infinity", "-Infinity", and for integers of more than 15 digits, which Number rounds.
type Value string

// MarshalJSON encodes v, or null if it is empty. It never fails.
func (v Value) MarshalJSON() ([]byte, error) {
	const exact = 15 // digits that a float64 holds
	switch digits := strings.TrimLeft(string(v), "-"); {
	case v == "":
		return []byte("null"), nil
	case v == "NaN":
	case strings.HasSuffix(digits, "Inf"):
		v = Value(strings.TrimPrefix(string(v[:1]), "+") + "Infinity")
	case len(digits) <= exact || strings.ContainsAny(digits, ".e"):
		return []byte(v), nil
	}
	return json.Marshal(string(v))
}

// UnmarshalJSON decodes what MarshalJSON encodes. It fails if b is no number, string or null.
func (v *Value) UnmarshalJSON(b []byte) error {
	var text json.Number
	if err := json.Unmarshal(b, &text); err == nil {
		*v = Value(text)
		return nil
	}
	return json.Unmarshal(b, (*string)(v))
}
