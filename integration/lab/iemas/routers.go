package iemas

import (
	"strings"

	"souk/integration/lab/virtual"
)

// Router stands in the tables.
type Router struct {
	Name   string
	Paper  string // its name in Table 1; "": it is not of the paper
	About  string // what it does here, and where that was published; of a rule of the table, that says so
	Source string
	Theirs []Theirs // its figures in the paper, by set
}

// Theirs holds a router's figures in Table 1: share found in a cache, cost in units that the paper does not
// name, and first token in ms.
type Theirs struct{ Share, Cost, First float64 }

// Routers are the six of Table 1, this market, and two rules of the yardstick.
var Routers = []Router{
	{"graph", "GraphRouter", "", "",
		[]Theirs{{0.364, 10.655, 423.2}, {0.310, 17.404, 443.1}, {0.042, 42.243, 1470.3}}},
	{"gmt", "GMTRouter", "", "",
		[]Theirs{{0.531, 11.946, 342.2}, {0.319, 25.302, 472.6}, {0.048, 44.365, 372.0}}},
	{"mf", "MFRouter", "", "",
		[]Theirs{{0.384, 10.507, 414.5}, {0.488, 15.372, 306.2}, {0.054, 39.101, 389.2}}},
	{"dual-contrastive", "RouterDC", "", "",
		[]Theirs{{0.482, 9.527, 357.5}, {0.242, 19.443, 404.9}, {0.046, 34.180, 2139.8}}},
	{"random", "Random", "", "",
		[]Theirs{{0.165, 13.65, 452.6}, {0.343, 24.927, 189.1}, {0.044, 43.683, 404.4}}},
	{"iemas", "IEMAS", "batches of 16 or 10 ms, Eq. 5's trees, min-cost max-flow, as printed",
		"IEMAS, Algorithm 1, 4.1, 4.2 and C.2",
		[]Theirs{{0.802, 6.944, 354.5}, {0.636, 15.868, 162.1}, {0.089, 28.694, 284.2}}},
	{virtual.MarketName, "", "this market, its hub as it is delivered", "", nil},
	{"two-block", "", "", "", nil},
	{"greedy-first:4", "", "", "", nil},
}

// rule is its name in the table of rules, without the value of a knob.
func (r *Router) rule() string {
	name, _, _ := strings.Cut(r.Name, ":")
	return name
}
