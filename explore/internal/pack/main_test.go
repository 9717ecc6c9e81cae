package main

import (
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
)

// TestBundle: the page's modules become one script that means the same, and forms that bundle does not know are errors.
func TestBundle(t *testing.T) {
	script, err := bundle(os.DirFS("../../page"), "main.js")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := fs.Glob(os.DirFS("../../page"), "*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range modules {
		if n := strings.Count(script, "const "+variable(name)+" = "); n != 1 {
			t.Errorf("%s: %d times", name, n)
		}
	}
	module := func(texts ...string) fs.FS {
		files := make(fstest.MapFS)
		for i, text := range texts {
			files[string(rune('a'+i))+".js"] = &fstest.MapFile{Data: []byte(text)}
		}
		return files
	}
	for _, texts := range [][]string{
		{"import x from './b.js'\n", ""}, {"import * as x from './b.js'\n", ""}, {"export default 1\n"}, {"export let a = 1\n"}, {"const a = import('./b.js')\n"},
		{"import { x } from './b.js'\n", "import { y } from './a.js'\n"}, {"import { x } from './c.js'\n"}, {"const a = '</script>'\n"}, {"const a = '<!--'\n"}, {"const a = `\n  // text`\n"},
	} {
		if script, err := bundle(module(texts...), "a.js"); err == nil {
			t.Errorf("%q: %s", texts, script)
		}
	}
	script, err = bundle(module("import { x, f as g, C } from './b.js'\nimport { h } from './c.js'\nprocess.stdout.write([x, g(), new C().n, h].join())\n",
		"import { h } from './c.js'\n// no code\nexport const x =\n  h + 1\nexport function f() { return 2 }\nexport class C { n = 3 }\n", "const h = 0\nexport { h }\n"), "a.js")
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(node, "--input-type=module", "-e", script).CombinedOutput(); err != nil || string(out) != "1,2,3,0" {
		t.Errorf("%q, %v, of %s", out, err, script)
	}
}
