package bench

// silent is the way to fail in which an engine takes a request and says nothing.
const silent = "silent"

// silentBar makes the bar of the longest answer among those asked while an engine was silent.
func silentBar(longest []float64) Bar {
	return Bar{Name: "the same: longest answer", Asked: "at most 2.5 s", Limit: 2.5, Unit: "s",
		Measured: median(longest), Runs: longest,
		Note: "its task goes to another agent once its first token is later than one in a thousand is"}
}
