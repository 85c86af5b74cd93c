package papers

// Of engines that compute prompts and answer.
const (
	two  = "1P/2D"
	five = "1P/5D"
)

// at are cells of the paper's router at loads.
func at(column, engines string, loads ...string) []Ref {
	var rows, labels []string
	for _, l := range loads {
		rows, labels = append(rows, engines+" | dynamo | "+l), append(labels, engines+" at "+l)
	}
	return labelled(cells("games", "Experiment 1:", column, rows...), labels...)
}

func both(a, b []Ref) []Ref { return append(a, b...) }

const (
	spikes   = "Experiment 3:"
	weights  = "Experiments 4a and 4b:"
	adaptive = "dynamo, adaptive"
	spike    = "32-128-32"
)

// spiked are cells of the router, without its controller and with it, in the spike.
func spiked(column, engines string) []Ref {
	return labelled(cells("games", spikes, column, engines+" | dynamo | "+spike+" | spike",
		engines+" | "+adaptive+" | "+spike+" | spike"), engines+" static", "adaptive")
}

var anarchyClaims = []Claim{
	{Part: "Figs. 1 to 3, Tables 1 to 3", What: "drawings, settings and related work", Drawing: true},
	{Part: "Experiment 1, Table 4, Fig. 4",
		What:    "TTFT p99 leaps where the load goes from 96 to 128, tenfold and more",
		Theirs:  "354 ms to 10.0 s (1P/2D)",
		Ours:    both(at("TTFT p99", two, "96", "128"), at("TTFT p99", five, "96", "128")),
		Command: "lab games --only 1", Plot: true,
		Held: func(x []float64) bool { return x[1] > 10*x[0] && x[3] > 10*x[2] },
		Why:  "a queue of first come, first served holds two seconds of prompts there at most, see its page"},
	{Part: "Experiment 1, Fig. 4", What: "ITL p99 stays flat while TTFT p99 explodes",
		Theirs:  "10 to 14 ms at all loads",
		Ours:    both(at("ITL p99", two, "8", "512"), at("TTFT p99", two, "8", "512")),
		Command: "lab games --only 1", Plot: true,
		Held: func(x []float64) bool { return x[1] < 2*x[0] && x[3] > 50*x[2] }},
	{Part: "Experiment 1, Table 5", What: "throughput has a ceiling of 47 and 51 a second",
		Theirs:  "47 (1P/2D), 51 (1P/5D)",
		Ours:    both(at("rps", two, "512"), at("rps", five, "512")),
		Command: "lab games --only 1",
		Held:    func(x []float64) bool { return x[0] > 42 && x[0] < 52 && x[1] > 46 && x[1] < 56 },
		Why:     "the ceilings are its own, given to the engine that computes; within a tenth"},
	{Part: "Experiment 1, Fig. 5", What: "the index is a plateau from 8 to 96 callers",
		Theirs:  "6 to 7.7 (1P/2D), 14.7 (1P/5D)",
		Ours:    both(at("PoA window", two, "8", "64", "96"), at("PoA window", five, "8", "64", "96")),
		Command: "lab games --only 1", Plot: true,
		Held: func(x []float64) bool { return x[2] < 1.5*x[0] && x[5] < 1.5*x[3] },
		Why:  "the index's level is by a count of load that it does not say: see its page"},
	{Part: "Experiment 1, Fig. 5", What: "the index explodes beyond the knee",
		Theirs:  "17.6 at 128, 167 at 256 (1P/2D); 309 at 256 (1P/5D)",
		Ours:    both(at("PoA window", two, "64", "256"), at("PoA window", five, "64", "256")),
		Command: "lab games --only 1", Plot: true,
		Held: func(x []float64) bool { return x[1] > 5*x[0] && x[3] > 5*x[2] }},
	{Part: "Experiment 1, Table 4", What: "Nemotron 340B",
		Theirs: "index 18.7, 18 a second",
		Why:    "nobody measured an engine of it"},
	{Part: "Experiment 2", What: "its detector sees the knee at 128 within 15 s",
		Theirs: "saturated within 15 s, 70B 1P/2D",
		Ours: labelled(cells("games", "Experiment 2:", "seen", two+" | "+adaptive+" | 64",
			two+" | "+adaptive+" | 128", two+" | "+adaptive+" | 256", five+" | market | 128"), "64", "128",
			"256", "market, 1P/5D at 128"),
		Command: "lab games --only 2",
		Why:     "callers come one by one in its ramp, so first tokens stay below its thresholds until queues do not end"},
	{Part: "Experiment 3, Table 8, Fig. 7",
		What:    "the adaptive router's index in the spike is far below the static's",
		Theirs:  "66.4 ± 12.2 to 21.5 ± 0.2 (1P/5D)",
		Ours:    spiked("PoA window", five),
		Command: "lab games --only 3", Plot: true,
		Held: func(x []float64) bool { return x[1] < 0.9*x[0] }},
	{Part: "Experiment 3, Table 8", What: "and so is its TTFT p99",
		Theirs:  "8.19 ± 5.6 to 4.22 ± 0.05 s (1P/5D); 25.9 to 3.4 s (1P/2D)",
		Ours:    both(spiked("TTFT p99", five), spiked("TTFT p99", two)),
		Command: "lab games --only 3", Plot: true,
		Held: func(x []float64) bool { return x[1] < 0.9*x[0] && x[3] < 0.9*x[2] },
		Why:  "the 96 who come at once make it here, under either router"},
	{Part: "Experiment 3, Table 8", What: "at less throughput",
		Theirs:  "50.9 to 44.3 a second (1P/5D)",
		Ours:    spiked("rps", five),
		Command: "lab games --only 3",
		Held:    func(x []float64) bool { return x[1] < 0.95*x[0] },
		Why:     "by Little's law that is the gain: fewer are served at once"},
	{Part: "Experiment 3", What: "the spike is seen",
		Theirs: "after 58.3 ± 15.7 s (1P/5D), 48.6 ± 13.0 s (1P/2D)",
		Ours: labelled(cells("games", spikes, "seen", five+" | "+adaptive, two+" | "+adaptive,
			five+" | market"), "1P/5D", "1P/2D", "market"),
		Command: "lab games --only 3"},
	{Part: "Experiment 3, Table 7", What: "Nemotron 340B",
		Theirs: "33.2 to 25.8",
		Why:    "nobody measured an engine of it"},
	{Part: "Experiment 4a, Table 6a, Fig. 6a",
		What:   "below the knee no temperature and weight moves the index",
		Theirs: "7.47 ± 0.08 (1P/2D), 14.93 ± 0.06 (1P/5D)",
		Ours: labelled(cells("games", weights, "most by least", two+" | dynamo | PoA window",
			five+" | dynamo | PoA window"), "most by least cell: 1P/2D", "1P/5D"),
		Command: "lab games --only 4a", Plot: true,
		Held: func(x []float64) bool { return max(x[0], x[1]) < 1.05 }},
	{Part: "Experiment 4b, Table 6c, Fig. 6c", What: "on the knee they do, by 1.9 and 2.0 times",
		Theirs: "14.6 to 28.2 (1P/2D), 2.0 times (1P/5D)",
		Ours: after(1, labelled(cells("games", weights, "most by least", two+" | dynamo | PoA window",
			five+" | dynamo | PoA window"), "most by least cell: 1P/2D", "1P/5D")),
		Command: "lab games --only 4b", Plot: true,
		Held: func(x []float64) bool { return min(x[0], x[1]) > 1.5 },
		Why:  "its cells are single runs without intervals"},
	{Part: "Table 6b, Fig. 6b", What: "Nemotron 340B",
		Theirs: "34.3 ± 3.7",
		Why:    "nobody measured an engine of it"},
	{Part: "Game 2", What: "prefixes that several engines could hold",
		Theirs: "characterised, never spilled",
		Ours: labelled(cells("games", "Game 2:", "cached", "4 | dynamo, weight 1 | 1", "4 | market | 1"),
			"cached where all fit once: its router", "market"),
		Command: "lab games --only game2"},
	{Part: "Game 1", What: "engines that compute against engines that answer",
		Theirs: "characterised, not varied",
		Why:    "its marginals are on [games](games.md), by `lab games --only game1`; the market plans no engines"},
}
