package house

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"souk/bus"
	"souk/hub"
)

var (
	pageLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	noAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	codeLines = regexp.MustCompile("(?ms)^```.*?^```$|^    .*?$|`[^`\n]*`")
)

// A link within the repository leads to a file that is there, and to a heading that its page has.
func TestPagesLinkWhatIsThere(t *testing.T) {
	pages := map[string]string{}
	eachFile(t, ".md", 20, func(path string, data []byte) { pages[path] = string(data) })
	for path, page := range pages {
		for _, broken := range brokenLinks(path, page, pages) {
			t.Errorf("%s: %s", path, broken)
		}
	}
	sample := map[string]string{"a.md": "# One, two\n\n## `three` 4\n\n## Two\n\n## Two\n",
		"b.md": "[1](a.md#one-two) [2](a.md#three-4) [3](a.md#two-1) [4](https://x.example/y#z)\n\n    [5](none.md)\n"}
	if got := brokenLinks("b.md", sample["b.md"], sample); got != nil {
		t.Errorf("good links are named: %q", got)
	}
	bad := "[1](none.md) [2](a.md#two-2) [3](#four)"
	if got := brokenLinks("b.md", bad, sample); len(got) != 3 {
		t.Errorf("of %q are named: %q", bad, got)
	}
}

// A row of a table is one line, with a cell for each of its headings.
func TestTablesAreWhole(t *testing.T) {
	eachFile(t, ".md", 20, func(path string, data []byte) {
		for _, row := range brokenRows(string(data)) {
			t.Errorf("%s: %s", path, row)
		}
	})
	sample := "| a | b |\n|---|--:|\n| 1 `x|y` | \\| |\n\n    | x\n\n| c |\n|---|\n| 1 |\n"
	if got := brokenRows(sample); got != nil {
		t.Errorf("good rows are named: %q", got)
	}
	if got := brokenRows("| a | b |\n|---|---|\n| 1 |\n| 2 | two,\n\tthree |\n"); len(got) != 2 {
		t.Errorf("of two broken rows are named: %q", got)
	}
}

// brokenRows are the rows of a page's tables that have too few cells or too many, and those in two lines.
func brokenRows(page string) (broken []string) {
	cells := 0
	for line := range strings.Lines(codeLines.ReplaceAllString(page, "")) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells == 0 {
			cells = n
		}
		if n != cells || !strings.HasSuffix(line, "|") {
			broken = append(broken, line)
		}
	}
	return broken
}

// What each role may write and read in etcd stands in the manual as bus.AccessOf has it, key by key.
func TestTheTableOfRolesInEtcd(t *testing.T) {
	page, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| role | writes | reads |")
	named := regexp.MustCompile("`([a-z]+/?)`")
	for _, role := range bus.Roles {
		ids := bus.IDs{Name: "n"}
		switch role {
		case bus.RoleHub:
			ids.Domain = "d"
		case bus.RoleAgentd:
			ids.Agents = []string{"a"}
		}
		access, err := bus.AccessOf(role, ids)
		if err != nil {
			t.Fatal(err)
		}
		row := regexp.MustCompile(`\| ` + string(role) + ` \|(.*)\|(.*)\|\n`).FindStringSubmatch(table)
		if row == nil {
			row = make([]string, 3)
		}
		for i, keys := range [][]string{access.Write, access.Read} {
			var want, got []string
			for _, k := range keys { // without the id
				first, _, below := strings.Cut(strings.TrimPrefix(k, "/souk/v1/"), "/")
				if below {
					first += "/"
				}
				want = append(want, first)
			}
			for _, name := range named.FindAllStringSubmatch(row[i+1], -1) {
				got = append(got, name[1])
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: the page says %q, and AccessOf %q", role, got, want)
			}
		}
	}
}

// brokenLinks are the links of a page that lead nowhere.
func brokenLinks(path, page string, pages map[string]string) (broken []string) {
	for _, link := range pageLink.FindAllStringSubmatch(codeLines.ReplaceAllString(page, ""), -1) {
		if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(link[1], "#")
		target, text := path, page
		if file != "" {
			target = filepath.Join(filepath.Dir(path), file)
			if text = pages[target]; text == "" {
				if _, err := os.Stat(target); err != nil {
					broken = append(broken, link[1]+": there is no such file")
				}
				continue
			}
		}
		if anchor != "" && !anchors(text)[anchor] {
			broken = append(broken, link[1]+": the page has no such heading")
		}
	}
	return broken
}

// anchors are the names of a page's headings, as GitHub makes them: of equal ones the later are numbered.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(page) {
		title := strings.TrimLeft(line, "#")
		if !strings.HasPrefix(line, "#") || !strings.HasPrefix(title, " ") {
			continue
		}
		name := noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		name = strings.ReplaceAll(name, " ", "-")
		again := name
		for n := 1; names[again]; n++ {
			again = fmt.Sprintf("%s-%d", name, n)
		}
		names[again] = true
	}
	return names
}

// The manual's tables of a hub's settings name fields that there are, and the defaults that they have.
func TestTheManualsDefaultsAreTrue(t *testing.T) {
	page, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| ((?:`[a-z_]+`(?:, | )?)+) \\|.*\\| ([^|]+) \\|$")
	head := regexp.MustCompile("^\\| `([a-z]+):` \\| .* \\| default \\|$")
	word := regexp.MustCompile("`([a-z_]+)`")
	section, rows := "", 0
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if m := head.FindStringSubmatch(line); m != nil {
			section = m[1]
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			if line == "" {
				section = ""
			}
			continue
		}
		if section == "" || section == "policies" {
			continue
		}
		names := word.FindAllStringSubmatch(m[1], -1)
		says := strings.Split(strings.ReplaceAll(m[2], "`", ""), "; ")
		for i, name := range names {
			field, ok := settingOf(reflect.ValueOf(hub.Default()), section, name[1])
			if !ok {
				t.Errorf("%s.%s: a hub's file has no such field", section, name[1])
				continue
			}
			want := says[min(i, len(says)-1)]
			if got := defaultOf(field); got != want && (want != "none" && want != "off" || !field.IsZero()) {
				t.Errorf("%s.%s: the default is %s, and the manual says %s", section, name[1], got, want)
			}
			rows++
		}
	}
	if rows < 11 {
		t.Errorf("only %d settings were compared: are the tables written in another way?", rows)
	}
}

// settingOf finds a field by its names in YAML.
func settingOf(v reflect.Value, path ...string) (reflect.Value, bool) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			if found, ok := settingOf(v.Field(i), path...); ok {
				return found, true
			}
		case name == path[0] && len(path) == 1:
			return v.Field(i), true
		case name == path[0]:
			return settingOf(v.Field(i), path[1:]...)
		}
	}
	return reflect.Value{}, false
}

// defaultOf writes a default as the manual does: of a struct its fields, one after the other.
func defaultOf(v reflect.Value) string {
	if v.Kind() == reflect.Struct {
		var all []string
		for i := range v.NumField() {
			all = append(all, defaultOf(v.Field(i)))
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprint(v.Interface())
}
