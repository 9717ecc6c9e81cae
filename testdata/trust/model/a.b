a.b sorts before a/b by code points
