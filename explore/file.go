package explore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/loader"
)

// Bounds of a page in one file.
const (
	maxFileRows     = 20_000   // tensors that it describes, in addition to odd ones
	maxFilePictures = 24       // tensors that are shown with their matrix
	maxFileBytes    = 16 << 20 // of answers about single tensors, and of each list, beyond which no more are added
)

// WriteFile writes the page as one file that needs no server. It has the figures of the first 20,000 tensors and of odd ones
// beyond, and the matrices of the 24 oddest at most. WriteFile reads all values, and fails if a file of the model has changed
// meanwhile. open and opts are as for Handler. The page begins with the comparison if opts.Compared is set.
func WriteFile(ctx context.Context, w io.Writer, open func() (*loader.Lease, error), opts *Options) error {
	f := &file{ctx: ctx, handler: Handler(open, opts).(*handler), answers: make(map[string]any)}
	if err := f.ask(); err != nil {
		return err
	}
	models, start := []func() (*loader.Lease, error){open}, ""
	if compared := f.handler.opts.Compared; compared != nil {
		models, start = append(models, compared), "#/compare"
	}
	for _, open := range models {
		lease, err := open()
		if err != nil {
			return err
		}
		err = lease.Changed()
		lease.Release() // w may be slow
		if err != nil {
			return err
		}
	}
	return f.write(w, start)
}

// file collects the answers that a page in one file has inside.
type file struct {
	ctx     context.Context
	handler *handler
	answers map[string]any // by path
	bytes   int
	names   []string // of the tensors that are described
}

// ask asks for all that the page may ask for, within bounds. It fails if the model cannot be read.
func (f *file) ask() error {
	var model answer.ModelAnswer
	if err := f.json("data/model", &model); err != nil {
		return err
	}
	model.ID = "" // nothing is swapped in a file, and the same model makes the same page
	f.answers["data/model"] = model
	stats, err := lines(f, "data/stats?exact=1", func(l *answer.Line) *[]answer.TensorStat { return &l.Stats },
		func(s *answer.TensorStat) (int, bool) { return s.Number, s.Odd > 0 })
	if err != nil {
		return err
	}
	described := []string{"data/metadata"}
	if model.Compared != nil {
		_, err := lines(f, "data/compare", func(l *answer.Line) *[]answer.Pair { return &l.Pairs },
			func(p *answer.Pair) (int, bool) { return p.Number, p.Odd > 0 })
		if err != nil {
			return err
		}
		described = append(described, "data/metadata?compared")
	}
	for _, path := range described {
		if err := f.json(path, nil); err != nil && f.ctx.Err() != nil { // else the page goes without
			return err
		}
	}
	if err := f.maps(); err != nil {
		return err
	}
	if err := f.lists(); err != nil {
		return err
	}
	return f.tensors(stats)
}

