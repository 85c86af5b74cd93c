package quality

// Valid reports whether what was written down can be what was said of an agent.
func (a *Agent) Valid() bool {
	last := ""
	for i := range a.Domains {
		d := &a.Domains[i]
		if d.Domain <= last {
			return false
		}
		last = d.Domain
		for k, t := range d.Said {
			if !share(t.Weight, t.Sum, memory[k]) {
				return false
			}
		}
		voice := ""
		for _, v := range d.Voices {
			if v.Client <= voice || v.Paid < 0 || !share(v.Weight, v.Sum, 1e9) {
				return false
			}
			voice = v.Client
		}
		if len(d.Voices) > voicesKept {
			return false
		}
	}
	return len(a.Domains) <= domainsKept
}

// share reports whether a sum is possible for shares of such a weight.
func share(weight, sum, most float64) bool {
	const off = 1 + 1e-9
	return weight >= 0 && weight <= float64(most*off) && sum >= 0 && sum <= float64(weight*off)
}
