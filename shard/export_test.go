package shard

// Find returns the position of the tensor called name, or -1.
func Find(t *Table, name string) int { return t.find(name) }

var SetName = setName
