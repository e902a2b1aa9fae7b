package browser_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pageTimeout bounds every wait for a page.
const pageTimeout = 20 * time.Second

// newBrowser starts a browser with a new profile and without background requests. Tabs are
// created from the returned context.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no chromium, chromium-browser or google-chrome on the PATH: run make prepare")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless,
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), // it is small in a container
		chromedp.Flag("force-color-profile", "srgb"),
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox does not work for root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return browser
}

// A view is a window size and a color scheme.
type view struct {
	name   string
	width  int64
	scheme string // light or dark
	height int64  // of screenshots; 0 for that of the page
}

// views returns the views of the tests: each width and each scheme once. For screenshots
// it returns every combination.
func views() []view {
	all := []view{{name: "wide", width: 1280, scheme: "light"}, {name: "narrow-dark", width: 380, scheme: "dark"}}
	if *screenshots != "" {
		all = append(all, view{name: "wide-dark", width: 1280, scheme: "dark"}, view{name: "narrow", width: 380, scheme: "light"})
	}
	return all
}

// A tab shows one page after another, and records their faults.
type tab struct {
	scriptsOff bool // pages are used without their scripts

	t      *testing.T
	ctx    context.Context
	server string // the only address that requests may go to,
	also   string // unless this is another one
	view   view

	mu       sync.Mutex // guards faults and expected
	faults   []string
	expected string // the status of a page that the browser may log as failed; "" for none
}

// noteViolations reports every violation of a Content-Security-Policy with its directive,
// including those that the browser does not write to its console.
const noteViolations = `document.addEventListener("securitypolicyviolation", e =>
	violation(e.effectiveDirective + ": " + e.blockedURI + " " + e.sample + " at " + e.sourceFile + ":" + e.lineNumber + ":" + e.columnNumber))`

// newTab opens a tab. At its end, the test fails if there was a console message other than
// an informational one, a violation of a policy, or a request to another host.
func newTab(t *testing.T, browser context.Context, server string, v view) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	b := &tab{t: t, ctx: ctx, server: server, view: v}
	if err := chromedp.Listen(ctx, b.notice); err != nil {
		t.Fatal(err)
	}
	b.do(
		call(audits.Enable, cdp.Empty{}),
		call(runtime.AddBinding, runtime.AddBindingParams{Name: "violation"}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}}}),
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.width, Height: 900, DeviceScaleFactor: 1}),
	)
	if _, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) (page.AddScriptToEvaluateOnNewDocumentResult, error) {
		return cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: noteViolations})
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, fault := range b.faults {
			t.Error(fault)
		}
	})
	return b
}

// call turns a command without a result into an action.
func call[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	})
}

// notice handles every event of the page.
func (b *tab) notice(event any) {
	fault := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = fmt.Sprintf("the browser logs: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			said := []string{"the console says"}
			for _, a := range e.Args {
				said = append(said, fmt.Sprintf("%s %s", a.Value, a.Description))
			}
			fault = strings.Join(said, " ")
		}
	case *runtime.EventExceptionThrown:
		fault = "an exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *runtime.EventBindingCalled:
		fault = "the policy is violated: " + e.Payload
	case *audits.EventIssueAdded:
		if v := e.Issue.Details.ContentSecurityPolicyIssueDetails; v != nil {
			fault = fmt.Sprintf("the policy is violated: %s %s", v.ViolatedDirective, v.BlockedURL)
		}
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, b.server+"/") && !strings.HasPrefix(url, "data:") && (b.also == "" || !strings.HasPrefix(url, b.also+"/")) {
			fault = "a request to " + url
		}
	case *network.EventWebSocketCreated:
		fault = "a web socket to " + e.URL
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.expected != "" && strings.Contains(fault, "responded with a status of "+b.expected) {
			b.expected = ""
			return
		}
		b.faults = append(b.faults, fault)
	}
}

// do runs actions, and ends the test if one fails.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if _, err := run(b, chromedp.Steps(actions...)); err != nil {
		b.t.Fatal(err)
	}
}

func run[T any](b *tab, action chromedp.Action[T]) (T, error) {
	// The first action opens the tab, whose lifetime is that of the action's context.
	if chromedp.FromContext(b.ctx).Target == nil {
		return chromedp.Run(b.ctx, action)
	}
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// open navigates to a path of the server.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.server + path))
}

// click clicks the first element that matches a selector, once it is visible.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// follow clicks the link to a path of the server, and waits for its page.
func (b *tab) follow(path string) {
	b.t.Helper()
	b.click(fmt.Sprintf("a[href=%q]", path))
	b.until(fmt.Sprintf(`location.pathname === %q && document.readyState === "complete"`, path))
}

// enter types into an input field.
func (b *tab) enter(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// get evaluates an expression on the page.
func get[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// download clicks what downloads a file, and returns the file.
func (b *tab) download(selector, file string) string {
	b.t.Helper()
	folder := b.t.TempDir()
	b.do(call(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID, DownloadPath: folder}))
	b.click(selector)
	for end := time.Now().Add(pageTimeout); ; time.Sleep(20 * time.Millisecond) { // it has another name until it is complete
		content, err := os.ReadFile(filepath.Join(folder, file))
		if err == nil {
			return string(content)
		}
		if time.Now().After(end) {
			b.t.Fatal(err)
		}
	}
}

// until waits until an expression is true. It polls from outside, because a page whose
// policy forbids eval cannot wait for an expression.
func (b *tab) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(pageTimeout); ; time.Sleep(20 * time.Millisecond) {
		done, err := run(b, chromedp.Evaluate[bool](expression))
		if err == nil && done {
			return
		}
		if time.Now().After(end) { // an error may come from a page that is being replaced
			b.screenshot("failed")
			b.t.Fatalf("not true after %s: %s: %v", pageTimeout, expression, err)
		}
	}
}

