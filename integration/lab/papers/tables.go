package papers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// table is a table of a page.
type table struct {
	section string // the heading that it stands under
	head    []string
	rows    [][]string
}

// tablesOf reads the tables of a page in Markdown.
func tablesOf(text string) (all []table) {
	section, in := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			section, in = strings.TrimSpace(strings.TrimLeft(line, "#")), false
		case !strings.HasPrefix(line, "|"):
			in = false
		case !in:
			all, in = append(all, table{section: section, head: cellsOf(line)}), true
		case strings.Trim(line, "|-: ") != "":
			t := &all[len(all)-1]
			t.rows = append(t.rows, cellsOf(line))
		}
	}
	return all
}

// cellsOf are the cells of a row, without the marks of code and of bold print.
func cellsOf(line string) (cells []string) {
	line = strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00")
	for c := range strings.SplitSeq(line, "|") {
		c = strings.Trim(strings.ReplaceAll(c, "\x00", "|"), " `")
		cells = append(cells, strings.ReplaceAll(c, "**", ""))
	}
	return cells
}

// pages holds tables of a directory's pages, by name; a page that is not there has none.
type pages struct {
	dir string
	of  map[string][]table
}

func (p *pages) tables(name string) ([]table, error) {
	if all, ok := p.of[name]; ok {
		return all, nil
	}
	text, err := os.ReadFile(filepath.Join(p.dir, name+".md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p.of[name] = tablesOf(string(text))
	return p.of[name], nil
}

// Ref is a cell of a page: in the first table under a heading that begins so, of those that have such a row
// and column, or in a later one.
type Ref struct {
	Label         string // before it; "": nothing
	Page, Section string
	Column        string
	Row           string // cells of its row, in their order, with bars between
	After         int    // so many tables that have such a row and column come before
}

// find returns the cell, and the heading that it stands under; "": the page has none.
func (p *pages) find(r Ref) (cell, section string, err error) {
	all, err := p.tables(r.Page)
	if err != nil {
		return "", "", err
	}
	after := r.After
	for _, t := range all {
		column := slices.Index(t.head, r.Column)
		if !strings.HasPrefix(t.section, r.Section) || column < 0 {
			continue
		}
		for _, row := range t.rows {
			if column >= len(row) || !has(row, strings.Split(r.Row, " | ")) {
				continue
			}
			if after--; after < 0 {
				return row[column], t.section, nil
			}
			break
		}
	}
	return "", "", nil
}

// has reports whether a row has cells that are keys, in their order.
func has(row, keys []string) bool {
	for _, c := range row {
		if len(keys) > 0 && c == keys[0] {
			keys = keys[1:]
		}
	}
	return len(keys) == 0
}

var numeral = regexp.MustCompile(`[-+]?\d+(\.\d+)?`)

// number is the first number of a cell.
func number(cell string) (float64, error) {
	x, err := strconv.ParseFloat(numeral.FindString(cell), 64)
	if err != nil {
		return 0, fmt.Errorf("%q holds no number", cell)
	}
	return x, nil
}
