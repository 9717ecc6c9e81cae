package dot

func archLevels() []*impl { return nil }
