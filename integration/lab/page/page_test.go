package page

import (
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() *Page {
	lines := Plot{Title: "Waits", X: "load", Y: "p99, ms", LogY: true, Series: []Series{
		{"market", false, []Point{{X: 0.3, Y: 20, Within: 2},
			{X: 0.9, Y: 300, Within: 40, XWithin: 0.1}, {X: 1.2, Y: 4000, Within: 4500}}},
		{"two-block <1>", false, []Point{{X: 0.3, Y: 22, Within: 1}, {X: 0.9, Y: 800, Within: 100},
			{X: 1.2}}}}}
	dots := Plot{Title: "Welfare", Y: "a second", Groups: []string{"market", "two-block", "sticky"},
		Series: []Series{{"", false, []Point{{Y: 5, Within: 1}, {X: 1, Y: 4, Within: 0.5},
			{X: 2, Y: -3, Within: 0.1}}}}}
	return &Page{Name: "sample", Title: "A sample & more", Command: "lab sample --seeds 2",
		Text: "What it is, see [the other](other.md#part).\n" + Place("waits") + "## First part\n\n" +
			Table([]string{"rule", "welfare"}, [][]string{{"a|b", "1.5 ± 0.2"}, {"<script>x</script>",
				"2"}}) +
			Place("welfare") + FoldPlace("all") + "## Second\n\nText.\n\n## Third\n\nMore.\n",
		Plots: map[string]Plot{"waits": lines, "welfare": dots},
		Folds: map[string]Fold{"all": {"All rules & more", Table([]string{"rule"},
			[][]string{{"folded"}})}},
		Figures: map[string][]float64{"a</script>": {1, 2.5}}}
}

// A page is one file that needs no other: well-formed pictures, no address it fetches from, its figures
// inside.
func TestPageNeedsNothingElse(t *testing.T) {
	dir, p := t.TempDir(), sample()
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "sample.html"))
	if err != nil {
		t.Fatal(err)
	}
	html := string(data)
	for _, want := range []string{"<h1>A sample &amp; more</h1>", `href="other.html#part"`, `<h2 id="first-part">`,
		`<a href="#second">Second</a>`, "<td>a|b<td", "&lt;script&gt;x&lt;/script&gt;", "currentColor",
		"prefers-color-scheme:dark", "two-block &lt;1&gt;", `<a href="index.html">`, "<details><summary>All rules &amp; more</summary>",
		"<td>folded"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q in\n%s", want, html)
		}
	}
	for _, bad := range []string{"src=", "@import", "url(", "<script>", "[plot", "[fold", "#010203",
		"Liberation", "NaN"} {
		if strings.Contains(html, bad) {
			t.Errorf("%q in the page", bad)
		}
	}
	pictures := strings.Split(html, "<svg")[1:]
	if len(pictures) != 2 {
		t.Fatalf("%d pictures, want 2", len(pictures))
	}
	for _, s := range pictures {
		body, _, _ := strings.Cut(s, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg" + body + "</svg>"))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a picture is not well-formed: %v", err)
			}
		}
	}
	figures := map[string][]float64{}
	if ok, err := Load(dir, "sample", &figures); !ok || err != nil || cmp.Diff(p.Figures,
		any(figures)) != "" {
		t.Errorf("read back %v, %v, %v; want %v", figures, ok, err, p.Figures)
	}
	if ok, err := Load(dir, "none", &figures); ok || err != nil {
		t.Errorf("figures of no page: %v, %v", ok, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cut.html"), data[:len(data)-200], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, "cut", &figures); err == nil || !strings.Contains(err.Error(), "cut.html") {
		t.Errorf("a page that was cut off: %v", err)
	}
}

func TestMarkdownHasNoPlots(t *testing.T) {
	md := sample().Markdown()
	for _, want := range []string{"# A sample & more\n", "[sample.html](sample.html)",
		"| a\\|b | 1.5 ± 0.2 |\n",
		"Made by `lab sample --seeds 2`"} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
	if strings.Contains(md, "[plot") || strings.Contains(md, "fold") || strings.Contains(md, "\n\n\n") {
		t.Errorf("lines of plots are left in\n%s", md)
	}
}

