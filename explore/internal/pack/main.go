// Program pack writes the files that a browser loads of the page of package explore:
//
//	pack FROM TO
//
// The modules of FROM become one script, TO/main.js, without comments and indentation. Its other files are copied.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: pack FROM TO")
	}
	if err := pack(os.DirFS(os.Args[1]), os.Args[2]); err != nil {
		log.Fatal("pack: ", err)
	}
}

// pack writes the files made of the page in from to a directory.
func pack(from fs.FS, to string) error {
	script, err := bundle(from, "main.js")
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(to, "main.js"), []byte(script), 0o644)
	for _, name := range []string{"index.html", "page.css"} {
		text, readErr := fs.ReadFile(from, name)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(to, name), text, 0o644))
	}
	return err
}

// Forms of code that bundle knows. Imports and exports are lines of their own, and comments are whole lines.
var (
	importLine  = regexp.MustCompile(`(?m)^import \{ ([^}]+) \} from '\./([a-z_]+\.js)'$`)
	exportLine  = regexp.MustCompile(`(?m)^export ((?:async )?function\*? ?|class |const )(\w+)`)
	exportList  = regexp.MustCompile(`(?m)^export \{ ([\w, ]+) \}$`)
	anyOther    = regexp.MustCompile(`(?m)^(import|export)\b|\bimport\(|</script|<!--`)
	commentLine = regexp.MustCompile(`(?m)^ *(//|/\*\*|\*/|\* ).*\n`)
	indentation = regexp.MustCompile(`(?m)^ +|^\n`)
)

// bundle returns the modules of a page as one script, a module that exports what main exports. In it each module is a function,
// called behind the modules that it imports, that returns what it exports. It fails if a module has other forms of import and export, or
// imports itself by way of others. A template of several lines, whose spaces would be lost, is an error too.
func bundle(files fs.FS, main string) (string, error) {
	var out strings.Builder
	state := make(map[string]int) // 1 while its imports are added, 2 once it is there
	var add func(name string) error
	add = func(name string) error {
		if state[name] > 0 {
			if state[name] == 1 {
				return fmt.Errorf("%s imports itself", name)
			}
			return nil
		}
		state[name] = 1
		source, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		code := indentation.ReplaceAllString(commentLine.ReplaceAllString(string(source), ""), "")
		for line := range strings.Lines(code) {
			if strings.Count(line, "`")%2 != 0 {
				return fmt.Errorf("%s: a template does not end in its line: %s", name, line)
			}
		}
		for _, m := range importLine.FindAllStringSubmatch(code, -1) {
			if err := add(m[2]); err != nil {
				return err
			}
		}
		code = importLine.ReplaceAllStringFunc(code, func(line string) string {
			m := importLine.FindStringSubmatch(line)
			return "const { " + strings.ReplaceAll(m[1], " as ", ": ") + " } = " + variable(m[2])
		})
		var exports []string
		for _, m := range exportLine.FindAllStringSubmatch(code, -1) {
			exports = append(exports, m[2])
		}
		for _, m := range exportList.FindAllStringSubmatch(code, -1) {
			exports = append(exports, m[1])
		}
		code = exportList.ReplaceAllString(exportLine.ReplaceAllString(code, "$1$2"), "")
		if bad := anyOther.FindString(code); bad != "" {
			return fmt.Errorf("%s: %q cannot be in a page of one file", name, bad)
		}
		fmt.Fprintf(&out, "const %s = (() => {\n%s\nreturn { %s }\n})()\n", variable(name), strings.TrimSpace(code), strings.Join(exports, ", "))
		if name == main && len(exports) > 0 {
			fmt.Fprintf(&out, "export const { %s } = %s\n", strings.Join(exports, ", "), variable(name))
		}
		state[name] = 2
		return nil
	}
	err := add(main)
	return out.String(), err
}

// variable returns the name of the variable that has the exports of a module.
func variable(module string) string { return "module_" + strings.TrimSuffix(module, ".js") }
