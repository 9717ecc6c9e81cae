package browsertest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var strict = flag.Bool("strict", false, "hold the page to its times: the machine does nothing else")

// patience is how long a page may take for anything that has no budget of its own.
const patience = 60 * time.Second

// chromium returns the path of a Chromium, or "".
var chromium = sync.OnceValue(func() string {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
})

// browser returns the context of one Chromium for all tests, and skips t where there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	if chromium() == "" {
		t.Skip("no Chromium: CHROMIUM names none, and none is in PATH")
	}
	ctx, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

var stop = func() {}

var start = sync.OnceValues(func() (ctx context.Context, err error) {
	ctx, stop, err = launch()
	return ctx, err
})

// launch starts a Chromium, which end ends.
func launch() (ctx context.Context, end func(), err error) {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("lang", "en-US"), chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, endContext := chromedp.NewContext(alloc, chromedp.WithErrorf(log.Printf))
	return ctx, func() { endContext(); endAlloc() }, chromedp.Do(ctx)
}

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	stop()
	cleanUp()
	os.Exit(status)
}

// tab is a page of the browser. What it logs as an error fails the test.
type tab struct {
	t     *testing.T
	ctx   context.Context
	close func()
	host  string // that onEachHost chose

	expected []string // parts of errors that the test provokes

	mu     sync.Mutex
	errors []string
}

// size is that of a window, and whether its colours are dark.
type size struct {
	width, height int64
	dark          bool
}

var desktop = size{1280, 900, false}

// newTab opens a tab for the test.
func newTab(t *testing.T, s size) *tab {
	t.Helper()
	return newTabOf(t, browser(t), s)
}

// newTabOf opens a tab of a browser.
func newTabOf(t *testing.T, in context.Context, s size) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(in)
	p := &tab{t: t, ctx: ctx, close: end}
	t.Cleanup(p.end)
	err := chromedp.Listen(ctx, func(event any) { // which makes the tab
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.note(fmt.Sprintf("exception: %s %s:%d", e.ExceptionDetails.Text, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber+1))
			if x := e.ExceptionDetails.Exception; x != nil {
				p.note(x.Description)
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
				text := ""
				for _, a := range e.Args {
					text += " " + string(a.Value) + a.Description
				}
				p.note("console:" + text)
			}
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.EntryLevelError {
				p.note("log: " + e.Entry.Text + " " + e.Entry.URL)
			}
		case *page.EventJavascriptDialogOpening:
			p.note("dialog: " + e.Message)
			go chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.resize(s)
	return p
}

// note keeps an error, unless it is expected.
func (p *tab) note(text string) {
	if slices.ContainsFunc(p.expected, func(part string) bool { return strings.Contains(text, part) }) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, text)
}

// noErrors fails the test with what the page has logged so far.
func (p *tab) noErrors() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.errors {
		p.t.Errorf("the page logs an error: %s", text)
	}
	p.errors = nil
}

// run runs an action of the tab, within patience.
func run[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// call sends a command to the tab.
func call[P, R any](p *tab, cmd cdp.Command[P, R], params P) R {
	p.t.Helper()
	return run(p, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, cmd, params) })
}

// end closes the tab and fails the test with what the page has logged. A second call does nothing.
func (p *tab) end() {
	p.close()
	p.noErrors()
}

// resize sets the window's size and colours.
func (p *tab) resize(s size) {
	p.t.Helper()
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	phone := s.width < 600
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: 1, Mobile: phone})
	call(p, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: phone})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// open goes to an address and waits until the page is loaded.
func (p *tab) open(address string) {
	p.t.Helper()
	p.t.Cleanup(p.end) // before its server ends
	run(p, chromedp.Navigate(address))
}

// eval evaluates JavaScript, whose result, perhaps of a promise, becomes into.
func (p *tab) eval(script string, into any) {
	p.t.Helper()
	text := run(p, chromedp.Evaluate[string]("(async () => JSON.stringify(await ("+script+")) ?? 'null')()", chromedp.EvalAwaitPromise))
	if err := json.Unmarshal([]byte(text), into); err != nil {
		p.t.Fatalf("%s: %s: %v", script, text, err)
	}
}