// The same figures make the same bytes.
func TestPageIsTheSameAgain(t *testing.T) {
	one, err := sample().HTML()
	other, err2 := sample().HTML()
	if err != nil || err2 != nil || string(one) != string(other) {
		t.Errorf("two pages of one: %v, %v", err, err2)
	}
}

func TestPlotsHaveTheirLines(t *testing.T) {
	p := sample()
	p.Text += Place("luck")
	if _, err := p.HTML(); err == nil || !strings.Contains(err.Error(), "[plot luck]") {
		t.Errorf("a line without a plot: %v", err)
	}
	p = sample()
	p.Plots["more"] = p.Plots["waits"]
	if _, err := p.HTML(); err == nil || !strings.Contains(err.Error(), `"more" has no line`) {
		t.Errorf("a plot without a line: %v", err)
	}
	p = sample()
	p.Text += FoldPlace("luck")
	if _, err := p.HTML(); err == nil || !strings.Contains(err.Error(), "[fold luck]") {
		t.Errorf("a line without a fold: %v", err)
	}
	empty := Plot{Title: "Nothing", Series: []Series{{"a", false, nil}}}
	if _, err := empty.SVG(); err == nil || !strings.Contains(err.Error(), `plot "Nothing": it has no point`) {
		t.Errorf("a plot of nothing: %v", err)
	}
}

// One point, and points that are all the same, are drawn on every scale.
func TestOnePointIsDrawn(t *testing.T) {
	for _, log := range []bool{false, true} {
		p := Plot{Title: "One", LogX: log, LogY: log, Series: []Series{{Name: "a", Points: []Point{{X: 1,
			Y: 1}}}}}
		if _, err := p.SVG(); err != nil {
			t.Errorf("log %v: %v", log, err)
		}
		p = Plot{Title: "Same", LogY: log}
		p.Put("a", "", 1, 0)
		p.Put("b", "", 1, 0)
		if _, err := p.SVG(); err != nil {
			t.Errorf("groups, log %v: %v", log, err)
		}
	}
}

// A picture is written in few bytes: lines of one style that follow one another are one path.
func TestPicturesAreSmall(t *testing.T) {
	got, err := compact("<?xml?>\n<svg >\n" + `<path d="M1.04,2.96L3,4" style="fill:none;stroke:#3B82C4" />` + "\n" +
		`<path d="M5,6L7.25,8" style="fill:none;stroke:#3B82C4" />` + "\n" +
		`<path d="M9,9L1,1" style="fill:#3B82C4" />` + "\n" +
		`<text x="1.234" y="-5.678" transform="scale(1, -1)" style="font-size:10px;fill:#010203">v1.234</text>` +
		"\n</svg>")
	want := "<svg >\n" + `<path d="M1,3L3,4M5,6L7.3,8" style="fill:none;stroke:#3B82C4"/>` + "\n" +
		`<path d="M9,9L1,1" style="fill:#3B82C4"/>` + "\n" +
		`<text x="1.2" y="-5.7" class="s">v1.234</text>` + "\n</svg>"
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := compact("none"); err == nil {
		t.Error("no picture, and no error")
	}
	p := sample().Plots["waits"]
	svg, err := p.SVG()
	if err != nil || len(svg) > 5000 {
		t.Errorf("%d bytes of a plot of two lines: %v\n%s", len(svg), err, svg)
	}
}

// A bar says how long it is, and whose, and whether it is at least so long.
func TestBarsSayWhatTheyAre(t *testing.T) {
	p := Plot{Title: "Dollars", Y: "dollars", Bars: "$%.0f"}
	p.Put("azure", "market", 68, 5)
	p.Put("azure", "two-block", 130, 0)
	p.Series[1].Points[0].Least = true
	svg, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">$68 market<", ">at least $130 two-block<", ">azure<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in %s", want, svg)
		}
	}
	if strings.Contains(svg, ">market<") {
		t.Error("a legend says again what the bars say")
	}
	p.Put("mooncake", "market", math.NaN(), 0)
	if _, err := p.SVG(); err == nil || !strings.Contains(err.Error(), "a bar has no length") {
		t.Errorf("a bar of NaN: %v", err)
	}
}
