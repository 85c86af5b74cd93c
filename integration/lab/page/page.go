// Package page writes pages of results: one file of HTML that needs nothing else, with plots, and Markdown
// beside it, without them.
package page

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

	"souk/integration/lab/prose"
)

// Page is a page of results. Its text is Markdown, with tables. Where a plot belongs a line of the text is
// [plot NAME], and where something is folded away [fold NAME].
type Page struct {
	Name    string // of its files, NAME.html and NAME.md
	Title   string
	Command string // that makes it anew
	Clock   string // what of it is by the clock, and so differs from run to run; "": nothing
	Text    string
	Plots   map[string]Plot
	Folds   map[string]Fold
	Figures any // that it was made of, for [Load]
}

// Fold is a part that a reader of the HTML unfolds, and that the Markdown leaves out.
type Fold struct{ Title, Text string }

// Place is the line of a text where a plot belongs.
func Place(plot string) string { return "\n[plot " + plot + "]\n\n" }

// FoldPlace is the line of a text where a fold belongs.
func FoldPlace(fold string) string { return "\n[fold " + fold + "]\n\n" }

// Write puts the files of the page into a directory, which it makes if there is none.
func (p *Page) Write(dir string) error {
	html, err := p.HTML()
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, p.Name+".html"), html, 0o644)
	}
	if err != nil {
		return fmt.Errorf("page %s: %w", p.Name, err)
	}
	return os.WriteFile(filepath.Join(dir, cmp.Or(asMarkdown[p.Name], p.Name)+".md"), []byte(p.Markdown()),
		0o644)
}

// asMarkdown are the names under which a directory's page is shown, where they differ.
var asMarkdown = map[string]string{"index": "README"}

// made says what made the page, and whether it comes out the same again.
func (p *Page) made() string {
	said := "Made by `" + p.Command + "`; the same command makes the same bytes on any machine."
	if p.Clock != "" {
		said = "Made by `" + p.Command + "`, by the clock: " + p.Clock + "."
	}
	return said
}

// Markdown is the page without its plots.
func (p *Page) Markdown() string {
	text := p.Text
	for name := range p.Plots {
		text = strings.ReplaceAll(text, Place(name), "\n")
	}
	for name := range p.Folds {
		text = strings.ReplaceAll(text, FoldPlace(name), "\n")
	}
	for strings.Contains(text, "\n\n\n") {
		text = strings.ReplaceAll(text, "\n\n\n", "\n\n")
	}
	beside := ""
	if len(p.Plots) > 0 {
		beside = fmt.Sprintf(" With plots: [%s.html](%[1]s.html).", p.Name)
		if len(p.Folds) > 0 {
			beside = fmt.Sprintf(" With plots, and all rows: [%s.html](%[1]s.html).", p.Name)
		}
	}
	return prose.Wrap(fmt.Sprintf("# %s\n\n%s%s\n\n%s\n", p.Title, p.made(), beside, strings.TrimSpace(text)))
}

//go:embed page.html
var shell string

var frame = template.Must(template.New("page").Parse(shell))

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// tables are written with fewer bytes: cells and rows end where the next begin.
var tables = strings.NewReplacer("<table>", `<div class="wide"><table>`, "</table>", "</table></div>",
	"</td>\n", "", "</th>\n", "", "</tr>\n", "", "<tr>\n", "<tr>", ` style="text-align:right"`, ` class="r"`,
	` align="right"`, ` class="r"`)

// render is the HTML of Markdown, whose links to pages that have HTML lead there. What the text has of HTML
// is not taken for it.
func render(text string) (string, error) {
	var body bytes.Buffer
	err := markdown.Convert([]byte(text), &body)
	return tables.Replace(beside.ReplaceAllStringFunc(body.String(), func(link string) string {
		if slices.Contains(alone, beside.FindStringSubmatch(link)[1]) {
			return link
		}
		return strings.Replace(link, ".md", ".html", 1)
	})), err
}

