package glob

import _ "embed"

// JavaScript defines compileGlob(pattern) in JavaScript: it matches as glob does.
//
//go:embed page.js
var JavaScript string
