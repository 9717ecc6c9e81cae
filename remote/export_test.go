package remote

// MostAtClose is mostAtClose, for tests to lower.
var MostAtClose = &mostAtClose

// MostFiles is mostFiles, for tests to lower.
var MostFiles = &mostFiles
