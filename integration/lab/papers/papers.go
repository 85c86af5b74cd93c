package papers

import (
	"fmt"
	"regexp"
	"strings"

	"souk/integration/lab/page"
)

// Claim is a figure, a table or a router of a paper, or what it says of one.
type Claim struct {
	Part    string // of the paper: Table 1
	What    string
	Theirs  string
	Ours    []Ref
	Held    func(x []float64) bool // by the numbers of Ours; nil: there is nothing to judge
	Command string                 // that makes it; "": nothing does
	Plot    bool                   // its page has a plot of it
	Why     string                 // two figures cannot be compared, or it is not made
	Drawing bool                   // it has no results
}

// Paper holds the claims of a publication.
type Paper struct {
	Name, Title string
	Claims      []Claim
}

// Papers lists the three.
var Papers = []Paper{
	{"iemas", "IEMAS: An Incentive-Efficiency Routing Framework for Open Agentic Web Ecosystems",
		iemasClaims()},
	{"anarchy", "The Price of Anarchy in Disaggregated Inference", anarchyClaims},
	{"runtime-layer", "A Policy-Driven Runtime Layer for Agentic LLM Serving", runtimeClaims},
}

// What becomes of a claim.
const (
	holds   = "holds"
	fails   = "**does not hold**"
	notMade = "not made"
	absent  = "not on its page"
	nothing = "nothing is claimed"
	drawing = "has no results"
)

// say returns what came of a claim: ours, whether it held, and where that stands.
func (p *pages) say(c *Claim) (ours, held, where string, err error) {
	var said []string
	var x []float64
	for _, r := range c.Ours {
		cell, section, err := p.find(r)
		if err != nil {
			return "", "", "", err
		}
		if where == "" {
			where = link(r.Page, section, c.Plot) + "`" + c.Command + "`"
		}
		if section == "" {
			return "", absent, where, nil
		}
		n, err := number(cell)
		if err != nil && c.Held != nil {
			return "", "", "", fmt.Errorf("%s: %s, %s, %v: %w", c.What, r.Page, r.Section, r.Row, err)
		}
		x = append(x, n)
		said = append(said, strings.TrimSpace(r.Label+" "+cell))
	}
	switch {
	case c.Drawing:
		return "", drawing, "", nil
	case len(c.Ours) == 0:
		return "", notMade, "", nil
	case c.Held == nil:
		held = nothing
	case c.Held(x):
		held = holds
	default:
		held = fails
	}
	return strings.Join(said, "; "), held, where, nil
}

// Page is the page of papers beside the pages of a directory.
func Page(dir string) (*page.Page, error) {
	p := &pages{dir: dir, of: map[string][]table{}}
	count := map[string]int{}
	var b strings.Builder
	for _, paper := range Papers {
		var rows [][]string
		for i := range paper.Claims {
			c := &paper.Claims[i]
			ours, held, where, err := p.say(c)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", paper.Name, c.Part, err)
			}
			count[held]++
			rows = append(rows, []string{c.Part, c.What, c.Theirs, ours, held, where, c.Why})
		}
		if paper.Name == "iemas" {
			more, err := p.judged("iemas", "What held", count)
			if err != nil {
				return nil, err
			}
			rows = append(more, rows...)
		}
		fmt.Fprintf(&b, "\n## %s\n\n*%s.*\n\n%s", paper.Name, paper.Title, page.Table([]string{"of the paper",
			"what",
			"theirs", "ours", "", "made by", "what keeps it from being compared"}, rows))
	}
	text := fmt.Sprintf(`Every router, table and figure of the three papers that are built on here: the command that makes it again,
the page where it stands with its intervals and seeds, theirs beside ours, and whether what the paper says of it held.
Ours are cells of the pages beside this one, read when this page is made. All of it is on simulated engines, so times
can be compared by order and ratio alone.

Of %d claims that can be judged, %d hold, %d do not and %d cannot be told. %d rows are figures of which nothing is
claimed, and %d are not made.
`, count[holds]+count[fails]+count[untold], count[holds], count[fails], count[untold], count[nothing],
		count[notMade]) + b.String()
	if n := count[absent]; n > 0 {
		text += fmt.Sprintf("\n%d rows are not on their pages: these are made anew by `lab pages`.\n", n)
	}
	return &page.Page{Name: "papers", Title: "The papers, theirs beside ours",
		Command: "lab experiment papers", Text: text}, nil
}

// untold is said of a claim on which runs of the same seeds do not decide.
const untold = "cannot be told"

// drawn holds what claims say that are of figures, not of the table, and the section that has its plot.
var drawn = []struct{ says, part, section string }{
	{"NMAE", "Fig. 3", "coqa by turn"},
	{"welfare", "Fig. 4", "Welfare on coqa"},
}

// judged are claims that their own page has judged.
func (p *pages) judged(name, section string, count map[string]int) (rows [][]string, err error) {
	all, err := p.tables(name)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.section != section {
			continue
		}
		for _, r := range t.rows {
			if len(r) != 4 {
				return nil, fmt.Errorf("%s, %s: a claim of %d cells", name, section, len(r))
			}
			held := untold
			switch r[3] {
			case holds:
				held = holds
			case strings.Trim(fails, "*"):
				held = fails
			}
			count[held]++
			part, where := "Table 1", link(name, section, false)
			for _, f := range drawn {
				if strings.Contains(r[0], f.says) {
					part, where = f.part, link(name, f.section, true)
					break
				}
			}
			rows = append(rows, []string{part, r[0], r[1], r[2], held, where + "`" + experiment + "`", ""})
		}
	}
	return rows, nil
}

// link leads to a section of a page, or to the page alone.
func link(name, section string, plot bool) string {
	to := name + ".md"
	if section != "" {
		to += "#" + strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(section), ""), " ", "-")
	}
	if plot {
		return fmt.Sprintf("[%s](%s), with a plot: ", name, to)
	}
	return fmt.Sprintf("[%s](%s): ", name, to)
}

// noAnchor matches what an anchor leaves out of its heading.
var noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// cells are several cells of one table and column, each with its row as its label.
func cells(name, section, column string, rows ...string) (all []Ref) {
	for _, row := range rows {
		all = append(all, Ref{row, name, section, column, row, 0})
	}
	return all
}

// after has a row of cells be found in a later table.
func after(n int, all []Ref) []Ref {
	for i := range all {
		all[i].After = n
	}
	return all
}

// labelled gives cells labels of their own.
func labelled(all []Ref, labels ...string) []Ref {
	for i := range all {
		all[i].Label = labels[i]
	}
	return all
}