// lines keeps the lines of the answer to a path as one, in which later ones replace earlier ones. It returns the list that is a field of
// the line: the last element of each number below maxFileRows, by ascending number, and maxRows odd ones beyond at most. place returns
// the number of an element, and whether it is odd. lines fails if get does, or if a line has a problem.
func lines[E any](f *file, path string, field func(*answer.Line) *[]E, place func(*E) (number int, isOdd bool)) ([]E, error) {
	var line answer.Line
	list, last := field(&line), make(map[int]*E)
	err := f.get(path, func(a any) error {
		return a.(stream)(func(v any) error {
			text, err := json.Marshal(v)
			if err != nil {
				return err
			}
			*list = nil
			if err := json.Unmarshal(text, &line); err != nil {
				return err
			}
			for i := range *list {
				number, _ := place(&(*list)[i])
				last[number] = &(*list)[i]
			}
			if line.Error != nil {
				return errorOf(line.Error)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	*list = nil
	beyond := 0
	for _, number := range slices.Sorted(maps.Keys(last)) {
		if number >= maxFileRows {
			if _, isOdd := place(last[number]); !isOdd || beyond == maxRows {
				continue
			}
			beyond++
		}
		*list = append(*list, *last[number])
	}
	line.Progress.Seconds = 0 // so that the same model makes the same page
	key, _, _ := strings.Cut(path, "?")
	f.answers[key] = []answer.Line{line}
	return *list, nil
}

// maps keeps the maps by all but what is in memory, which is another matter each time.
func (f *file) maps() error {
	bys := []string{byPart}
	for i := 0; i < len(bys); i++ {
		for _, format := range []string{"", "&narrow"} {
			path := "data/map?by=" + bys[i] + format
			var a answer.MapAnswer
			if err := f.json(path, &a); err != nil {
				return err
			}
			a.Bys = slices.DeleteFunc(a.Bys, func(by string) bool { return by == byMemory })
			bys, f.answers[path] = a.Bys, &a
		}
	}
	return nil
}

// lists keeps the rows of tensors, the list by role and that by layer. It fails if the model is not served any more.
func (f *file) lists() error {
	s, l, err := f.handler.lease(theModel)
	if err != nil {
		return err
	}
	defer l.Release()
	stats := f.handler.known(s)
	for from := 0; from < min(len(s.rows), maxFileRows); from += maxRows {
		to := min(len(s.rows), from+maxRows)
		rows := make([]answer.SavedRow, 0, maxRows)
		for i := from; i < to; i++ {
			f.names = append(f.names, s.rows[i].Name)
			rows = append(rows, s.grid.Saved(i, stats))
		}
		f.answers[fmt.Sprintf("data/rows?numbers=%d-%d", from, to-1)] = map[string][]answer.SavedRow{"rows": rows}
	}
	for _, group := range []string{"role", "layer"} {
		list, err := f.unfolded(s.grid, group, stats)
		if err != nil {
			return err
		}
		f.answers["data/list?group="+group] = list
	}
	return nil
}

// unfolded returns a list with the first maxOpen groups unfolded. A row of a tensor is its depth and its number. Rows beyond the bounds
// of a page are counted alone.
func (f *file) unfolded(x *grid.Index, group string, stats []*answer.TensorStat) (map[string]any, error) {
	a, err := x.List(f.ctx, grid.Query{Group: group, Unfold: maxOpen, Count: maxFileRows}, stats)
	if err != nil {
		return nil, err
	}
	window, bytes := []json.RawMessage{}, 0
	for i := range a.Window {
		var row any = &a.Window[i]
		if t := a.Window[i].Tensor; t != nil {
			row = [2]int{a.Window[i].Depth, t.Number}
		}
		text, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		window = append(window, text)
		if bytes += len(text); bytes > maxFileBytes {
			break
		}
	}
	return map[string]any{"rows": a.Rows, "window": window}, nil
}

// tensors asks for tensors, the oddest first, until there are too many bytes.
func (f *file) tensors(stats []answer.TensorStat) error {
	oddest := slices.SortedStableFunc(slices.Values(stats), func(a, b answer.TensorStat) int { return b.Odd - a.Odd })
	f.bytes = 0
	for i, stat := range oddest {
		if stat.Number >= len(f.names) || f.bytes > maxFileBytes {
			continue
		}
		name := "?name=" + url.QueryEscape(f.names[stat.Number])
		var t answer.TensorAnswer
		if err := f.json("data/tensor"+name, &t); err != nil {
			return err
		}
		if stat.Odd == 0 || i >= maxFilePictures {
			continue
		}
		if err := f.matrix(name, &t); err != nil {
			return err
		}
	}
	return nil
}

// matrix asks for the pictures of a tensor, and for the values around that which is farthest from the mean.
func (f *file) matrix(name string, t *answer.TensorAnswer) error {
	if t.Stat.Error != "" || t.Elements == 0 {
		return nil
	}
	for _, as := range []string{"max", "mean"} {
		if err := f.json("data/picture"+name+"&as="+as, nil); err != nil {
			return err
		}
	}
	if t.Rows > 1 {
		if err := f.json("data/norms"+name, nil); err != nil {
			return err
		}
	}
	at := uint64(0)
	for i, n := range t.Stat.MaxSigmaAt {
		at = at*uint64(t.Shape[i]) + n
	}
	return f.json(fmt.Sprintf("data/values%s&row=%d&column=%d&rows=7&columns=7", name, at/t.Columns, at%t.Columns), nil)
}

// get asks for a path, and calls use with the answer, under a lease of its model. It fails if use does, if there is no answer, or if
// the context is done.
func (f *file) get(path string, use func(answer any) error) error {
	at, err := url.Parse(path)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(at.Path, "data/")
	r, err := f.handler.request(f.ctx, name, at.Query())
	if err == nil {
		defer r.lease.Release()
		var a any
		if a, err = answers[name](f.handler, r); err == nil {
			err = use(a)
		}
	}
	switch {
	case f.ctx.Err() != nil:
		return context.Cause(f.ctx)
	case err != nil:
		p, _ := problemOf(err)
		return errorOf(&p)
	}
	return nil
}

// errorOf returns p as an error: the line of the command, or else the sentence.
func errorOf(p *Problem) error {
	return errors.New(cmp.Or(strings.TrimPrefix(p.Line, "tensormap: "), p.Text))
}

// json keeps the answer to the request for a path, whose query is not escaped, and decodes it into v unless that is nil.
func (f *file) json(path string, v any) error {
	return f.get(path, func(a any) error {
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		f.bytes += len(text)
		if p, ok := a.(*picture); ok { // counts as the bytes that it has
			f.bytes += len(p.Bytes) - len(text)
		}
		key, err := url.QueryUnescape(path)
		f.answers[key] = json.RawMessage(text)
		if v == nil || err != nil {
			return err
		}
		return json.Unmarshal(text, v)
	})
}

// write writes the page with its style, its script and the answers inside. No other code runs in it. It begins at an address
// within the page, unless start is "".
func (f *file) write(w io.Writer, start string) error {
	var texts [3]string
	for i, name := range []string{"index.html", "page.css", "main.js"} {
		text, err := fs.ReadFile(pageFiles, "built/"+name)
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	page, style, script := texts[0], texts[1], texts[2]
	if start != "" {
		script = "if (!location.hash) location.replace('" + start + "')\n" + script
	}
	answers, err := json.Marshal(f.answers) // escapes < and >
	if err != nil {
		return err
	}
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; base-uri 'none'; form-action 'none'", hashOf(script), hashOf(style))
	for _, change := range []struct{ old, new string }{
		{`<meta charset="utf-8">`, `<meta charset="utf-8">` + "\n" + `<meta http-equiv="Content-Security-Policy" content="` + html.EscapeString(policy) + `">`},
		{`<link rel="stylesheet" href="page.css">`, "<style>" + style + "</style>"},
		{`<script type="module" src="main.js"></script>` + "\n", ""},
		{"</body>", `<script type="application/json" id="answers">` + string(answers) + "</script>\n<script type=\"module\">" + script + "</script>\n</body>"},
	} {
		if strings.Count(page, change.old) != 1 {
			return fmt.Errorf("the page has no %s", change.old)
		}
		page = strings.Replace(page, change.old, change.new, 1)
	}
	_, err = io.WriteString(w, page)
	return err
}

// hashOf returns the source in a policy that allows a text.
func hashOf(text string) string {
	digest := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
}