// seen returns the visible text of an element.
func (b *tab) seen(selector string) string {
	b.t.Helper()
	return get[string](b, fmt.Sprintf(`(e => e && e.checkVisibility({opacityProperty: true, visibilityProperty: true}) ? e.innerText : "")(document.querySelector(%q))`, selector))
}

// misplaced finds the columns of tables whose heading is visible, but not above the first cell.
const misplaced = `[...document.querySelectorAll("table")].flatMap(t => {
	const heads = [...t.querySelectorAll("thead tr:last-child > *")], cells = [...(t.querySelector("tbody tr")?.children ?? [])]
	const left = e => Math.round(e.getBoundingClientRect().left)
	return heads.filter((h, i) => cells.length === heads.length && h.getBoundingClientRect().width > 1 && t.querySelector("thead").getBoundingClientRect().width > 1 && Math.abs(left(h) - left(cells[i])) > 1).map(h => h.textContent)
})`

// checkLook fails the test if the page is wider than the window, breaks a time, a number or a name of a table within
// a word, has the heading of a column elsewhere than its cells, or has text with too little contrast.
func (b *tab) checkLook(where string) {
	b.t.Helper()
	b.until(`document.getAnimations().every(a => a.playState !== "running")`) // a button fades in
	if wide := get[int](b, `Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - document.documentElement.clientWidth`); wide > 0 {
		b.t.Errorf("%s: the page is %d px wider than the window", where, wide)
	}
	for _, broken := range get[[]string](b, brokenWords) {
		b.t.Errorf("%s: a line breaks within the word %q", where, broken)
	}
	for _, heading := range get[[]string](b, misplaced) {
		b.t.Errorf("%s: the heading %q is not above its cells", where, heading)
	}
	for _, pale := range get[[]string](b, paleTexts) {
		b.t.Errorf("%s: hard to read: %s", where, pale)
	}
}

// screenshot saves an image of the page.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	height := b.view.height
	if height == 0 {
		height = get[int64](b, `Math.min(document.documentElement.scrollHeight, 6000)`)
	}
	metrics := emulation.SetDeviceMetricsOverrideParams{Width: b.view.width, Height: height, DeviceScaleFactor: 1}
	b.do(call(emulation.SetDeviceMetricsOverride, metrics))
	image, err := run(b, chromedp.CaptureScreenshot())
	metrics.Height = 900
	b.do(call(emulation.SetDeviceMetricsOverride, metrics))
	if err = errors.Join(err, os.MkdirAll(*screenshots, 0o755)); err == nil {
		err = os.WriteFile(filepath.Join(*screenshots, name+"-"+b.view.name+".png"), image, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// brokenWords lists the words of times, numbers and names in tables that are on several lines.
const brokenWords = `[...document.querySelectorAll("td time, td.number, td.brief")].flatMap(cell => {
	const broken = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
	while (texts.nextNode()) {
		for (const word of texts.currentNode.data.matchAll(/[^\s-]+/g)) {
			const range = document.createRange()
			range.setStart(texts.currentNode, word.index)
			range.setEnd(texts.currentNode, word.index + word[0].length)
			if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) broken.push(word[0])
		}
	}
	return broken
})`

// paleTexts lists the texts whose contrast is less than WCAG 2.2 requires at level AA
// (1.4.3): 4.5, and 3 for large text. Colors are drawn on a canvas to get their values,
// because a style may use any color space.
const paleTexts = `(() => {
	const brush = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
	const known = new Map();
	const rgba = color => {
		if (!known.has(color)) {
			brush.clearRect(0, 0, 1, 1);
			brush.fillStyle = color;
			brush.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
			known.set(color, [r, g, b, a / 255]);
		}
		return known.get(color);
	};
	const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
	const luminance = c => c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const probe = document.createElement("div");
	probe.style.backgroundColor = "Canvas";
	document.body.append(probe);
	const canvas = rgba(getComputedStyle(probe).backgroundColor);
	probe.remove();
	const below = e => e ? over(rgba(getComputedStyle(e).backgroundColor), below(e.parentElement)) : canvas.slice(0, 3);
	const pale = [];
	for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || e.closest("svg, select, :disabled, script, style") ||
			!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) {
			continue;
		}
		const style = getComputedStyle(e);
		const color = rgba(style.color).slice();
		for (let up = e; up; up = up.parentElement) {
			color[3] *= getComputedStyle(up).opacity;
		}
		const background = below(e);
		const [dim, bright] = [luminance(over(color, background)), luminance(background)].sort((a, b) => a - b);
		const contrast = (bright + 0.05) / (dim + 0.05);
		const size = parseFloat(style.fontSize);
		if (contrast < (size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5)) {
			pale.push(contrast.toFixed(1) + ": " + walk.currentNode.data.trim().slice(0, 40) + " (" + e.tagName + "." + e.className + " in " + e.parentElement.className +
				", " + style.color + " on rgb(" + background.map(Math.round) + "))");
		}
	}
	return [...new Set(pale)].slice(0, 25);
})()`