// HTML is the page with its plots and folds.
func (p *Page) HTML() ([]byte, error) {
	text, err := render(p.made() + "\n\n" + p.Text)
	if err != nil {
		return nil, err
	}
	put := func(what, name, html string) error {
		line := "<p>[" + what + " " + template.HTMLEscapeString(name) + "]</p>\n"
		if !strings.Contains(text, line) {
			return fmt.Errorf("%s %q has no line in the text", what, name)
		}
		text = strings.ReplaceAll(text, line, html)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Plots)) {
		plot := p.Plots[name]
		svg, err := plot.SVG()
		if err == nil {
			err = put("plot", name, "<figure>"+svg+"</figure>\n")
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Folds)) {
		fold := p.Folds[name]
		body, err := render(fold.Text)
		if err == nil {
			err = put("fold", name, "<details><summary>"+template.HTMLEscapeString(fold.Title)+"</summary>\n"+
				body+"</details>\n")
		}
		if err != nil {
			return nil, err
		}
	}
	if left := unplaced.FindString(text); left != "" {
		return nil, fmt.Errorf("there is no %.60q", left[3:])
	}
	figures, err := p.figures()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = frame.Execute(&out, struct {
		Title   string
		Home    bool
		Heads   []head
		Body    template.HTML
		Figures template.JS
	}{p.Title, p.Name == "index", headsOf(text), template.HTML(text), figures})
	return out.Bytes(), err
}

// unplaced is a line that names a plot or a fold.
var unplaced = regexp.MustCompile(`<p>\[(plot|fold) .*`)

// long is a number with more digits than a page says.
var long = regexp.MustCompile(`-?\d+\.\d{5,}(e[+-]?\d+)?`)

// figures returns the page's figures as JSON, to six digits.
func (p *Page) figures() (template.JS, error) {
	if p.Figures == nil {
		return "", nil
	}
	data, err := json.Marshal(p.Figures) // in which < is escaped
	short := long.ReplaceAllFunc(data, func(number []byte) []byte {
		x, err := strconv.ParseFloat(string(number), 64)
		if err != nil {
			return number
		}
		return strconv.AppendFloat(nil, x, 'g', 6, 64)
	})
	return template.JS(short), err
}

// beside matches a link to a page of the same directory; alone lists those that exist as Markdown only.
var (
	beside = regexp.MustCompile(`href="([a-z]+)\.md["#]`)
	alone  = []string{"bench", "engines", "load"}
)

// head is a heading, for the list of contents.
type head struct{ ID, Title template.HTML }

func headsOf(html string) (all []head) {
	for part := range strings.SplitSeq(html, `<h2 id="`) {
		id, rest, ok := strings.Cut(part, `">`)
		title, _, end := strings.Cut(rest, "</h2>")
		if ok && end && !strings.Contains(id, "<") {
			all = append(all, head{template.HTML(id), template.HTML(title)})
		}
	}
	return all
}

// Where the figures of a page stand in its HTML.
const (
	figuresBegin = `<script type="application/json" id="figures">`
	figuresEnd   = `</script>`
)

// Load reads the figures of a page that was written into a directory; false: there is none.
func Load(dir, name string, figures any) (bool, error) {
	file := filepath.Join(dir, name+".html")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, rest, ok := bytes.Cut(data, []byte(figuresBegin))
	text, _, end := bytes.Cut(rest, []byte(figuresEnd))
	if !ok || !end {
		return false, fmt.Errorf("%s: it has no figures: make it anew", file)
	}
	if err := json.Unmarshal(text, figures); err != nil {
		return false, fmt.Errorf("%s: %w: make it anew", file, err)
	}
	return true, nil
}

// cells escapes the text of a table's cell: nothing in it is HTML, and nothing ends the cell.
var cells = strings.NewReplacer("|", `\|`, "<", `\<`, "\n", " ")

// figure is a cell that stands to the right.
var figure = regexp.MustCompile(`^[-+]?[\d-]|^$|^unknown`)

// Table is a table of Markdown.
func Table(heading []string, rows [][]string) string {
	var b strings.Builder
	line := func(row []string) {
		for _, c := range row {
			b.WriteString("| " + cells.Replace(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(heading)
	for i := range heading {
		words := func(row []string) bool { return i < len(row) && !figure.MatchString(row[i]) }
		if i == 0 || slices.ContainsFunc(rows, words) {
			b.WriteString("|---")
		} else {
			b.WriteString("|--:")
		}
	}
	b.WriteString("|\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}
