package sage

// rank gives a role that runs a slot, or a better one, if it runs far more often than who has it.
func (g *graph) rank(r uint8) {
	k := int(g.slot[r])
	if k > 0 && k <= often {
		return
	}
	from, to := 0, often // the slots that would be better
	if k == 0 {
		to = busy
	}
	least := from
	for i := from; i < to; i++ {
		if g.top[i] == 0 {
			least = i
			break
		}
		if g.count[g.top[i]] < g.count[g.top[least]] {
			least = i
		}
	}
	was := g.top[least]
	if was != 0 && g.count[r] <= 2*g.count[was]+often {
		return
	}
	if k == 0 {
		g.slot[was], g.slot[r], g.top[least] = 0, uint8(least+1), r
		g.empty(least)
	} else {
		k--
		g.slot[was], g.slot[r], g.top[least], g.top[k] = uint8(k+1), uint8(least+1), r, was
		g.one[least], g.one[k] = g.one[k], g.one[least]
		for i := range g.one {
			g.one[i][least], g.one[i][k] = g.one[i][k], g.one[i][least]
		}
		g.common[least], g.common[k] = g.common[k], g.common[least]
		for i := range g.two {
			g.two[i][least] = 0
		}
	}
	g.slot[0] = 0
	g.tops = max(g.tops, least+1)
}

// relax works out what the returns from a role are worth from what those from the roles after it are: over
// all that come next, by their chances, 1 for the role meant, and else what its returns are worth, less for
// its call. Step by step, as each state is left, all come to what they say of one another. What comes after
// a role by its mere frequency is the same for all roles; it is kept for all, and worked out for one more.
func (g *graph) relax(last uint8) {
	top := g.top[:g.tops]
	if g.steps%2 == 0 && g.total > 0 {
		if g.turn++; g.turn >= len(top) {
			g.turn = 0
		}
		sum := float32(0)
		for k, y := range top {
			worth := float32(g.single[y].less() * float32(g.one[k][g.turn]))
			if k == g.turn {
				worth = 65535
			}
			sum += float32(float32(g.count[y]) * worth)
		}
		g.common[g.turn] = sum / float32(g.total)
	}
	k := int(g.slot[last]) - 1
	if k < 0 {
		return
	}
	s := &g.single[last]
	part := 1 / float32(s.total()+pseudo)
	var room [busy]float32
	worth := room[:len(top)]
	for b, x := range g.common[:len(top)] {
		worth[b] = float32(pseudo * part * x)
	}
	for i, y := range s.next {
		to := int(g.slot[y]) - 1
		if s.n[i] == 0 || y == endOf || to < 0 || to >= len(worth) {
			continue
		}
		p := float32(s.n[i]) * part
		less := p * g.single[y].less()
		was := worth[to]
		for b, x := range g.one[to][:len(worth)] {
			worth[b] += float32(less * float32(x))
		}
		worth[to] = was + float32(p*65535)
	}
	for b, x := range worth {
		g.one[k][b] = uint16(min(x+0.5, 65535))
	}
}

// relaxTwo does the same for a state of two roles. The one after it is of two as well, if that is known, or
// else of the last alone.
func (g *graph) relaxTwo(at int) {
	s, last := &g.double[at], uint8(g.keys[at])
	part := 1 / float32(s.total()+pseudo)
	var worth [often]float32
	if k := int(g.slot[last]) - 1; k >= 0 {
		for b := range worth {
			worth[b] = float32(pseudo * part * float32(g.one[k][b]))
		}
	}
	for i, y := range s.next {
		to := int(g.slot[y]) - 1
		if s.n[i] == 0 || y == endOf || to < 0 {
			continue
		}
		row, by := (*[often]uint16)(g.one[to][:often]), &g.single[y]
		if k := g.find(last, y, false); k >= 0 {
			row, by = &g.two[k], &g.double[k]
		}
		p := float32(s.n[i]) * part
		less := p * by.less()
		was := float32(0)
		if to < often {
			was = worth[to]
		}
		for b, x := range row {
			worth[b] += float32(less * float32(x))
		}
		if to < often {
			worth[to] = was + float32(p*65535)
		}
	}
	for b := range worth {
		g.two[at][b] = uint16(min(worth[b]+0.5, 65535))
	}
}