// is returns whether JavaScript evaluates to true.
func (p *tab) is(script string) bool {
	p.t.Helper()
	var b bool
	p.eval("!!(await ("+script+"))", &b)
	return b
}

// text returns what JavaScript evaluates to, as text.
func (p *tab) text(script string) string {
	p.t.Helper()
	var s string
	p.eval("String(await ("+script+"))", &s)
	return s
}

// until waits until JavaScript evaluates to true, for at most a time.
func (p *tab) until(script string, most time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(most); !p.is(script); {
		p.mu.Lock()
		failed := len(p.errors) > 0
		p.mu.Unlock()
		if failed || time.Now().After(end) {
			p.t.Fatalf("it does not come true in %v: %s\nthe page at %s says: %.600s", most, script, p.text("location.href"), p.text("document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// wait waits until JavaScript evaluates to true.
func (p *tab) wait(script string) {
	p.t.Helper()
	p.until(script, patience)
}

// press presses keys one by one. A key is a character, or has a name in keys.
func (p *tab) press(names ...string) {
	p.t.Helper()
	for _, name := range names {
		if key, ok := keys[name]; ok {
			name = key
		}
		run(p, chromedp.KeyEvent(name))
	}
}

var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Escape": kb.Escape, "Left": kb.ArrowLeft, "Right": kb.ArrowRight, "Up": kb.ArrowUp, "Down": kb.ArrowDown,
	"Home": kb.Home, "End": kb.End, "Space": " ",
}

// write types text into the field that has the focus, in place of what it holds.
func (p *tab) write(text string) {
	p.t.Helper()
	run(p, chromedp.Evaluate[chromedp.Void]("document.activeElement.select()"))
	if text == "" {
		p.press(kb.Backspace)
	}
	for _, r := range text {
		p.press(string(r))
	}
}

// shot writes what the window shows, or the whole page, as PNG.
func (p *tab) shot(path string, whole bool) {
	p.t.Helper()
	image := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole}).Data
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, image, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// axe is axe-core, which finds what keeps people from using a page.
var axe = sync.OnceValues(func() (string, error) {
	packed, err := os.ReadFile(filepath.Join("testdata", "axe.min.js.gz"))
	if err != nil {
		return "", err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
})

// accessible fails the test with every serious fault that axe finds in what the page shows.
func (p *tab) accessible(view string) {
	p.t.Helper()
	script, err := axe()
	if err != nil {
		p.t.Fatal(err)
	}
	if !p.is("window.axe") {
		run(p, chromedp.Evaluate[chromedp.Void](script))
	}
	var faults []struct {
		ID, Impact, Help string
		Nodes            []struct {
			HTML           string
			FailureSummary string
		}
	}
	p.eval(`axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
		.map((v) => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => ({html: n.html, failureSummary: n.failureSummary}))})))`, &faults)
	for _, f := range faults {
		var nodes strings.Builder
		for _, n := range f.Nodes {
			fmt.Fprintf(&nodes, "\n\t%.300s\n\t\t%s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", "\n\t\t"))
		}
		p.t.Errorf("%s: %s fault %s: %s%s", view, f.Impact, f.ID, f.Help, nodes.String())
	}
}

// memory returns what the renderer of a browser takes that takes most: memory of its own, not of shared files.
func memory(t *testing.T, in context.Context) (most uint64) {
	t.Helper()
	processes, err := chromedp.CallBrowser(in, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes.ProcessInfo {
		if process.Type != "renderer" {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.ID))
		if err != nil {
			t.Skip("no /proc here, which tells memory")
		}
		for line := range strings.Lines(string(status)) {
			var kib uint64
			if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 {
				most = max(most, kib<<10)
			}
		}
	}
	return most
}
