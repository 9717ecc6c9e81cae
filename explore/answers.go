package explore

import "github.com/tensormap/tensormap/explore/internal/answer"

// The handler writes these answers, and parts of them, as JSON: explore/internal/answer documents
// their fields.
type (
	Real             = answer.Real
	Value            = answer.Value
	ModelAnswer      = answer.ModelAnswer
	TypeTotal        = answer.TypeTotal
	PartTotal        = answer.PartTotal
	Grid             = answer.Grid
	GridGroup        = answer.GridGroup
	GridRow          = answer.GridRow
	TensorRow        = answer.TensorRow
	RowsAnswer       = answer.RowsAnswer
	ListAnswer       = answer.ListAnswer
	Show             = answer.Show
	ListRow          = answer.ListRow
	StatsLine        = answer.StatsLine
	Progress         = answer.Progress
	TensorStat       = answer.TensorStat
	Finding          = answer.Finding
	Problem          = answer.Problem
	TensorAnswer     = answer.TensorAnswer
	TensorPart       = answer.TensorPart
	ValuesAnswer     = answer.ValuesAnswer
	NormsAnswer      = answer.NormsAnswer
	Norms            = answer.Norms
	Norm             = answer.Norm
	Side             = answer.Side
	CompareLine      = answer.CompareLine
	Pair             = answer.Pair
	Overall          = answer.Overall
	TypeError        = answer.TypeError
	MapAnswer        = answer.MapAnswer
	MetadataAnswer   = answer.MetadataAnswer
	MetadataEntry    = answer.MetadataEntry
	ListValuesAnswer = answer.ListValuesAnswer
	ListValue        = answer.ListValue
)
